"""The scheduler as a program sees it: one object, with everything it can do."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from . import _env, _forks, _policies
from ._context import JobContext, current_context
from ._jobs.jobs import JobInfo, Jobs
from ._keywords import also_as
from ._plane.attach import attach, wanted, warn_of_settings_not_in_force
from ._plane.client import ControlPlane, segment
from ._plane.own_folders import OwnFolders
from ._policies import Policy, PolicyTrial
from ._settings import ACTOR_READY_TIMEOUT, settings
from ._work.known import Entry, Known
from ._work.leases import new_id
from ._work.submission import Plan, Submission, waits, without_waiting
from ._work.wishes import Wishes
from ._work.work import Work
from .errors import ConfigurationError, ControlPlaneError

if TYPE_CHECKING:
    from ._plane.wire import Cluster, ClusterConnection
    from ._ray import ClusterAddress

Requirements = Mapping[str, Any]

#: For the result of a task that may run again, if only its status is requested.
LOOK = 2.0


class Scheduler:
    """What :func:`initialize_scheduler_environment` returns. Safe to use from any thread.

    ``stop()`` closes this program's connections, which ends its tasks and actors. Jobs keep
    running. As a context manager, it stops at the end.
    """

    def __init__(self, config_file_path: str | os.PathLike[str] | None = None) -> None:
        self._plane: ControlPlane | None = attach(config_file_path)
        self._context: JobContext | None = current_context()
        self._asked_for = (wanted(config_file_path), self._context)
        self._own_folders = OwnFolders(config_file_path)
        #: How many `with` are open: a library may have its own within the program's.
        self._entered = 0
        self._lock = threading.Lock()
        self._jobs: Jobs | None = None
        self._work: Work | None = None
        self._tasks = Known("task")
        self._actors = Known("actor")
        _forks.belongs_here(self)

    # -- jobs

    def submit_job(
        self,
        entrypoint: str,
        runtime_env: Mapping[str, Any] | None = None,
        job_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        submission_id: str | None = None,
        preferred_cluster: str | None = None,
        resource_requirements: Requirements | None = None,
        tags: Sequence[str] | None = None,
        *,
        required: bool = False,
        priority: int | None = None,
        max_retries: int | None = None,
        retry_on: Sequence[int] | None = None,
        never_retry_on: Sequence[int] | None = None,
        preemptible: bool = False,
        stop_grace: str | float | timedelta | None = None,
        on_cluster_loss: str | None = None,
        driver_resources: Requirements | None = None,
        os: str | None = None,
        arch: str | None = None,
    ) -> str:
        """Queues a job and returns its id. The job is stored durably when this returns.

        `resource_requirements` is what the job needs on its cluster, for the tasks and actors that
        it starts. `driver_resources` is what Ray reserves for the entrypoint itself; the job's own
        tasks and actors cannot use it. `os` and `arch` select clusters by platform
        (`arch="arm64"`). `job_id` is Ray's earlier name for `submission_id`.

        A job that ran and failed is run again up to `max_retries` times: with `retry_on` only if
        its exit code is one of these, with `never_retry_on` only if it is none of these.

        A `preemptible` job may be stopped to make room for other work. It gets SIGTERM and
        `stop_grace` to end (`"10m"`, seconds or a timedelta; 30 s by default), goes back to the
        queue, and is run again under its id. `stop_grace` also applies to `stop_job`.
        """
        return self._on_jobs().submit(
            entrypoint,
            runtime_env=runtime_env,
            metadata=metadata,
            submission_id=submission_id or job_id,
            preferred_cluster=preferred_cluster,
            required=required,
            resource_requirements=resource_requirements,
            tags=tags,
            priority=priority,
            max_retries=max_retries,
            retry_on=retry_on,
            never_retry_on=never_retry_on,
            preemptible=preemptible,
            stop_grace=stop_grace,
            on_cluster_loss=on_cluster_loss,
            driver_resources=driver_resources,
            os=os,
            arch=arch,
        )

    def get_job_status(self, submission_id: str, cluster_name: str | None = None) -> str:
        """PENDING, RUNNING, SUCCEEDED, FAILED or STOPPED, wherever it runs."""
        return self._on_jobs().status(submission_id)

    def get_job_info(self, submission_id: str, cluster_name: str | None = None) -> JobInfo:
        """Everything known about a job."""
        return self._on_jobs().info(submission_id)

    def get_job_logs(self, submission_id: str, lines: int | None = None) -> str:
        """What the job printed, or its last lines."""
        return self._on_jobs().logs(submission_id, lines=lines)

    def tail_job_logs(self, submission_id: str) -> Iterator[str]:
        """Yields what the job prints, until it ends."""
        return self._on_jobs().tail(submission_id)

    def list_jobs(
        self,
        state: str | None = None,
        cluster: str | None = None,
        tags: Sequence[str] | None = None,
        limit: int = 100,
    ) -> list[JobInfo]:
        """Jobs on all clusters, the latest first."""
        return self._on_jobs().list(state=state, cluster=cluster, tags=tags, limit=limit)

    def stop_job(self, submission_id: str, cluster_name: str | None = None) -> bool:
        """Stops a queued or running job; False if it had already ended."""
        return self._on_jobs().stop(submission_id)

    def wait_for_all_jobs(
        self,
        submission_ids: str | Iterable[str],
        check_interval: float = 5,
        timeout: float | None = None,
    ) -> bool:
        """Waits until all have succeeded, and shows their progress.

        Raises:
            JobFailedError: a job failed or was stopped.
            TimeoutError: not all finished in time; they keep running.
            KeyboardInterrupt: Ctrl-C; the jobs of this program are stopped.
        """
        return self._on_jobs().wait(submission_ids, check_interval=check_interval, timeout=timeout)

    # -- tasks and actors

    @also_as("fn", "func")
    @waits
    def submit_task(
        self,
        /,
        func: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        resource_requirements: Requirements | None = None,
        tags: Sequence[str] | None = None,
        name: str = "",
        preferred_cluster: str | None = None,
        **more: Any,
    ) -> Plan:
        """Runs a function on the cluster that suits it best: its id, and a reference for `ray.get`.

        Waits until a cluster accepts it. `more` may have `timeout` (seconds to wait at most),
        `required` (no other cluster than the preferred one), `priority`, and Ray's own options:
        `num_returns`, `max_retries` (on its cluster, as in Ray), `runtime_env`, ….
        With `on_cluster_loss="requeue"` the task may run again on another cluster when its own is
        lost: the reference, its futures and :meth:`get_task_result` follow it there. Without, a
        task that may have started is never sent again.

        Raises:
            PlacementTimeoutError: no cluster accepted it in time.
            NoHealthyClusterError: the same, because no cluster is healthy.
        """
        wishes = Wishes.of(resource_requirements, tags, name, preferred_cluster, more)
        call = (func, tuple(args), dict(kwargs or {}), wishes)
        return Plan(new_id("task"), self._tasks, lambda id: self._task(id, *call))

    submit_task_async = without_waiting(submit_task, "fn")

    def submit_tasks(
        self,
        /,
        func: Any,
        args_list: Iterable[Any],
        kwargs: Mapping[str, Any] | None = None,
        resource_requirements: Requirements | None = None,
        tags: Sequence[str] | None = None,
        name: str = "",
        preferred_cluster: str | None = None,
        **more: Any,
    ) -> list[tuple[str, Any]]:
        """Calls a function many times: ids and references, in the order of `args_list`.

        Each item is a tuple of arguments, or one argument that is not a tuple; `kwargs` go to
        every call. The batch counts as one submission under the 40-second rule. It is distributed
        over the clusters by the room they have now, and Ray queues it there.
        """
        wishes = Wishes.of(resource_requirements, tags, name, preferred_cluster, more)
        common = dict(kwargs or {})
        calls = [(each if isinstance(each, tuple) else (each,), common) for each in args_list]
        return self._on_work().tasks(func, calls, wishes)

    def submit_tasks_async(
        self, /, func: Any, args_list: Iterable[Any], *args: Any, **more: Any
    ) -> Future[list[tuple[str, Any]]]:
        """Does not wait: returns a future of what :meth:`submit_tasks` returns."""
        calls = list(args_list)
        future: Future[list[tuple[str, Any]]] = Future()
        self._on_work().later(lambda: self.submit_tasks(func, calls, *args, **more), future)
        return future

    @also_as("cls", "actor_class")
    @waits
    def submit_actor(
        self,
        /,
        actor_class: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        resource_requirements: Requirements | None = None,
        tags: Sequence[str] | None = None,
        name: str = "",
        preferred_cluster: str | None = None,
        timeout: float | None = ACTOR_READY_TIMEOUT,
        **more: Any,
    ) -> Plan:
        """Starts an actor on the cluster that suits it best: its id, and its handle.

        `more` may have `required`, `priority`, and Ray's own options: `lifetime`, `namespace`,
        `max_restarts`, `max_concurrency`, ….

        Raises:
            ActorNameTakenError: an actor of that name exists on that cluster.
            PlacementTimeoutError: no cluster accepted it within `timeout` seconds. Inside a job:
                Ray has no room for it there; there the call waits only if `timeout` is given.
        """
        more["timeout"] = timeout
        wishes = Wishes.of(resource_requirements, tags, name, preferred_cluster, more)
        call = (actor_class, tuple(args), dict(kwargs or {}), wishes)
        return Plan(new_id("actor"), self._actors, lambda id: self._actor(id, *call))

    # Many may be queued at once, so there is no limit unless one is given.
    submit_actor_async = without_waiting(submit_actor, "cls", timeout=None)

    def get_task_result(self, task_id: str, timeout: float | None = None) -> Any:
        """What the task returned; raises what it raised."""
        import ray

        return ray.get(_placed(task_id, self._tasks.get(task_id)), timeout=timeout)

    def get_task_status(self, task_id: str) -> str:
        """PENDING (queued), RUNNING (sent to Ray), SUCCEEDED or FAILED."""
        import ray

        entry = self._tasks.get(task_id)
        if entry.error is not None:
            return "FAILED"
        if entry.outcome is not None:
            return entry.outcome
        if entry.value is None or (entry.again is not None and entry.again.waits()):
            return "PENDING"
        refs = entry.value if isinstance(entry.value, list) else [entry.value]
        if refs and len(ray.wait(refs, num_returns=len(refs), timeout=0)[0]) < len(refs):
            return "RUNNING"
        try:
            # If its cluster was lost just now, the task is about to wait for another.
            ray.get(refs, timeout=None if entry.again is None else LOOK)
            outcome = "SUCCEEDED"
        except ray.exceptions.GetTimeoutError:
            return "PENDING"
        except Exception:
            outcome = "FAILED"
        # Kept as it was: this only checked the result, and did not fetch it.
        kept = entry.value if entry.weak is None else None
        self._tasks.put(task_id, replace(entry, outcome=outcome, value=kept))
        return outcome

    def get_actor_handle(self, actor_id: str) -> Any:
        """The handle, as long as the program keeps it."""
        return _placed(actor_id, self._actors.get(actor_id))

    def get_actor_status(self, actor_id: str) -> str:
        """PENDING (queued), STARTING (sent to Ray), ALIVE or DEAD."""
        entry = self._actors.get(actor_id)
        if entry.error is not None:
            return "DEAD"
        if entry.value is None:
            return "PENDING"
        from ._ray import actors

        return actors.state(entry.value)

    # -- the pool

    def list_clusters(self) -> list[Cluster]:
        """All clusters as they are now: health, resources, weight, tags, circuit breaker."""
        return self.plane.get("/v1/clusters")["items"]

    # -- policies

    def policies(self) -> list[Policy]:
        """The policies in force: from the settings, and registered ones."""
        return _policies.policies(self.plane)

    def register_policy(
        self,
        name: str,
        expression: str | None = None,
        *,
        filter: str | None = None,
        weight: float | None = None,
    ) -> Policy:
        """Registers your own policy, in force at once and kept, beside those of the settings.

        `expression` is a CEL expression that scores a cluster from 0 to 1; `filter` is one that
        must be true for a cluster to run the work. Give one of the two, unless the name is that of
        a built-in score. A registered policy of the same name is replaced.

        Raises:
            PolicyEvaluationError: the expression cannot be used; the text says why.
            ConfigurationError: the settings have a policy of this name.
        """
        return _policies.register(self.plane, name, _policies.rule_of(expression, filter, weight))

    def unregister_policy(self, name: str) -> None:
        """Removes a registered policy.

        Raises:
            ConfigurationError: there is no such policy, or it belongs to the settings.
        """
        _policies.unregister(self.plane, name)

    def try_policy(
        self,
        name: str,
        expression: str | None = None,
        *,
        filter: str | None = None,
        weight: float | None = None,
        remove: bool = False,
        job_id: str | None = None,
        decisions: int | None = None,
    ) -> PolicyTrial:
        """Shows how choices would differ with this policy, or without it (`remove`).

        Nothing changes. It judges the work of one job (`job_id`), or of the last `decisions` (20 by
        default), on the clusters as they are now.

        Raises:
            PolicyEvaluationError: the expression cannot be used; the text says why.
        """
        trial: dict[str, Any] = {"name": name, **_policies.work_of(job_id, decisions)}
        if not remove:
            trial["policy"] = _policies.rule_of(expression, filter, weight)
        return _policies.attempt(self.plane, trial)

    @property
    def plane(self) -> ControlPlane:
        """The control plane.

        Raises:
            ControlPlaneError: this is a job that cannot reach it.
        """
        if self._plane is None:
            raise ControlPlaneError(
                "this job cannot reach the control plane",
                hint="set `plane_address` for its cluster in cluster.yaml",
                cluster=self._context.cluster if self._context else None,
            )
        return self._plane

    def start(self) -> Scheduler:
        """Does nothing. Kept for programs of the earlier prototype."""
        return self

    def stop(self) -> None:
        """Closes this program's connections. Its tasks and actors end; its jobs keep running."""
        _leave(self)
        with self._lock:
            work, self._work = self._work, None
        if work is not None:
            work.close()
        self._tasks.clear()
        self._actors.clear()
        if self._plane is not None:
            self._plane.close()

    def warn_of_settings(self) -> None:
        """Warns of settings in the environment that the control plane does not use."""
        if self._plane is not None and self._context is None:
            warn_of_settings_not_in_force(self._plane)

    def was_asked_for(self, config_file_path: str | os.PathLike[str] | None) -> bool:
        """Whether the same one would be found again. Not by its address: a background control plane
        exits when it is idle, and has another address afterwards.
        """
        return self._asked_for == (wanted(config_file_path), current_context())

    def __enter__(self) -> Scheduler:
        with self._lock:
            self._entered += 1
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._entered -= 1
            is_last = self._entered == 0
        if is_last:
            self.stop()

    # -- inside

    def after_fork(self) -> None:
        """For the same control plane, with no tasks, actors, jobs or connections."""
        self._lock = threading.Lock()
        self._jobs = self._work = None
        self._tasks, self._actors = Known("task"), Known("actor")

    def _on_jobs(self) -> Jobs:
        if self._jobs is None:
            self._jobs = Jobs(self.plane, self._own_folders)
        return self._jobs

    def _on_work(self) -> Work:
        with self._lock:
            if self._work is None:
                # Ray is imported here, and not before.
                from ._ray import Connections

                connections = Connections(
                    self._describe,
                    call_timeout=settings().call_timeout,
                )
                self._work = Work(self._plane, self._context, connections, self._tasks)
            return self._work

    def _describe(self, cluster: str) -> ClusterAddress:
        from ._ray import ClusterAddress

        found: ClusterConnection = self.plane.get(f"/v1/clusters/{segment(cluster)}/connection")
        runtime_env = dict(found.get("runtime_env") or {})
        # Ray uploads the files that it names.
        self._own_folders.check(cluster, runtime_env)
        # So that work submitted by a task or an actor stays on its cluster.
        inherited = {_env.CURRENT_CLUSTER: cluster}
        plane_address = found.get("plane_address")
        if plane_address:
            inherited[_env.ADDRESS] = plane_address
        runtime_env["env_vars"] = {**runtime_env.get("env_vars", {}), **inherited}
        return ClusterAddress(
            name=cluster,
            head_address=found["head_address"],
            token=found.get("token"),
            runtime_env=runtime_env,
            ray_version=found.get("ray_version"),
            python_version=found.get("python_version"),
            incarnation=found.get("incarnation"),
        )

    def _task(self, id: str, *call: Any) -> tuple[str, Any]:
        return id, self._on_work().task(id, *call)

    def _actor(self, id: str, *call: Any) -> tuple[str, Any]:
        handle, cluster = self._on_work().actor(id, *call)
        self._actors.put(id, Entry(cluster, weak=weakref.ref(handle)))
        return id, handle

    def _later(self, plan: Plan) -> Submission:
        plan.known.put(plan.id, Entry())

        def kept() -> tuple[str, Any]:
            try:
                return plan.submit(plan.id)
            except BaseException as error:
                plan.known.put(plan.id, Entry(error=error))
                raise

        future = Submission(plan.id)
        self._on_work().later(kept, future)
        return future


