"""The simulator. If HIPSYNTH_NATIVE is set, the native module is loaded from that folder."""

import os

if os.environ.get("HIPSYNTH_NATIVE"):
    __path__.insert(0, os.environ["HIPSYNTH_NATIVE"])
