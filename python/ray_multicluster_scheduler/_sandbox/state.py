"""The started clusters, on disk: enough for any later command to find and end them."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .cluster import Cluster
from .processes import Process


class Failed(Exception):
    """An error for the user: what happened, and optionally a line with `hint: …`."""


@dataclass
class State:
    """Written by `up` before it starts anything."""

    clusters: list[Cluster] = field(default_factory=list)
    #: The user's folder that all clusters have.
    project: Path | None = None
    #: Links below the clusters' homes, made by us.
    links: list[Path] = field(default_factory=list)


class Sandbox:
    """The directory of one sandbox."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.config = directory / "cluster.yaml"
        self._file = directory / "sandbox.json"

    def home(self, cluster: str) -> Path:
        """A cluster's home directory, the `HOME` of all processes on it."""
        return self.directory / "homes" / cluster

    def record(self, cluster: str) -> Path:
        """The file that names its first process."""
        return self.directory / f"{cluster}.pid"

    def token(self, cluster: str) -> Path:
        """The file with its token."""
        return self.directory / f"{cluster}.token"

    def log(self, cluster: str) -> Path:
        """The output of `ray start`."""
        return self.directory / f"{cluster}.log"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """One command at a time."""
        make_dir(self.directory)
        with open(self.directory / "lock", "a", opener=_private) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Failed(f"another command works on the sandbox in {self.directory}") from None
            yield

    def load(self) -> State:
        """Empty if nothing was started."""
        try:
            found = json.loads(self._file.read_bytes())
            return State(
                clusters=[
                    Cluster(
                        one["name"],
                        one["cpus"],
                        one["first_port"],
                        Path(one["temp_dir"]),
                        # Earlier versions started clusters without one.
                        Path(one["token_file"]) if one.get("token_file") else None,
                    )
                    for one in found["clusters"]
                ],
                project=Path(found["project"]) if found["project"] else None,
                links=[Path(link) for link in found["links"]],
            )
        except FileNotFoundError:
            return State()
        except (ValueError, KeyError, TypeError) as error:
            raise Failed(f"{self._file} is not what was written: {error}") from error

    def save(self, state: State) -> None:
        write(
            self._file,
            {
                "clusters": [vars(cluster) for cluster in state.clusters],
                "project": state.project,
                "links": state.links,
            },
        )

    def forget(self) -> None:
        """Last of all: until then `down` can be run again."""
        remove(self.config)
        remove(self._file)

    def first_process(self, cluster: str) -> Process | None:
        """As recorded; it may have ended."""
        try:
            found = json.loads(self.record(cluster).read_bytes())
            return Process(found["pid"], found["birth"])
        except (OSError, ValueError, KeyError, TypeError):
            return None


def make_dir(path: Path) -> None:
    """For its owner only, who alone decides what is started or ended."""
    # `mkdir` applies the mode to the last folder alone.
    for folder in [*reversed(path.parents), path]:
        if not folder.is_dir():
            folder.mkdir(mode=0o700, exist_ok=True)


def write(path: Path, content: Any) -> None:
    """Text, or anything as JSON; in one step, so that no reader sees half of it."""
    text = content if isinstance(content, str) else json.dumps(content, indent=2, default=str)
    fresh = path.with_name(path.name + ".new")
    with open(fresh, "w", opener=_private, encoding="utf-8") as file:
        file.write(text)
    fresh.replace(path)


def remove(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        path.unlink()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
