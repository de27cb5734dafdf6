"""The simulator. HIPSYNTH_NATIVE names a folder whose native module is used instead of the installed one."""

import os

if os.environ.get("HIPSYNTH_NATIVE"):
    __path__.insert(0, os.environ["HIPSYNTH_NATIVE"])
