"""`python start.py SCRIPT ARGS...`: runs a script as `python SCRIPT ARGS...` would, with the virtual device."""

import gc
import importlib.util
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
PACKAGE = "hipsynth_device"  # the name of this folder as a package, which no script has


def main() -> None:
    spec = importlib.util.spec_from_file_location(
        PACKAGE, FOLDER / "__init__.py", submodule_search_locations=[str(FOLDER)]
    )
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = package
    spec.loader.exec_module(package)
    sys.argv = sys.argv[1:]
    del sys.path[0]  # neither this folder's modules nor the script's stand for those that the device imports
    gc.disable()  # the imports leave nothing to collect, and looking for it takes a sixth of their time
    session = importlib.import_module(f"{PACKAGE}.session")
    gc.enable()
    sys.path.insert(0, str(Path(sys.argv[0]).resolve().parent))
    session.run_script(sys.argv[0])


if __name__ == "__main__":
    main()
