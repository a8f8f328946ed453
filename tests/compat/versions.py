"""The versions that are tried, and an environment for each."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from support.plane import REPOSITORY

ENVIRONMENTS = REPOSITORY / "target" / "compat"


@dataclass(frozen=True)
class Version:
    """Ray on one Python. The cluster and the programs that use it have the same."""

    ray: str
    python: str

    def __str__(self) -> str:
        return f"ray-{self.ray}-py{self.python}"

    def interpreter(self) -> str | None:
        """On PATH, or in pyenv, whose command of that name may refuse to run."""
        name = f"python{self.python}"
        pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
        kept = pyenv.glob(f"versions/{self.python}.*/bin/{name}")
        for found in filter(None, [shutil.which(name), *map(str, kept)]):
            if subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0:
                return found
        return None

    def installed(self, python: str) -> Path:
        """The `bin` of a virtual environment with this Ray and what the SDK depends on."""
        venv = ENVIRONMENTS / str(self)
        ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
        wanted = ENVIRONMENTS / f"{self}.txt"
        wanted.write_text("\n".join([f"ray[default]=={self.ray}", "pathspec", "urllib3"]))
        subprocess.run(
            [str(REPOSITORY / "scripts" / "python-env")],
            env={**os.environ, "PYTHON": python, "VENV": str(venv), "REQUIREMENTS": str(wanted)},
            check=True,
            timeout=900,
        )
        return venv / "bin"


#: `make test` runs the whole suite on NEWEST; this one is the oldest that is supported.
OLDEST = Version("2.9.3", "3.11")
NEWEST = Version("2.60.0", "3.11")
ALL = [
    OLDEST,
    Version("2.38.0", "3.11"),
    Version("2.47.1", "3.11"),
    Version("2.53.0", "3.11"),
    NEWEST,
    # The newest Ray that has wheels for Python 3.9.
    Version("2.51.2", "3.9"),
    Version("2.60.0", "3.10"),
    Version("2.60.0", "3.12"),
    Version("2.60.0", "3.13"),
]
