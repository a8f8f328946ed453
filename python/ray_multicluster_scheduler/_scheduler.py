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
from typing import TYPE_CHECKING, Any, Callable

from . import _policies
from ._context import JobContext, current_context
from ._jobs.jobs import JobInfo, Jobs
from ._keywords import also_as
from ._plane.attach import attach, wanted, warn_of_settings_not_in_force
from ._plane.client import ControlPlane, segment
from ._policies import Policy, PolicyTrial
from ._settings import ACTOR_READY_TIMEOUT, settings
from ._work.known import Entry, Known
from ._work.leases import new_id
from ._work.work import Wishes, Work
from .errors import ConfigurationError, ControlPlaneError

if TYPE_CHECKING:
    from ._ray import ClusterAddress

Requirements = Mapping[str, Any]

#: For the result of a task that may run again, when only its status is asked for.
LOOK = 2.0


class Scheduler:
    """What :func:`initialize_scheduler_environment` returns. Safe to use from any thread.

    ``stop()`` closes this program's connections, and with them ends its tasks and actors. Jobs
    go on. It is a context manager, which stops at the end.
    """

    def __init__(self, config_file_path: str | os.PathLike[str] | None = None) -> None:
        self._plane: ControlPlane | None = attach(config_file_path)
        self._context: JobContext | None = current_context()
        self._asked_for = (wanted(config_file_path), self._context)
        #: How many `with` are open: a library may have its own within the program's.
        self._entered = 0
        self._lock = threading.Lock()
        self._jobs: Jobs | None = None
        self._work: Work | None = None
        self._tasks = Known("task")
        self._actors = Known("actor")

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
        on_cluster_loss: str | None = None,
        driver_resources: Requirements | None = None,
        os: str | None = None,
        arch: str | None = None,
    ) -> str:
        """Queues a job and returns its id for life. Durable when it returns.

        `resource_requirements` is what the job needs of its cluster: for the tasks and actors that
        it starts. `driver_resources` is what Ray sets aside for the entrypoint itself, and what the
        job's own tasks and actors cannot have. `os` and `arch` choose clusters by what they run on
        (`arch="arm64"`). `job_id` is Ray's earlier name for `submission_id`.
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
            on_cluster_loss=on_cluster_loss,
            driver_resources=driver_resources,
            os=os,
            arch=arch,
        )

    def get_job_status(self, submission_id: str, cluster_name: str | None = None) -> str:
        """PENDING, RUNNING, SUCCEEDED, FAILED or STOPPED, wherever it runs."""
        return self._on_jobs().status(submission_id)

    def get_job_info(self, submission_id: str, cluster_name: str | None = None) -> JobInfo:
        """Everything known of a job."""
        return self._on_jobs().info(submission_id)

    def get_job_logs(self, submission_id: str, lines: int | None = None) -> str:
        """What it printed, or the last lines of it."""
        return self._on_jobs().logs(submission_id, lines=lines)

    def tail_job_logs(self, submission_id: str) -> Iterator[str]:
        """What it prints, as it prints it, to its end."""
        return self._on_jobs().tail(submission_id)

    def list_jobs(
        self,
        state: str | None = None,
        cluster: str | None = None,
        tags: Sequence[str] | None = None,
        limit: int = 100,
    ) -> list[JobInfo]:
        """Jobs of the whole pool, the latest first."""
        return self._on_jobs().list(state=state, cluster=cluster, tags=tags, limit=limit)

    def stop_job(self, submission_id: str, cluster_name: str | None = None) -> bool:
        """Stops a job, queued or running; False if it had ended."""
        return self._on_jobs().stop(submission_id)

    def wait_for_all_jobs(
        self,
        submission_ids: str | Iterable[str],
        check_interval: float = 5,
        timeout: float | None = None,
    ) -> bool:
        """Waits until all have succeeded, and shows how they stand.

        Raises:
            JobFailedError: one failed or was stopped.
            TimeoutError: not all ended in time; they go on.
            KeyboardInterrupt: Ctrl-C; what this program submitted is stopped.
        """
        return self._on_jobs().wait(submission_ids, check_interval=check_interval, timeout=timeout)

    # -- tasks and actors

    @also_as("fn", "func")
    def submit_task(
        self,
        func: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        resource_requirements: Requirements | None = None,
        tags: Sequence[str] | None = None,
        name: str = "",
        preferred_cluster: str | None = None,
        **more: Any,
    ) -> tuple[str, Any]:
        """Runs a function on the cluster that suits it best: its id, and a reference for `ray.get`.

        Waits until a cluster takes it; at most `timeout` seconds, if that is among `more`. So may
        be `required` (the preferred cluster and no other), `priority`, and Ray's own options:
        `num_returns`, `max_retries` (on its cluster, as in Ray), `runtime_env`, ….
        With `on_cluster_loss="requeue"` it may run again on another cluster when its own is lost:
        the reference, futures of it and :meth:`get_task_result` follow it there. Without, what
        may have started is never sent again.

        Raises:
            PlacementTimeoutError: no cluster took it in time.
            NoHealthyClusterError: likewise, because no cluster is healthy.
        """
        wishes = Wishes.of(resource_requirements, tags, name, preferred_cluster, more)
        return self._task(new_id("task"), func, args, kwargs, wishes)

    @also_as("fn", "func")
    def submit_task_async(
        self,
        func: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        resource_requirements: Requirements | None = None,
        tags: Sequence[str] | None = None,
        name: str = "",
        preferred_cluster: str | None = None,
        **more: Any,
    ) -> Submission:
        """The same without waiting: a future of what :meth:`submit_task` returns."""
        wishes = Wishes.of(resource_requirements, tags, name, preferred_cluster, more)
        id = new_id("task")
        return self._later(id, self._tasks, lambda: self._task(id, func, args, kwargs, wishes))

    def submit_tasks(
        self,
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
        every call. The batch is one submission under the 40-second rule. It is shared out over
        the clusters by the room they have now, and Ray queues it there.
        """
        wishes = Wishes.of(resource_requirements, tags, name, preferred_cluster, more)
        common = dict(kwargs or {})
        calls = [(each if isinstance(each, tuple) else (each,), common) for each in args_list]
        return self._on_work().tasks(func, calls, wishes)

    def submit_tasks_async(
        self, func: Any, args_list: Iterable[Any], *args: Any, **more: Any
    ) -> Future[list[tuple[str, Any]]]:
        """The same without waiting: a future of what :meth:`submit_tasks` returns."""
        calls = list(args_list)
        future: Future[list[tuple[str, Any]]] = Future()
        self._on_work().later(lambda: self.submit_tasks(func, calls, *args, **more), future)
        return future

    @also_as("cls", "actor_class")
    def submit_actor(
        self,
        actor_class: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        resource_requirements: Requirements | None = None,
        tags: Sequence[str] | None = None,
        name: str = "",
        preferred_cluster: str | None = None,
        timeout: float | None = ACTOR_READY_TIMEOUT,
        **more: Any,
    ) -> tuple[str, Any]:
        """Starts an actor on the cluster that suits it best: its id, and its handle.

        `more` may have `required`, `priority`, and Ray's own options: `lifetime`, `namespace`,
        `max_restarts`, `max_concurrency`, ….

        Raises:
            ActorNameTakenError: there is one of that name on that cluster.
            PlacementTimeoutError: no cluster took it within `timeout` seconds. Inside a job: Ray
                has no room for it there; without a `timeout` of its own the call does not wait.
        """
        more["timeout"] = timeout
        wishes = Wishes.of(resource_requirements, tags, name, preferred_cluster, more)
        return self._actor(new_id("actor"), actor_class, args, kwargs, wishes)

    @also_as("cls", "actor_class")
    def submit_actor_async(
        self,
        actor_class: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        resource_requirements: Requirements | None = None,
        tags: Sequence[str] | None = None,
        name: str = "",
        preferred_cluster: str | None = None,
        **more: Any,
    ) -> Submission:
        """The same without waiting: a future of what :meth:`submit_actor` returns."""
        wishes = Wishes.of(resource_requirements, tags, name, preferred_cluster, more)
        id = new_id("actor")
        return self._later(
            id, self._actors, lambda: self._actor(id, actor_class, args, kwargs, wishes)
        )

    def get_task_result(self, task_id: str, timeout: float | None = None) -> Any:
        """What the task returned; what it raised is raised."""
        import ray

        return ray.get(_placed(task_id, self._tasks.get(task_id)), timeout=timeout)

    def get_task_status(self, task_id: str) -> str:
        """PENDING (it waits for a place), RUNNING (Ray has it), SUCCEEDED or FAILED."""
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
            # Where its cluster was lost just now, it is about to wait for another.
            ray.get(refs, timeout=None if entry.again is None else LOOK)
            outcome = "SUCCEEDED"
        except ray.exceptions.GetTimeoutError:
            return "PENDING"
        except Exception:
            outcome = "FAILED"
        # Kept as it was: this was a question about the result, and not the fetching of it.
        kept = entry.value if entry.weak is None else None
        self._tasks.put(task_id, replace(entry, outcome=outcome, value=kept))
        return outcome

    def get_actor_handle(self, actor_id: str) -> Any:
        """The handle, while somebody has it."""
        return _placed(actor_id, self._actors.get(actor_id))

    def get_actor_status(self, actor_id: str) -> str:
        """PENDING (it waits for a place), STARTING (Ray has it), ALIVE or DEAD."""
        entry = self._actors.get(actor_id)
        if entry.error is not None:
            return "DEAD"
        if entry.value is None:
            return "PENDING"
        from ._ray import actors

        return actors.state(entry.value)

    # -- the pool

    def list_clusters(self) -> list[dict[str, Any]]:
        """All clusters as they stand: health, resources, weight, tags, circuit."""
        return self.plane.get("/v1/clusters")["items"]

    # -- policies

    def policies(self) -> list[Policy]:
        """The policies in force: those of the settings, and those that were registered."""
        return _policies.policies(self.plane)

    def register_policy(
        self,
        name: str,
        expression: str | None = None,
        *,
        filter: str | None = None,
        weight: float | None = None,
    ) -> Policy:
        """Puts a policy of your own into force, at once and for good, beside those of the settings.

        `expression` is a CEL expression that scores a cluster 0..1; `filter` one that must be
        true for a cluster to take the work. One of the two, unless the name is that of a built-in
        score. A registered one of the same name is replaced.

        Raises:
            PolicyEvaluationError: the expression cannot be used; the text says why.
            ConfigurationError: the settings have a policy of this name.
        """
        return _policies.register(self.plane, name, _policies.rule_of(expression, filter, weight))

    def unregister_policy(self, name: str) -> None:
        """Takes a registered policy away.

        Raises:
            ConfigurationError: there is none of this name, or it is one of the settings.
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
        """How choices would differ with this policy, or without it (`remove`). Nothing changes.

        Looked at is the work of one job (`job_id`), or of the last `decisions`, 20 by default, on
        the clusters as they are now.

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
                hint="give its cluster a `plane_address` in cluster.yaml",
                cluster=self._context.cluster if self._context else None,
            )
        return self._plane

    def start(self) -> Scheduler:
        """Nothing is left to do: it has started. Kept for programs of the earlier prototype."""
        return self

    def stop(self) -> None:
        """Closes this program's connections; its tasks and actors end, its jobs go on."""
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
        """The environment may say what the control plane does not do."""
        if self._plane is not None and self._context is None:
            warn_of_settings_not_in_force(self._plane)

    def was_asked_for(self, config_file_path: str | os.PathLike[str] | None) -> bool:
        """Would the same be found again? Not by its address: a control plane in the background
        ends when it is idle, and has another one afterwards.
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

    def _on_jobs(self) -> Jobs:
        if self._jobs is None:
            self._jobs = Jobs(self.plane)
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

        found = self.plane.get(f"/v1/clusters/{segment(cluster)}/connection")
        runtime_env = dict(found.get("runtime_env") or {})
        # So that what a task or an actor submits itself stays on its cluster.
        inherited = {"RAY_MULTICLUSTER_CURRENT_CLUSTER": cluster}
        if found.get("plane_address"):
            inherited["RAY_MULTICLUSTER_ADDRESS"] = found["plane_address"]
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

    def _task(self, id: str, func: Any, args: Any, kwargs: Any, wishes: Wishes) -> tuple[str, Any]:
        return id, self._on_work().task(id, func, tuple(args), dict(kwargs or {}), wishes)

    def _actor(self, id: str, cls: Any, args: Any, kwargs: Any, wishes: Wishes) -> tuple[str, Any]:
        handle, cluster = self._on_work().actor(id, cls, tuple(args), dict(kwargs or {}), wishes)
        self._actors.put(id, Entry(cluster, weak=weakref.ref(handle)))
        return id, handle

    def _later(self, id: str, known: Known, submit: Callable[[], tuple[str, Any]]) -> Submission:
        known.put(id, Entry())

        def kept() -> tuple[str, Any]:
            try:
                return submit()
            except BaseException as error:
                known.put(id, Entry(error=error))
                raise

        future = Submission(id)
        self._on_work().later(kept, future)
        return future


class Submission(Future):
    """A future of an id and what `ray.get` takes, or a handle.

    ``id, handle = submit_actor_async(…)`` waits, as it did in the earlier prototype.
    """

    def __init__(self, id: str) -> None:
        super().__init__()
        #: The same id, from the start.
        self.id = id

    def __iter__(self) -> Iterator[Any]:
        return iter(self.result())


def _placed(id: str, entry: Entry) -> Any:
    if entry.error is not None:
        raise entry.error
    if entry.value is None:
        raise ConfigurationError(
            f"{id} still waits for a place", hint="take the result of its future first"
        )
    return entry.value


_current: Scheduler | None = None
_current_lock = threading.RLock()


def _after_fork() -> None:
    """A child has none of its parent's threads, and may not use its connections."""
    global _current, _current_lock
    _current, _current_lock = None, threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