def _placed(id: str, entry: Entry) -> Any:
    if entry.error is not None:
        raise entry.error
    if entry.value is None:
        raise ConfigurationError(f"{id} is still queued", hint="wait for its future first")
    return entry.value


_current: Scheduler | None = None
_current_lock = threading.RLock()


def _after_fork() -> None:
    """The child's scheduler is its parent's, which has let go of all that the parent had."""
    global _current_lock
    _current_lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


@atexit.register
def _stop_at_exit() -> None:
    """A program that does not stop the scheduler still gives its places back."""
    if _current is not None:
        with contextlib.suppress(Exception):
            _current.stop()


def _leave(scheduler: Scheduler) -> None:
    """A stopped scheduler is no longer the program's."""
    global _current
    with _current_lock:
        if _current is scheduler:
            _current = None


def initialize_scheduler_environment(
    config_file_path: str | os.PathLike[str] | None = None,
) -> Scheduler:
    """Finds the control plane, or starts this user's own, and makes it this program's.

    In this order: ``RAY_MULTICLUSTER_ADDRESS``; inside a scheduled job, the address the job was
    given; this user's control plane for that configuration, started in the background if none
    runs. A second call for the same control plane returns the same scheduler, so a library may call
    it too. It is stopped by ``stop()``, or at the end of the outermost ``with``. A call for another
    control plane replaces the scheduler and stops the first one.
    """
    before = attached()
    if before is not None and before.was_asked_for(config_file_path):
        before.warn_of_settings()
        return before
    scheduler = Scheduler(config_file_path)
    use_scheduler(scheduler)
    if before is not None:
        before.stop()
    return scheduler


def current_scheduler() -> Scheduler:
    """This program's scheduler; created with the defaults at first use."""
    with _current_lock:
        return _current if _current is not None else initialize_scheduler_environment()


def attached() -> Scheduler | None:
    """This program's scheduler, if it has one."""
    return _current


def use_scheduler(scheduler: Scheduler) -> None:
    """Makes it this program's scheduler."""
    global _current
    with _current_lock:
        _current = scheduler
