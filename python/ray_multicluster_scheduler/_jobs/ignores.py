"""Which files of a folder are packed, by Ray's rules.

Patterns are those of git. They come from ``excludes`` of the runtime_env, from Ray's defaults, and
from ``.gitignore`` and ``.rayignore`` of every folder on the way. Each list is applied separately:
a ``!pattern`` takes back what its own list excludes, never what another one does.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

#: Ray's defaults for a working_dir.
DEFAULT_EXCLUDES = ".git,.venv,venv,__pycache__"


def default_excludes() -> list[str]:
    given = os.environ.get("RAY_OVERRIDE_RUNTIME_ENV_DEFAULT_EXCLUDES", DEFAULT_EXCLUDES)
    return [pattern.strip() for pattern in given.split(",") if pattern.strip()]


class Ignores:
    """The patterns of one list, for paths below one folder."""

    def __init__(self, base: str, patterns: Iterable[str]) -> None:
        #: Relative to the packed folder; "" for its root.
        self._base = base
        # A lone slash matches nothing in git, but everything in one version of pathspec.
        lines = [line.rstrip("\r\n") for line in patterns if line.strip() != "/"]
        self._spec = _spec(lines)
        self._takes_back = any(pattern.include is False for pattern in self._spec.patterns)

    def match(self, name: str, is_folder: bool) -> bool:
        """True if the file or folder of this name is left out."""
        relative = name[len(self._base) :].lstrip("/") or "."
        if self._spec.match_file(relative):
            return True
        # `data/` excludes the files below it one by one. Unless a pattern takes some of them back,
        # there is no need to look at a million of them.
        return is_folder and not self._takes_back and bool(self._spec.match_file(relative + "/"))


def of_folder(path: str, name: str) -> list[Ignores]:
    """The ignore lists in a folder."""
    files = [".gitignore", ".rayignore"]
    if os.environ.get("RAY_RUNTIME_ENV_IGNORE_GITIGNORE", "0") == "1":
        files.remove(".gitignore")
    found = []
    for file in (os.path.join(path, file) for file in files):
        if os.path.isfile(file):
            with open(file, encoding="utf-8", errors="surrogateescape") as lines:
                found.append(Ignores(name, lines))
    return found


def _spec(lines: list[str]) -> Any:
    try:
        from pathspec import PathSpec
    except ImportError:
        # The SDK was put into a job without its dependencies. Ray, which is there, has a copy.
        from ray._private.thirdparty.pathspec import PathSpec as Copy

        return Copy.from_lines("gitwildmatch", lines)
    return PathSpec.from_lines("gitignore", lines)
