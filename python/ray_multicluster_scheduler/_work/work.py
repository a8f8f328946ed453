"""Tasks and actors on any cluster: obtain a placement, then submit them to Ray there."""

from __future__ import annotations

import builtins
import contextlib
import copy
import logging
import os
import platform
import threading
import time
import weakref
from collections import Counter
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, TypeVar

from .._context import JobContext, chosen_cluster, cluster_context, current_cluster
from .._plane.client import ControlPlane
from .._ray import ray_version, when_done, when_lost
from .._settings import ACTOR_READY_TIMEOUT, actor_timeout
from ..errors import (
    ClusterConnectionError,
    ConfigurationError,
    ControlPlaneError,
    SchedulerError,
    VersionMismatchError,
)
from . import resources
from .held import Lease
from .known import Entry, Known
from .later import Later
from .leases import Leases, new_id
from .rerun import Rerun
from .running import Running, Share
from .wishes import Wishes, options_of

if TYPE_CHECKING:
    from .._ray import Connection, Connections

log = logging.getLogger("ray_multicluster_scheduler")
T = TypeVar("T")

#: A batch requests at most this many placements; its tasks share the granted ones. Enough to see
#: how much room each cluster has relative to the others.
MOST_PLACES = 16

#: The beginning of a hint.
CHECK_FIRST = "check that cluster before you submit it again (`ray list actors`, `ray list tasks`"


