"""Console scripts: `ray-multicluster-scheduler`, and `ray-multicluster` where the program did
not come with the package. Both run the program."""

from __future__ import annotations

import os
import sys

from ._plane import binary
from .errors import ControlPlaneError


def main() -> None:
    """Replaces this process with the program; prints how to get the program if there is none."""
    try:
        program = str(binary.find())
    except ControlPlaneError as missing:
        sys.exit(f"error: {missing}")
    os.execv(program, [program, *sys.argv[1:]])
