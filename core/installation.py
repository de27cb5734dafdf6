"""What to do about a missing part: in a checkout `make setup`; where hipsynth is installed as a package, a command.

Packages that only some verbs need belong to extras of hipsynth's own package.
"""

from __future__ import annotations

from hipsynth.core.cache import REPOSITORY
from hipsynth.core.errors import MissingDependency

# import name -> extra, as in pyproject.toml
EXTRA_OF = {
    "accelerate": "train",
    "anyio": "serve",
    "cmake": "survey",
    "datasets": "rl",
    "deepspeed": "train",
    "fastapi": "serve",
    "gguf": "train",
    "lightgbm": "train",
    "lsprotocol": "serve",
    "material": "docs",
    "matplotlib": "report",
    "mcp": "serve",
    "mcp_types": "serve",
    "ninja": "survey",
    "pandas": "pandas",
    "peft": "train",
    "prometheus_client": "serve",
    "pyarrow": "corpus",
    "pydantic": "serve",
    "pygls": "serve",
    "ray": "ray",
    "starlette": "serve",
    "tensorboard": "train",
    "tokenizers": "train",
    "torch": "train",
    "transformers": "train",
    "triton": "triton",
    "trl": "rl",
    "uvicorn": "serve",
}


REINSTALL = "pip install --force-reinstall --no-deps WHEEL    (the hipsynth-*.whl that was installed)"


def set_up_by(command: str = "") -> str:
    """How to get a part of the toolchain: `make setup` in a checkout, else `command` (nothing: the package again)."""
    if not (REPOSITORY / "Makefile").is_file():
        return command or REINSTALL
    return f"make setup    (or: {command})" if command else "make setup"


def install_packages(*names: str) -> str:
    """How to get packages of the distribution."""
    return set_up_by("apt-get install " + " ".join(names))


def install_command(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install 'hipsynth[{extra}]'"


def missing_package(name: str, *, cause: str = "", extra: str = "") -> MissingDependency:
    """The error about a package of an extra that is not installed: `name` is its import name."""
    extra = extra or EXTRA_OF[name.partition(".")[0]]
    problem = f"the package {name.partition('.')[0]} is not installed"
    return MissingDependency(problem, cause=cause, remedy=install_command(extra))


def explain_import(error: ImportError) -> MissingDependency | None:
    """The error to show for a failed import, or None if it is not about a package of an extra."""
    name = (error.name or "").partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or name not in EXTRA_OF:
        return None
    return missing_package(name)