class Work:
    """All tasks and actors of this program. Safe to use from any thread."""

    def __init__(
        self,
        plane: ControlPlane | None,
        context: JobContext | None,
        connections: Connections,
        tasks: Known,
    ) -> None:
        self._context = context
        self._connections = connections
        self._running: Running | None = None
        if plane is not None:
            self._running = Running(Leases(plane, self._asked_to_stop))
        self._actors: weakref.WeakValueDictionary[Lease, Any] = weakref.WeakValueDictionary()
        self._stopping: set[Lease] = set()
        self._later = Later()
        self._tasks = tasks
        self._closed = False

    def task(self, id: str, function: Any, args: Any, kwargs: Any, wishes: Wishes) -> Any:
        """The reference."""
        options, demand = options_of("task", function, wishes)

        def hand_over(connection: Connection) -> Any:
            return connection.submit_task(function, args, kwargs, options)

        if wishes.on_cluster_loss == "requeue":
            # The choice of this thread, whichever thread notices the loss.
            chosen = wishes.preferred_cluster or chosen_cluster()
            wishes = replace(wishes, preferred_cluster=chosen)
        return self._run(id, id, demand, wishes, hand_over)

    def tasks(
        self, function: Any, calls: list[tuple[Any, Any]], wishes: Wishes
    ) -> list[tuple[str, Any]]:
        """Ids and references of many calls of one function, in their order.

        The whole batch is one submission. It is distributed over the placements that are free now,
        and Ray queues on each cluster the tasks that cannot run at once.
        """
        _refuse_requeue("submit_tasks", wishes)
        options, demand = options_of("task", function, wishes)
        here = self._inside(wishes)
        if here is not None:
            started = [here.submit_task(function, *call, options) for call in calls]
            submitted = [(new_id("task"), ref) for ref in started]
            self._keep(None, here, submitted)
            return submitted
        deadline = _deadline(wishes)
        places = self._places(len(calls), demand, wishes, deadline)
        found: dict[int, tuple[str, Any]] = {}
        #: How many calls were sent, by cluster.
        sent: Counter[str] = Counter()
        for number, lease in enumerate(places):
            # Every placement gets the same number, and neighbours go to different ones.
            share = range(number, len(calls), len(places))
            refs: list[Any] = []

            def hand_over(
                connection: Connection, share: range = share, refs: list[Any] = refs
            ) -> None:
                try:
                    for n in share:
                        refs.append(connection.submit_task(function, *calls[n], options))
                        sent[connection.name] += 1
                except ClusterConnectionError as error:
                    error.may_have_started = bool(refs)
                    raise

            try:
                _, lease, connection = self._hand_over(lease, deadline, hand_over)
            except BaseException as error:
                for unused in places[number + 1 :]:
                    self._outside().leases.give_back(unused, "stopped")
                # All or nothing: otherwise the caller would submit them again.
                _cancel([*refs, *(ref for _, ref in found.values())])
                if sent and isinstance(error, SchedulerError):
                    raise _partly_sent(lease.id, error, sent, len(calls)) from error
                raise
            submitted = [(new_id("task"), ref) for ref in refs]
            self._keep(lease, connection, submitted)
            found.update(zip(share, submitted))
        return [found[n] for n in range(len(calls))]

    def actor(self, id: str, cls: Any, args: Any, kwargs: Any, wishes: Wishes) -> tuple[Any, str]:
        """The handle, and the cluster."""
        _refuse_requeue("submit_actor", wishes)
        options, demand = options_of("actor", cls, wishes)

        def hand_over(connection: Connection) -> Any:
            return connection.submit_actor(cls, args, kwargs, options)

        handle, lease, connection = self._place("actor", id, demand, wishes, hand_over)
        if lease is None:
            # Many are started one after the other, so a call waits only if a timeout was given.
            if wishes.timeout is not None and wishes.timeout is not ACTOR_READY_TIMEOUT:
                from .._ray.unplaced import await_place

                name = wishes.name or getattr(cls, "__name__", "of a job")
                await_place(handle, name, demand.demand(), connection.name, wishes.timeout)
        else:
            leases = self._outside().leases
            self._actors[lease] = handle
            when_done(handle, lambda _: leases.give_back(lease))
            weakref.finalize(handle, leases.dropped.append, lease).atexit = False
        return handle, connection.name

    def later(self, submit: Callable[[], T], future: Future[T]) -> None:
        """The same in a thread of ours."""
        self._later.do(submit, future)

    def close(self) -> None:
        """Gives all placements back and closes the connections."""
        self._closed = True
        self._later.close()
        if self._running is not None:
            self._running.close()
            self._running.leases.close()
        self._connections.close()

    # -- where

    def _place(
        self,
        kind: str,
        id: str,
        demand: resources.Demand,
        wishes: Wishes,
        hand_over: Callable[[Connection], T],
    ) -> tuple[T, Lease | None, Connection]:
        here = self._inside(wishes)
        if here is not None:
            return hand_over(here), None, here
        deadline = _deadline(wishes)
        request = self._request(kind, id, demand, wishes)
        try:
            lease = self._outside().leases.obtain(request, deadline)
            return self._hand_over(lease, deadline, hand_over)
        except SchedulerError as error:
            if error.may_have_started:
                raise _unsure(id, error) from error
            error.job_id = error.job_id or id
            raise

    def _places(
        self, tasks: int, demand: resources.Demand, wishes: Wishes, deadline: float | None
    ) -> list[Lease]:
        if not tasks:
            return []
        requests = [
            self._request("task", new_id("task"), demand, wishes)
            for _ in range(min(tasks, MOST_PLACES))
        ]
        return self._outside().leases.obtain_some(requests, deadline)

    def _inside(self, wishes: Wishes) -> Connection | None:
        """The job's own cluster: work that a job starts stays there, without asking."""
        if self._context is None:
            return None
        wanted = wishes.preferred_cluster or current_cluster()
        if wanted != self._context.cluster:
            return None
        return self._connections.native(self._context.cluster)

    def _hand_over(
        self, lease: Lease, deadline: float | None, hand_over: Callable[[Connection], T]
    ) -> tuple[T, Lease, Connection]:
        leases = self._outside().leases
        while True:
            try:
                connection = self._connections.get(lease.cluster)
                return hand_over(connection), lease, connection
            except VersionMismatchError:
                leases.give_back(lease, "stopped")
                raise
            except ClusterConnectionError as error:
                # One of its arguments may be on a lost cluster: another placement does not help.
                is_elsewhere = error.cluster != lease.cluster
                if error.may_have_started or is_elsewhere or self._closed or _is_over(deadline):
                    leases.give_back(lease, "failed", type(error).__name__)
                    raise
                log.warning(
                    "%s cannot start on %s, will try another cluster: %s",
                    lease.id,
                    lease.cluster,
                    error.message,
                )
                lease = leases.obtain_elsewhere(lease, error.message, deadline)
            except BaseException as error:
                leases.give_back(lease, "failed", type(error).__name__)
                raise

    def _request(
        self, kind: str, id: str, demand: resources.Demand, wishes: Wishes
    ) -> dict[str, Any]:
        asked: dict[str, Any] = {"id": id, "kind": kind, "demand": demand.demand()}
        cluster = wishes.preferred_cluster or current_cluster()
        if cluster:
            asked["preferred_cluster"] = cluster
        if wishes.required:
            asked["required"] = True
        asked.update(self._versions())
        if wishes.tags:
            asked["tags"] = list(wishes.tags)
        if wishes.priority is not None:
            asked["priority"] = wishes.priority
        if wishes.os is not None:
            asked["os"] = wishes.os
        if wishes.arch is not None:
            asked["arch"] = wishes.arch
        if wishes.options.get("label_selector"):
            # Ray's own option: it also selects clusters.
            asked["label_selector"] = dict(wishes.options["label_selector"])
        if self._context is not None and self._context.job_id is not None:
            asked["parent_job"] = self._context.job_id
            asked["parent_cluster"] = self._context.cluster
        return asked

    def _versions(self) -> dict[str, str]:
        """Ray Client needs equal versions, so clusters with others are not considered."""
        if "RAY_IGNORE_VERSION_MISMATCH" in os.environ:
            return {}
        return {"ray_version": ray_version(), "python_version": platform.python_version()}

    def _outside(self) -> Running:
        """The part that needs the control plane.

        Raises:
            ControlPlaneError: it cannot be reached from this job.
        """
        if self._running is None:
            raise ControlPlaneError(
                "this job cannot reach the control plane, so it can only use its own cluster",
                hint="set `plane_address` for its cluster in cluster.yaml",
                cluster=self._context.cluster if self._context else None,
            )
        return self._running

    # -- the end

    def _keep(
        self,
        lease: Lease | None,
        connection: Connection,
        submitted: list[tuple[str, Any]],
        again: Rerun | None = None,
    ) -> None:
        """Remembers the tasks by their ids, and gives their placement back once all have ended."""
        refs = [one for _, ref in submitted for one in _several(ref)]
        share = None
        if lease is not None:
            share = self._outside().add(lease, connection, refs, again)
        for id, ref in submitted:
            self._tasks.put(id, Entry(connection.name, [] if ref is None else ref, again=again))
            if share is not None:
                for one in _several(ref):
                    # By its `id()`: holding the reference itself, they would keep each other alive.
                    tell = partial(self._fetched, share, builtins.id(one), id)
                    when_done(one, tell)

    def _fetched(self, share: Share, ref: int, id: str, error: BaseException | None) -> None:
        self._outside().ended(share, ref, error)
        self._tasks.fade(id)

    def _run(
        self,
        id: str,
        placement: str,
        demand: resources.Demand,
        wishes: Wishes,
        hand_over: Callable[[Connection], Any],
    ) -> Any:
        ref, lease, connection = self._place("task", placement, demand, wishes, hand_over)
        again = None
        if lease is not None and wishes.on_cluster_loss == "requeue":
            # This must not hold the reference.
            again = Rerun(partial(self._run_again, id, demand, wishes, hand_over))
            when_lost(_several(ref), again)
        self._keep(lease, connection, [(id, ref)], again)
        return ref

    def _run_again(
        self,
        id: str,
        demand: resources.Demand,
        wishes: Wishes,
        hand_over: Callable[[Connection], Any],
        lost: ClusterConnectionError,
        future: Future[list[Any]],
    ) -> None:
        """Its cluster is lost, and its caller allows a rerun: in a thread of ours."""

        def elsewhere() -> list[Any]:
            if self._closed:
                raise lost
            log.warning("%s will run again: %s", id, lost.message)
            try:
                with cluster_context(None):
                    # With its own placement: the previous one has ended.
                    return _several(self._run(id, new_id("task"), demand, wishes, hand_over))
            except BaseException as error:
                self._tasks.put(id, Entry(error=error))
                raise

        self._later.do(elsewhere, future)

    def _asked_to_stop(self, lease: Lease) -> None:
        """In another thread: a hanging cluster must not delay the heartbeats."""
        if lease not in self._stopping:
            self._stopping.add(lease)
            name = "ray-multicluster-stop"
            threading.Thread(target=self._stop, args=(lease,), name=name, daemon=True).start()

    def _stop(self, lease: Lease) -> None:
        import ray

        try:
            handle = self._actors.get(lease)
            if handle is not None:
                ray.kill(handle)
            _cancel(self._outside().of(lease))
        except Exception:
            log.exception("cannot stop %s on %s", lease.id, lease.cluster)
        finally:
            self._stopping.discard(lease)


