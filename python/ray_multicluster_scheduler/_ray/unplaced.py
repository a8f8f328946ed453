"""Work of this job that Ray cannot place: reported in the job's own output, each once.

Ray waits silently. Its state API shows the waiting work and its demand; the nodes show what is
free; the job's supervisor shows what the driver itself holds.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ray

from .._jobs.progress import say
from ..errors import PlacementTimeoutError
from . import internals

log = logging.getLogger("ray_multicluster_scheduler")

#: The first look comes this long after a start, and the pause between looks is at most this long.
FIRST, LONGEST = 5.0, 60.0

#: Work that has waited for less may be starting: Ray updates task states once a second.
YOUNG = 2.0

#: Kinds of work, in Ray's words, and how many of each are examined: tasks queue by the thousand.
KINDS = (("actor", "ACTOR_CREATION_TASK", 1000), ("task", "NORMAL_TASK", 100))

_RESERVED_BY = {
    "CPU": "entrypoint_num_cpus",
    "GPU": "entrypoint_num_gpus",
    "memory": "entrypoint_memory",
}

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")

Amounts = Mapping[str, float]


@dataclass(frozen=True)
class Waiting:
    """A task or an actor that waits for resources."""

    id: str
    #: `task` or `actor`.
    kind: str
    name: str
    asks: Amounts


@dataclass(frozen=True)
class Room:
    """Total and free resources of the nodes; each a list of one mapping per node."""

    total: list[Amounts]
    free: list[Amounts]

    @classmethod
    def now(cls) -> Room:
        with internals.disable_client_hook():
            nodes = [node for node in ray.nodes() if node["Alive"]]
            free = internals.free_by_node()
        return cls(
            [node["Resources"] for node in nodes],
            [free.get(node["NodeID"], {}) for node in nodes],
        )

    def fits(self, asks: Amounts) -> bool:
        return any(_fits(asks, free) for free in self.free)


class Watch:
    """Looks some time after a start, and continues while that work still waits."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._changed = threading.Condition()
        self._due: float | None = None
        self._pause = FIRST
        # When work was last started: a look only sees work that was started well before.
        self._latest = 0.0
        self._is_running = False
        self._is_over = False
        self._said: set[str] = set()

    def note(self) -> None:
        """Work was started."""
        with self._changed:
            self._pause = FIRST
            self._latest = time.monotonic()
            self._look_by(self._latest + FIRST)
            if not self._is_running and not self._is_over:
                self._is_running = True
                threading.Thread(
                    target=self._run, name="ray-multicluster-unplaced", daemon=True
                ).start()

    def close(self) -> None:
        with self._changed:
            self._is_over = True
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._is_over and (self._due is None or time.monotonic() < self._due):
                    rest = None if self._due is None else self._due - time.monotonic()
                    self._changed.wait(None if rest is None else max(rest, 0.0))
                if self._is_over:
                    return
                self._due, looked = None, time.monotonic()
            try:
                is_waiting = self._look()
            except Exception as error:
                # This is only an aid: a dashboard that does not answer must not disturb the job.
                log.debug("what waits on %s is not known: %s", self._cluster, error)
                is_waiting = True
            with self._changed:
                if is_waiting:
                    self._look_by(time.monotonic() + self._pause)
                    self._pause = min(2 * self._pause, LONGEST)
                if self._latest > looked - FIRST:
                    self._look_by(self._latest + FIRST)

    def _look_by(self, moment: float) -> None:
        if self._due is None or moment < self._due:
            self._due = moment
            self._changed.notify()

    def _look(self) -> bool:
        """Whether work still waits that was not reported."""
        waiting = [one for one in pending() if one.id not in self._said]
        if not waiting:
            return False
        room = Room.now()
        stuck = without_place(waiting, room, given_out())
        # Tasks that queue behind other tasks of the same job make progress.
        if any(one.kind == "task" for one in stuck) and _has_running_tasks():
            stuck = [one for one in stuck if one.kind != "task"]
        groups: dict[tuple[str, str], list[Waiting]] = {}
        for one in stuck:
            key = (one.kind, json.dumps(one.asks, sort_keys=True))
            groups.setdefault(key, []).append(one)
        held = driver_holds() if groups else {}
        for (kind, _), group in groups.items():
            names = [one.name for one in group]
            say(cannot_start(kind, names, group[0].asks, self._cluster, room, held))
            self._said.update(one.id for one in group)
        return len(stuck) < len(waiting)


def await_place(handle: Any, name: str, asks: Amounts, cluster: str, timeout: float) -> None:
    """Returns once Ray has placed the actor.

    Raises:
        PlacementTimeoutError: it has not within `timeout` seconds; the actor is gone.
    """
    deadline = time.monotonic() + timeout
    while not internals.has_place(handle):
        if time.monotonic() < deadline:
            time.sleep(0.05)
            continue
        said = cannot_start("actor", [name], asks, cluster, Room.now(), _holds_if_known())
        with internals.disable_client_hook():
            ray.kill(handle)
        raise PlacementTimeoutError(
            f"Ray found no place within {timeout:g} s: {said}",
            hint="ask for less, give the job's driver less, or wait longer",
            cluster=cluster,
        )


def _holds_if_known() -> Amounts:
    try:
        return driver_holds()
    except Exception as error:
        log.debug("what this job's driver holds is not known: %s", error)
        return {}


