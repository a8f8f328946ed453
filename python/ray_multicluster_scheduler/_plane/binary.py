"""The `ray-multicluster` program on this machine."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from .. import _env
from ..errors import ControlPlaneError

NAME = "ray-multicluster"


def find() -> Path:
    """``$RAY_MULTICLUSTER_BIN``; else the one installed with this package; else on ``PATH``."""
    named = os.environ.get(_env.BIN)
    if named:
        if is_program(Path(named)):
            return Path(named).absolute()
        raise ControlPlaneError(
            f"{named} is not the {NAME} program",
            hint=f"${_env.BIN} names it: correct it, or unset it",
        )
    tried = [f"${_env.BIN} (not set)"]
    for folder in _installed():
        if is_program(folder / NAME):
            return folder / NAME
        tried.append(str(folder / NAME))
    for path in (Path(folder, NAME) for folder in os.get_exec_path()):
        if is_program(path):
            return path.absolute()
    tried.append("every folder of $PATH")
    places = "\n    ".join(tried)
    raise ControlPlaneError(
        f"the control plane's program {NAME} was not found",
        hint="install the wheel for this platform (`make wheels` builds it),\n  or use a control "
        f"plane that runs elsewhere: set {_env.ADDRESS}; looked at\n    {places}",
    )


def version(program: Path) -> str:
    """The output of ``--version``; run again only if the file was replaced."""
    return _version(program, program.stat().st_mtime_ns)


def is_older(one: str, other: str) -> bool:
    """By semantic versioning, as far as our versions need it: 0.2.0-rc.1 < 0.2.0 < 0.10.0."""
    return _order(one) < _order(other)


def is_program(path: Path) -> bool:
    """False for our own console script, which looks for the program itself."""
    if not path.is_file() or not os.access(path, os.X_OK):
        return False
    with path.open("rb") as file:
        return b"ray_multicluster_scheduler._cli" not in file.read(1024)


def _installed() -> Iterator[Path]:
    """Where installers put the scripts of a package: of this environment, of the user, and of
    ``pip install --target``."""
    folders = [
        Path(sysconfig.get_path("scripts")),
        Path(sys.executable).parent,
        Path(sysconfig.get_path("scripts", f"{os.name}_user")),
        Path(__file__).resolve().parents[2] / "bin",
    ]
    return iter(dict.fromkeys(folders))


@functools.cache
def _version(program: Path, modified: int) -> str:
    try:
        ran = subprocess.run(
            [str(program), "--version"], capture_output=True, text=True, timeout=30, check=True
        )
        return ran.stdout.split()[-1]
    except (OSError, subprocess.SubprocessError, IndexError) as error:
        said = (getattr(error, "stderr", None) or str(error)).strip()
        raise ControlPlaneError(
            f"{program} --version does not work: {said}",
            hint="is it built for this platform? Install the wheel again",
        ) from error


def _order(text: str) -> tuple[list[int], bool, list[tuple[bool, int, str]]]:
    release, _, before = text.partition("+")[0].partition("-")
    parts = re.findall(r"\d+|[A-Za-z]+", before)
    words = [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts]
    return [int(number) for number in re.findall(r"\d+", release)], not before, words
