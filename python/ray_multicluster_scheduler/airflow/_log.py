"""The log of a job, copied into the log of its task."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from .._jobs import following
from .._plane.client import ControlPlane, segment
from ..errors import SchedulerError
from ._run import Log

#: Of one job's log, in bytes: Airflow's page of a log becomes slow beyond this.
MOST = 4 << 20

#: Longer lines are divided, in characters: a progress bar may never end its line.
LONGEST = 64 << 10

#: How long the last lines may take after the job has ended.
PATIENCE = 30.0


class Copied:
    """``with Copied(…)``: the job's log while it runs, and to its end."""

    def __init__(self, plane: ControlPlane, job_id: str, log: Log) -> None:
        self._plane = plane
        self._job_id = job_id
        self._log = log
        self._thread = threading.Thread(target=self._copy, name="ray-multicluster-log", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, kind: object, *_: object) -> None:
        # Only where the task goes on: a task that is being killed does not wait for it.
        if kind is None:
            self._thread.join(PATIENCE)

    def _copy(self) -> None:
        path = f"/v1/jobs/{segment(self._job_id)}/logs/follow"
        copied = 0
        try:
            for line in lines(following.follow(self._plane, path)):
                copied += len(line) + 1
                if copied > MOST:
                    self._log.warning(
                        "only the first %d MiB of the log are copied; the rest: "
                        "ray-multicluster logs %s",
                        MOST >> 20,
                        self._job_id,
                    )
                    return
                self._log.info("%s", line)
        except SchedulerError as error:
            self._log.warning("the log cannot be followed: %s", error.message)


def lines(pieces: Iterable[str]) -> Iterable[str]:
    """Whole lines; a job may end without a newline."""
    rest = ""
    for piece in pieces:
        *whole, rest = (rest + piece).split("\n")
        yield from whole
        while len(rest) > LONGEST:
            yield rest[:LONGEST]
            rest = rest[LONGEST:]
    if rest:
        yield rest
