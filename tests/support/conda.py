"""A stand-in for conda: as much of it as Ray uses, without any package.

No package index has a conda that runs: PyPI's was withdrawn and refuses to start, Debian and npm
have none. So environments are virtualenvs; Ray's own part (finding the environment, activating it
before each worker) is the real one.
"""

from __future__ import annotations

import json
from pathlib import Path

# Ray runs `conda info --json`, sources conda.sh, and runs `conda activate NAME`.
PROGRAM = """#!/bin/sh
[ "$1" = info ] && cat "{info}"
exit 0
"""
ACTIVATE = """conda() {{
    if [ "$1" = activate ]; then
        export CONDA_DEFAULT_ENV="$2" CONDA_PREFIX="{envs}/$2" PATH="{envs}/$2/bin:$PATH"
    fi
}}
"""


def install(folder: Path, *environments: str) -> dict[str, str]:
    """Variables with which Ray finds these environments in `envs`. While one is empty, programs in
    it are the tests' own.
    """
    info = folder / "info.json"
    for path in ("bin", "etc/profile.d"):
        (folder / path).mkdir(parents=True)
    envs = [str(folder), *(str(folder / "envs" / name) for name in environments)]
    info.write_text(json.dumps({"conda_prefix": str(folder), "envs": envs}))
    (folder / "etc/profile.d/conda.sh").write_text(ACTIVATE.format(envs=folder / "envs"))
    program = folder / "bin" / "conda"
    program.write_text(PROGRAM.format(info=info))
    program.chmod(0o755)
    return {"RAY_CONDA_HOME": str(folder)}