@atexit.register
def _stop_at_exit() -> None:
    """A program that stopped nothing gives its places back all the same."""
    if _current is not None:
        with contextlib.suppress(Exception):
            _current.stop()


def _leave(scheduler: Scheduler) -> None:
    """One that was stopped is not the program's any more."""
    global _current
    with _current_lock:
        if _current is scheduler:
            _current = None


def initialize_scheduler_environment(
    config_file_path: str | os.PathLike[str] | None = None,
) -> Scheduler:
    """Finds the control plane, or starts this user's own, and makes it this program's.

    In this order: ``RAY_MULTICLUSTER_ADDRESS``; inside a scheduled job, what that was told;
    the control plane of this user for that configuration, started in the background if none
    runs. Asked again for the same control plane it returns the same scheduler, so that a library
    may call it too; it is stopped by ``stop()``, or at the end of the outermost ``with``. Another
    one takes its place, and the first is stopped.
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
    """This program's; found with the defaults at first use."""
    with _current_lock:
        return _current if _current is not None else initialize_scheduler_environment()


def attached() -> Scheduler | None:
    """This program's, if it has one."""
    return _current


def use_scheduler(scheduler: Scheduler) -> None:
    """Makes it this program's."""
    global _current
    with _current_lock:
        _current = scheduler
