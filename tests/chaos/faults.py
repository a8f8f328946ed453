"""The faults of the control plane, its disk and its clock; those of clusters are in
`cluster_faults.py`. Each has a name, how long it is held, how it is caused and undone, and the
clusters that must accept work again afterwards.

`inject` returns when the fault is in effect. If the control plane should report it, `inject` or
`after` waits for the report and fails without it.
"""

from __future__ import annotations

import errno
from typing import Any

from history.record import Job
from support.disk import Disk
from support.jobs import ENDED, unique_id
from support.waiting import wait_until

from .stage import Stage

EVERYWHERE = ("steady", "shaky")


class Fault:
    name = ""
    #: Between this many seconds and this many.
    held = (0.0, 0.0)
    #: A kill -9 of the control plane may happen during it.
    allows_kill = True

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    def why_not(self) -> str:
        """Why it cannot be tried on this machine."""
        return ""

    def inject(self) -> None:
        """Each has its own."""
        raise NotImplementedError

    def heal(self) -> None:
        """Ends automatically, unless overridden."""

    def after(self) -> None:
        """What must happen before new work is submitted. It counts as recovery."""

    def affected(self) -> tuple[str, ...]:
        return EVERYWHERE

    def job(self, name: str, body: str = "sleep 0.1", **request: Any) -> Job:
        """A job of the fault's own, not submitted yet. Of fakes, if nothing else is said."""
        request = {"tags": ["fake"], **request}
        return self.stage.history.job(unique_id(f"chaos-{name}"), body, **request)

    def submit(self, name: str, body: str = "sleep 0.1", **request: Any) -> Job:
        job = self.job(name, body, **request)
        self.stage.client.submit(job)
        return job

    def shown(self, job: Job) -> dict[str, Any]:
        return self.stage.plane.native_job(job.id)

    def why(self, job: Job) -> str:
        return self.stage.plane.get(f"/v1/jobs/{job.id}/explain")["summary"]

    def wait_for_end(self, job: Job, what: str) -> None:
        wait_until(lambda: self.shown(job)["ray_status"] in ENDED, f"{self.name}: {what}", 60)


class PlaneKilled(Fault):
    name = "control plane: kill -9"
    allows_kill = False

    def inject(self) -> None:
        with self.stage.keeper.killed():
            pass


class NotWritable(Fault):
    allows_kill = False

    def after(self) -> None:
        wait_until(lambda: self.stage.readiness() == "ok", "/readyz is ok again", timeout=30)

    def wait_for_refusal(self, before: int) -> str:
        """What it says when it cannot start."""
        refusals = self.stage.keeper.refusals
        wait_until(lambda: len(refusals) > before, "it says that it cannot start", timeout=30)
        return refusals[-1]


class OnDisk(NotWritable):
    """Faults that need a disk of their own."""

    def why_not(self) -> str:
        return f"no disk of its own: {self.stage.no_disk}" if self.stage.disk is None else ""

    @property
    def disk(self) -> Disk:
        assert self.stage.disk is not None, self.stage.no_disk
        return self.stage.disk


class TornLog(OnDisk):
    name = "control plane: kill -9, and a torn end of its log"

    def inject(self) -> None:
        with self.stage.keeper.killed():
            self.disk.tear(self.stage.dice)


class FullDisk(OnDisk):
    name = "disk: full"
    held = (3, 8)

    def inject(self) -> None:
        self.disk.fill()
        said = wait_until(self.stage.cannot_write, "/readyz says that the disk is full", timeout=30)
        assert "free" in said or "full" in said, said

    def heal(self) -> None:
        self.disk.make_room()


class FailingWrites(NotWritable):
    """As ext4 does when the disk fails: open files cannot be written any more."""

    name = "disk: read-only under it"
    held = (3, 8)
    error, told = errno.EROFS, "disk I/O error"

    def inject(self) -> None:
        self.stage.shim.fail_writes(self.error)
        wait_until(lambda: self.told in self.stage.cannot_write(), "/readyz says so", timeout=30)

    def heal(self) -> None:
        self.stage.shim.fail_writes(0)


class LongFailingWrites(FailingWrites):
    """The control plane gives up after 30 s, exits with an error, and is started again until there
    is room."""

    name = "disk: full until it gives up"
    error, told = errno.ENOSPC, "database or disk is full"

    def inject(self) -> None:
        super().inject()
        before = len(self.stage.keeper.refusals)
        last_words = f"everything that was answered is kept: database: {self.told}"
        wait_until(lambda: last_words in self.stage.plane.output(), "it gives up", timeout=60)
        said = self.wait_for_refusal(before)
        assert "cannot use the state directory" in said, said


class ReadOnlyStart(OnDisk):
    name = "disk: read-only at a start"
    held = (2, 4)

    def inject(self) -> None:
        before = len(self.stage.keeper.refusals)
        with self.stage.keeper.killed():
            self.disk.remount("ro")
        said = self.wait_for_refusal(before)
        assert "Read-only file system" in said, said

    def heal(self) -> None:
        with self.stage.keeper.killed():
            self.disk.remount("rw")


class ClockJumps(Fault):
    """The wall clock of the control plane alone: forward, back, and correct again."""

    held = (4, 7)

    def __init__(self, stage: Stage, hours: float) -> None:
        super().__init__(stage)
        self.hours = hours
        self.name = f"clock: {abs(hours):g} h {'forward' if hours > 0 else 'back'}, and right again"

    def inject(self) -> None:
        self.stage.shim.set_clock(self.hours)

    def heal(self) -> None:
        self.stage.shim.set_clock(0)


class ClockCorrected(Fault):
    """Stored moments lie in the future then, and no job may wait for them."""

    name = "clock: 3 h ahead, kill -9, and right again at the next start"
    held = (2, 5)

    def inject(self) -> None:
        self.stage.shim.set_clock(3)

    def heal(self) -> None:
        with self.stage.keeper.killed():
            self.stage.shim.set_clock(0)


class BurstOfTasks(Fault):
    """More tasks than ended work is remembered, and the clock far ahead, so that all of it is old
    enough to be forgotten: no job is."""

    name = "one owner: more short tasks than are remembered"

    def inject(self) -> None:
        self.stage.shim.set_clock(3)
        plane, name = self.stage.plane, unique_id("burst")
        ids = [f"{name}-{n}" for n in range(self.stage.retained + 50)]
        for part in (ids[n : n + 500] for n in range(0, len(ids), 500)):
            wanted = {"kind": "task", "demand": {"CPU": 0.01}, "tags": ["fake"]}
            tasks = {"placements": [{"id": task, **wanted} for task in part]}
            plane.post("/v1/placements/batch?wait=10s", tasks)
            # Without an attempt: granted or not.
            ends = [{"id": task, "outcome": "succeeded"} for task in part]
            plane.post("/v1/placements/release", {"leases": ends})
        self.stage.watcher.look(everything=True)

    def heal(self) -> None:
        self.stage.shim.set_clock(0)
