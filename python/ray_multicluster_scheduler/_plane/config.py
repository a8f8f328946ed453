"""Finding the configuration: the same places, in the same order, as the control plane."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import ConfigurationError

VARIABLE = "CLUSTER_CONFIG_FILE"
FILE_NAME = "cluster.yaml"
HOME_DIRECTORY = ".ray_scheduler"
SYSTEM_DIRECTORY = Path("/etc/ray_scheduler")

EXAMPLE = """\
clusters:
  - name: centos
    head_address: 192.168.5.7:10001       # Ray Client
    dashboard: http://192.168.5.7:8265    # Ray's dashboard"""


def find(explicit: str | os.PathLike[str] | None = None) -> Path:
    """The given file, or else the first that exists of ``$CLUSTER_CONFIG_FILE``, ``cluster.yaml``
    in the working directory, in ``~/.ray_scheduler`` and in ``/etc/ray_scheduler``. A given file
    must exist: using another would be a surprise.
    """
    if explicit is not None:
        return identity(_must_exist(Path(explicit).expanduser(), "check config_file_path"))
    named = os.environ.get(VARIABLE)
    if named:
        hint = f"${VARIABLE} names this file: correct it, or unset it"
        return identity(_must_exist(Path(named), hint))
    home = os.environ.get("HOME")
    folders = [Path.cwd(), *([Path(home, HOME_DIRECTORY)] if home else []), SYSTEM_DIRECTORY]
    tried = [f"${VARIABLE} (not set)"]
    for path in (folder / FILE_NAME for folder in folders):
        problem = _problem(path)
        if problem is None:
            return identity(path)
        tried.append(f"{path} ({problem})")
    places, example = "\n    ".join(tried), EXAMPLE.replace("\n", "\n    ")
    raise ConfigurationError(
        "no configuration file was found",
        hint=f"pass config_file_path, or create one of these; looked at\n    {places}\n"
        f"  the least it needs:\n    {example}",
    )


def identity(path: Path) -> Path:
    """The file under one name: links of folders are resolved, a link of the file itself is kept.

    A mounted ConfigMap is changed by pointing that link elsewhere; it stays the same pool.
    """
    return Path(os.path.realpath(path.parent), path.name)


def _must_exist(path: Path, hint: str) -> Path:
    problem = _problem(path)
    if problem is not None:
        raise ConfigurationError(f"{path}: {problem}", hint=hint)
    return path


def _problem(path: Path) -> str | None:
    try:
        if path.is_dir():
            return "is a directory"
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return "there is no such file"
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return None
