"""The SDK itself, as a package: a job uses the copy that submitted it, and no other."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .._plane.wire import Cluster
from .packages import Packages
from .progress import say

FOLDER = Path(__file__).resolve().parents[1]

#: For this long it is assumed to be on the control plane, which keeps requested packages longer.
IS_THERE = 60.0


class OwnPackage:
    """Uploaded once by content, as every package is. Safe to use from any thread."""

    def __init__(self, packages: Packages) -> None:
        self._packages = packages
        self._known: tuple[float, str] | None = None

    def uri(self) -> str | None:
        """None for a copy that is not a folder, such as one inside a zip file."""
        known, now = self._known, time.monotonic()
        if known is None or now > known[0]:
            if not FOLDER.is_dir():
                return None
            known = self._known = (now + IS_THERE, self._packages.py_module(str(FOLDER), []))
        return known[1]


_told: set[str] = set()


def warn_of_other_copies(clusters: Iterable[Cluster]) -> None:
    """Warns once of clusters with another copy on the `PYTHONPATH` of their `runtime_env`."""
    for cluster in clusters:
        is_hidden = cluster.get("inject_sdk") is not False
        effect = (
            "jobs of this program use their own copy"
            if is_hidden
            else "jobs there use that copy, because of `inject_sdk: false`"
        )
        for entry in other_copies(cluster.get("runtime_env")):
            line = (
                f"cluster {cluster.get('name')} has another copy of this package on its "
                f"PYTHONPATH, {entry}: {effect}"
            )
            if line not in _told:
                _told.add(line)
                say(f"{line}\n  hint: remove it from the cluster's runtime_env")


def other_copies(env: Any) -> Iterator[str]:
    """Entries of a runtime_env's `PYTHONPATH` that hold this package, as far as can be seen."""
    variables = env.get("env_vars") if isinstance(env, dict) else None
    path = variables.get("PYTHONPATH") if isinstance(variables, dict) else None
    entries = map(str.strip, path.split(":")) if isinstance(path, str) else ()
    for folder in map(Path, filter(os.path.isabs, entries)):
        package = folder / FOLDER.name
        # A checkout on the cluster is recognised by its name alone, one on this machine by its
        # content.
        is_one = folder.name == FOLDER.name or (package / "__init__.py").is_file()
        if is_one and package.resolve() != FOLDER:
            yield str(folder)