def pending() -> list[Waiting]:
    """Work that this job started and that has waited for resources for a while."""
    now = time.time()
    found = []
    for kind, ray_kind, most in KINDS:
        pending = ("state", "=", "PENDING_NODE_ASSIGNMENT"), ("type", "=", ray_kind)
        for task in _tasks(*pending, limit=most):
            if now - (task.creation_time_ms or 0) / 1000 < YOUNG:
                continue
            asks = dict(task.required_resources or {})
            if kind == "actor" and not asks:
                # An actor without a demand holds nothing, but needs a CPU to be placed.
                asks = {"CPU": 1.0}
            found.append(Waiting(task.task_id, kind, _name(kind, task.name), asks))
    return found


def without_place(waiting: list[Waiting], room: Room, given: Amounts) -> list[Waiting]:
    """Work for which no resources are free, and none are set aside.

    Ray sets aside the demand of an actor before its process has started, and still calls it
    pending. Resources in use that no running work holds belong to such actors.
    """
    starting: dict[str, float] = {}
    for key in {key for node in room.total for key in node}:
        total, free = (sum(node.get(key, 0) for node in nodes) for nodes in (room.total, room.free))
        # These are sums of floats, and bytes are rounded.
        slack = 64 << 20 if key == "memory" else 1e-3
        starting[key] = total - free - given.get(key, 0) + slack
    stuck = []
    for one in waiting:
        if _fits(one.asks, starting):
            for key, amount in one.asks.items():
                starting[key] -= amount
        elif not room.fits(one.asks):
            stuck.append(one)
    return stuck


def given_out() -> dict[str, float]:
    """The resources that all running work on this cluster holds."""
    from ray.util.state import list_actors, list_tasks

    more: dict[str, Any] = {
        "detail": True,
        "limit": 10_000,
        "timeout": 5,
        "raise_on_missing_output": False,
    }
    running = [
        *list_actors(filters=[("state", "=", "ALIVE")], **more),
        *list_tasks(filters=[("state", "=", "RUNNING"), ("type", "=", "NORMAL_TASK")], **more),
    ]
    held: dict[str, float] = {}
    for one in running:
        for key, amount in (one.required_resources or {}).items():
            held[key] = held.get(key, 0) + amount
    return held


def driver_holds() -> dict[str, float]:
    """The resources that Ray has set aside for this job's own driver."""
    job = json.loads(os.environ.get(internals.JOB_CONFIG, "{}"))
    submission = job.get("metadata", {}).get("job_submission_id")
    if not submission:
        return {}
    from ray.util.state import list_actors

    found = list_actors(
        filters=[("name", "=", internals.SUPERVISOR + submission)], detail=True, timeout=5
    )
    return dict(found[0].required_resources or {}) if found else {}


def cannot_start(
    kind: str, names: list[str], asks: Amounts, cluster: str, room: Room, held: Amounts
) -> str:
    """One line: the demand, what is free, and what the job's own driver holds."""
    # Ray returns them in any order.
    asks = {key: asks[key] for key in sorted(asks, key=lambda key: (key not in _RESERVED_BY, key))}
    if len(names) == 1:
        said = f"{kind} {names[0]} cannot start: it asks for {_shown(asks)}"
    else:
        listed = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        said = f"{len(names)} {kind}s ({listed}) cannot start: each asks for {_shown(asks)}"
    beyond = [key for key in asks if all(node.get(key, 0) < asks[key] for node in room.total)]
    if beyond:
        largest = {key: max((node.get(key, 0) for node in room.total), default=0) for key in beyond}
        return f"{said}; no node of {cluster} has that much, the largest has {_shown(largest)}"
    short = [key for key in asks if all(node.get(key, 0) < asks[key] for node in room.free)]
    lines = []
    for key in short or asks:
        free, total = (sum(node.get(key, 0) for node in nodes) for nodes in (room.free, room.total))
        line = f"{_amount(key, free)} of {_shown({key: total})}"
        if len(room.total) > 1 and free >= asks[key]:
            most = max(node.get(key, 0) for node in room.free)
            line += f" (at most {_amount(key, most)} on one node)"
        lines.append(line)
    said += f"; free on {cluster}: {', '.join(lines)}"
    own = {key: held[key] for key in short or asks if held.get(key)}
    if own:
        fields = ", ".join(_RESERVED_BY.get(key, "entrypoint_resources") for key in own)
        said += f"; this job's own driver holds {_shown(own)} ({fields})"
    return said


def _name(kind: str, name: str) -> str:
    """The actor's own name, else its class; Ray says `name:Class.__init__`."""
    return name if kind == "task" else name.rpartition(":")[0] or name.removesuffix(".__init__")


def _has_running_tasks() -> bool:
    return bool(_tasks(("state", "=", "RUNNING"), ("type", "=", "NORMAL_TASK"), limit=1))


def _tasks(*filters: tuple[str, str, str], limit: int) -> list[Any]:
    from ray.util.state import list_tasks

    with internals.disable_client_hook():
        job = ray.get_runtime_context().get_job_id()
    return list_tasks(
        filters=[("job_id", "=", job), *filters],
        limit=limit,
        detail=True,
        timeout=5,
        raise_on_missing_output=False,
    )


def _fits(asks: Amounts, free: Amounts) -> bool:
    return all(free.get(key, 0) >= amount for key, amount in asks.items())


def _shown(amounts: Amounts) -> str:
    return ", ".join(f"{_amount(key, value)} {key}" for key, value in amounts.items()) or "nothing"


def _amount(key: str, value: float) -> str:
    if key != "memory":
        return f"{value:g}"
    unit = 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.1f}".removesuffix(".0") + f" {_UNITS[unit]}"
