"""The user's folder below each cluster's home.

On a real pool every machine has its own checkout of the users' programs, below its own home. A job
names one by its path on the submitting machine, and the path is translated. Here a link below each
cluster's home takes the place of the checkout.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from .state import Failed, make_dir


def place(project: Path, user_home: Path | None) -> Path | None:
    """The place of `project` below every home: the same as below the user's own. A folder outside
    of the home needs no translation, and gets a place all the same, for PYTHONPATH. None if it
    cannot be linked: a home itself, or a folder around it.
    """
    if user_home is not None and (project == user_home or project in user_home.parents):
        return None
    if user_home is not None and user_home in project.parents:
        return project.relative_to(user_home)
    return Path("project", project.name) if project.name else None


def link(project: Path, home: Path, place: Path) -> Path:
    """Links `project` at `place` below `home`, and returns the link."""
    made = home / place
    make_dir(made.parent)
    if made.is_symlink():
        made.unlink()
    elif made.exists():
        raise Failed(f"{made} is in the way of a link to {project}")
    made.symlink_to(project)
    return made


def unlink(link: Path, directory: Path) -> None:
    """Removes a link, and the folders that it leaves empty up to `directory`."""
    if link.is_symlink():
        link.unlink()
    with contextlib.suppress(OSError):
        for folder in link.parents:
            if directory not in folder.parents:
                break
            folder.rmdir()
