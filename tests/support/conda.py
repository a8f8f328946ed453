"""A stand-in for conda: as much of it as Ray uses, without any package."""

from __future__ import annotations

import json
from pathlib import Path

# Ray runs `conda info --json`, sources conda.sh, and runs `conda activate NAME`.
PROGRAM = """#!/bin/sh
[ "$1" = info ] && cat "{info}"
exit 0
"""
ACTIVATE = """conda() {
    if [ "$1" = activate ]; then export CONDA_DEFAULT_ENV="$2"; fi
}
"""


def install(folder: Path, *environments: str) -> dict[str, str]:
    """Variables with which Ray finds these environments, each with the tests' own Python."""
    info = folder / "info.json"
    for path in ("bin", "etc/profile.d"):
        (folder / path).mkdir(parents=True)
    envs = [str(folder), *(str(folder / "envs" / name) for name in environments)]
    info.write_text(json.dumps({"conda_prefix": str(folder), "envs": envs}))
    (folder / "etc/profile.d/conda.sh").write_text(ACTIVATE)
    program = folder / "bin" / "conda"
    program.write_text(PROGRAM.format(info=info))
    program.chmod(0o755)
    return {"RAY_CONDA_HOME": str(folder)}
