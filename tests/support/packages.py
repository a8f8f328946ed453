"""What users install: both wheels and the source distribution, and fresh environments for them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from .plane import REPOSITORY
from .user import User
from .waiting import PATIENCE

#: The folder of `make release`, to test what is in it instead of what is built here.
RELEASED = os.environ.get("RELEASED")

#: Programs that the package itself needs from the system.
SYSTEM = ("env", "ps", "sh")
#: What builds the source distribution: Rust, and the C compiler that Rust links with.
RUST = (*SYSTEM, "cargo", "rustc", "cc", "as", "ld", "ar", "uname")


def platform_wheel(folder: Path) -> Path:
    """With the profile and flags of `make build`, so that nothing is compiled twice."""
    if RELEASED is None:
        tags = ("--compatibility", "linux") if sys.platform == "linux" else ()
        command = ["maturin", "build", "--quiet", "--locked", "--profile", "dev", *tags]
        run(*command, "--strip", "false", "--out", folder, cwd=REPOSITORY)
    return the_one(folder, "*-py3-none-[!a]*.whl")


def client_wheel(folder: Path) -> Path:
    if RELEASED is None:
        command = ["hatchling", "build", "--target", "wheel", "--directory", folder]
        run(*command, cwd=REPOSITORY / "python")
    return the_one(folder, "*-py3-none-any.whl")


def sdist(folder: Path) -> Path:
    if RELEASED is None:
        run("maturin", "sdist", "--out", folder, cwd=REPOSITORY)
    return the_one(folder, "*.tar.gz")


def the_one(folder: Path, pattern: str) -> Path:
    place = Path(RELEASED).absolute() if RELEASED else folder
    found = list(place.glob(pattern))
    assert len(found) == 1, f"{place} has {len(found)} files {pattern}"
    return found[0]


class Environment:
    """A fresh virtualenv, and a user of it. Its programs find no Node."""

    def __init__(
        self,
        directory: Path,
        *requirements: object,
        python: str = sys.executable,
        env: dict[str, str] | None = None,
    ):
        """`env` is the environment of pip, which builds what is not built."""
        self.bin = directory / "bin"
        run(python, "-m", "venv", "--without-pip", directory)
        self.pip = (sys.executable, "-m", "pip", "--python", directory, "install", "-q")
        run(*self.pip, *requirements, env=env)
        self.system = only(directory / "system", *SYSTEM)

    def add(self, requirement: str) -> None:
        """One of the tests' own requirements, from uv's cache if it is there."""
        uv = Path(sys.executable).with_name("uv")
        command = [uv, "pip", "install", "--offline", "--python", self.bin / "python", requirement]
        if not uv.exists() or subprocess.run(command, capture_output=True).returncode != 0:
            run(*self.pip, requirement)

    def run(self, user: User, *command: object, **env: str) -> subprocess.CompletedProcess[str]:
        """One of its programs, found by its name alone."""
        program, *arguments = map(str, command)
        for name in ("PYTHONPATH", "RAY_MULTICLUSTER_BIN"):
            user.environment.pop(name, None)
        return subprocess.run(
            [str(self.bin / program), *arguments],
            env={**user.environment, "PATH": f"{self.bin}:{self.system}", **env},
            cwd=user.home,
            capture_output=True,
            text=True,
            timeout=180 * PATIENCE,
        )


def only(folder: Path, *programs: str) -> Path:
    """A folder for `PATH` with these programs and no others."""
    folder.mkdir()
    for name in programs:
        found = shutil.which(name)
        assert found is not None, f"there is no {name} on this machine"
        (folder / name).symlink_to(found)
    return folder


def run(*command: object, cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    ran = subprocess.run(
        list(map(str, command)), cwd=cwd, env=env, capture_output=True, text=True, timeout=1800
    )
    assert ran.returncode == 0, f"{command}:\n{ran.stdout}{ran.stderr}"
