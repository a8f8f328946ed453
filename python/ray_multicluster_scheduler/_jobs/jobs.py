"""Jobs: submit, show, follow, stop, wait."""

from __future__ import annotations

import builtins
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any

from .._plane.client import TIMEOUT, ControlPlane, segment
from .._plane.own_folders import OwnFolders
from .._work import resources
from ..errors import ConfigurationError, SchedulerError
from . import following, interrupts, runtime_env, submission, waiting
from .info import JobInfo, native_states
from .own_package import OwnPackage
from .packages import Packages

#: The most jobs that the control plane returns at once.
PAGE = 1000


class Jobs:
    """The jobs of one control plane. Safe to use from any thread."""

    def __init__(self, plane: ControlPlane, own: OwnFolders | None = None) -> None:
        self._plane = plane
        self._packages = Packages(plane)
        self._own_package = OwnPackage(self._packages)
        self._of_clusters = runtime_env.OfClusters(
            plane, self._packages, OwnFolders() if own is None else own
        )
        self._lock = threading.Lock()
        self._submitted: dict[str, None] = {}
        #: The ids that this program submitted and that existed before.
        self._earlier: set[str] = set()
        #: The process that submits through this: a forked one starts with no jobs of its own.
        self.process = os.getpid()
        interrupts.remember(self)

    @property
    def submitted(self) -> builtins.list[str]:
        """The ids that this program has submitted and not seen end."""
        with self._lock:
            return [*self._submitted]

    def submit(
        self,
        entrypoint: str,
        *,
        runtime_env: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        submission_id: str | None = None,
        preferred_cluster: str | None = None,
        required: bool = False,
        resource_requirements: Mapping[str, Any] | None = None,
        tags: str | Iterable[str] | None = None,
        priority: int | None = None,
        max_retries: int | None = None,
        retry_on: Iterable[int] | None = None,
        never_retry_on: Iterable[int] | None = None,
        preemptible: bool = False,
        stop_grace: str | float | timedelta | None = None,
        on_cluster_loss: str | None = None,
        driver_resources: Mapping[str, Any] | None = None,
        os: str | None = None,
        arch: str | None = None,
    ) -> str:
        """Submits a job; it is durable when this returns its id.

        With a `submission_id`, submitting the same again is the same job. Without one, an identical
        job that is still queued is returned instead of a second one.

        Raises:
            ConfigurationError: something in it cannot be meant.
            TaskSubmissionError: the control plane refuses it; IdConflictError: its id is taken.
            QueueFullError: too much waits already.
        """
        job = submission.body(
            entrypoint,
            submission_id=submission_id,
            metadata=metadata,
            tags=tags,
            preferred_cluster=preferred_cluster,
            required=required,
            priority=priority,
            max_retries=max_retries,
            retry_on=submission.exit_codes("retry_on", retry_on),
            never_retry_on=submission.exit_codes("never_retry_on", never_retry_on),
            preemptible=submission.flag("preemptible", preemptible),
            stop_grace=submission.length("stop_grace", stop_grace),
            on_cluster_loss=on_cluster_loss,
            os=os,
            arch=arch,
            needs=resources.parse(resource_requirements).demand(),
            **resources.parse(driver_resources).entrypoint(),
        )
        only = preferred_cluster if required else None
        job.update(self._brought_along(runtime_env, only))
        job_id, is_new = submission.send(self._plane, job)
        with self._lock:
            if is_new:
                self._submitted[job_id] = None
                self._earlier.discard(job_id)
            elif job_id not in self._submitted:
                self._earlier.add(job_id)
        return job_id

    def status(self, job_id: str) -> str:
        """PENDING, RUNNING, SUCCEEDED, FAILED or STOPPED."""
        return self.info(job_id).status

    def info(self, job_id: str) -> JobInfo:
        """Everything that is known about it, and why it waits.

        Raises:
            UnknownJobError: there is none.
        """
        info = JobInfo.of(self._plane.get(_path(job_id)))
        if info.has_ended:
            self._forget(job_id)
        return info

    def logs(self, job_id: str, *, lines: int | None = None) -> str:
        """Its output, or the last lines of it; of more than 16 MiB, the end."""
        if lines is not None:
            return str(self._plane.get(_path(job_id) + "/logs", lines=lines)["text"])
        try:
            return str(self._plane.get(f"/api/jobs/{segment(job_id)}/logs")["logs"])
        except SchedulerError:
            # Ray's API has texts instead of codes: if there is no such job, our own API reports it.
            self.info(job_id)
            raise

    def tail(self, job_id: str) -> Iterator[str]:
        """Its output as it is printed, in pieces, to its end: over all attempts, and over outages
        of clusters and control planes.
        """
        return following.follow(self._plane, _path(job_id) + "/logs/follow")

    def list(
        self,
        *,
        state: str | Iterable[str] | None = None,
        cluster: str | None = None,
        tags: str | Iterable[str] | None = None,
        limit: int = 100,
    ) -> builtins.list[JobInfo]:
        """The latest first. `state` in Ray's words or the control plane's; all of the `tags`."""
        query: dict[str, Any] = {
            "kind": "job",
            "state": None if state is None else native_states(state),
            "cluster": cluster,
            "tag": tags if tags is None or isinstance(tags, str) else [*tags],
        }
        found: builtins.list[JobInfo] = []
        while len(found) < limit:
            page = self._plane.get("/v1/jobs", limit=min(limit - len(found), PAGE), **query)
            found += map(JobInfo.of, page["items"])
            query["cursor"] = page.get("next_cursor")
            if query["cursor"] is None:
                break
        return found

    def stop(self, job_id: str) -> bool:
        """False if it had ended already. One that waits never runs."""
        return self.ask_to_stop(job_id) is not None

    def wait(
        self,
        job_ids: str | Iterable[str],
        *,
        check_interval: float = 5,
        timeout: float | None = None,
    ) -> bool:
        """Waits until all have succeeded.

        The control plane reports their ends; every `check_interval` seconds they are also checked.
        Ctrl-C and SIGTERM stop what this program has submitted.

        Raises:
            JobFailedError: one failed or was stopped; also a RuntimeError. The others go on.
            JobTimeoutError: not all have ended in time; also a TimeoutError. They go on.
            UnknownJobError: there is no such job.
        """
        with interrupts.stopping_on_interrupt():
            waiting.wait(
                self._plane,
                job_ids,
                check_interval=check_interval,
                timeout=timeout,
                on_end=self._forget,
                earlier=self._earlier,
            )
        return True

    def ask_to_stop(self, job_id: str, *, timeout: float = TIMEOUT) -> JobInfo | None:
        """The job afterwards: stopped if it was queued, else about to be. None: it had ended."""
        stopped = None
        try:
            answer = self._plane.post(_path(job_id) + "/stop", timeout=timeout, is_repeatable=True)
            stopped = JobInfo.of(answer)
        except SchedulerError as error:
            if error.code != "wrong_state":
                raise
            if error.was_repeated:
                # The first try may be what ended it.
                found = JobInfo.of(self._plane.get(_path(job_id), timeout=timeout))
                stopped = found if found.status == "STOPPED" else None
        self._forget(job_id)
        return stopped

    def _brought_along(self, env: Mapping[str, Any] | None, only: str | None) -> dict[str, Any]:
        fields = {
            "runtime_env": runtime_env.portable(env, self._packages),
            "packages": self._of_clusters.packages(env or {}, only),
            "sdk": self._own_package.uri(),
        }
        return {name: field for name, field in fields.items() if field}

    def _forget(self, job_id: str) -> None:
        with self._lock:
            self._submitted.pop(job_id, None)


def _path(job_id: str) -> str:
    if not isinstance(job_id, str) or not job_id:
        raise ConfigurationError(f"{job_id!r:.80} is not a job id")
    return "/v1/jobs/" + segment(job_id)