def _several(ref: Any) -> list[Any]:
    """A task may return several values, or none."""
    if ref is None:
        return []
    return ref if isinstance(ref, list) else [ref]


def _cancel(refs: list[Any]) -> None:
    import ray

    for ref in refs:
        for one in _several(ref):
            with contextlib.suppress(Exception):
                ray.cancel(one)


def _refuse_requeue(call: str, wishes: Wishes) -> None:
    if wishes.on_cluster_loss == "requeue":
        raise ConfigurationError(
            f"{call} does not support on_cluster_loss='requeue'",
            hint="an actor's state is lost with its cluster, and a batch is not followed: submit "
            "each task with submit_task, or catch ClusterConnectionError",
        )


def _unsure(id: str, error: SchedulerError) -> SchedulerError:
    """The error of one task or actor that was sent, and whose start Ray did not confirm."""
    told = copy.copy(error)
    told.message = (
        f"{id} may have started on cluster {error.cluster}, so it was not sent elsewhere: "
        f"{error.message}"
    )
    told.hint = f"{CHECK_FIRST}, or ray.get_actor for one with a name)"
    told.job_id = id
    return told


def _partly_sent(id: str, error: SchedulerError, sent: Counter[str], calls: int) -> SchedulerError:
    """The error of a batch of which some calls were sent. A cancelled call may have run."""
    told = copy.copy(error)
    clusters = f"cluster{'s' if len(sent) > 1 else ''} {', '.join(sorted(sent))}"
    told.message = (
        f"{sum(sent.values())} of {calls} calls may have started on {clusters}, so none was sent "
        f"elsewhere; the sent calls were cancelled as far as possible: {error.message}"
    )
    told.hint = f"{CHECK_FIRST})"
    told.job_id = told.job_id or id
    told.may_have_started = True
    return told


def _deadline(wishes: Wishes) -> float | None:
    timeout = actor_timeout(wishes.timeout)
    return None if timeout is None else time.monotonic() + timeout


def _is_over(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline
