"""The faults. Each has a name, how long it is held, how it is caused and undone, and the clusters
that must accept work again afterwards.

`inject` returns when the fault is in effect. If the control plane should report it, `inject` or
`after` waits for the report and fails without it.
"""

from __future__ import annotations

from collections.abc import Callable

from support.ray_cluster import RayCluster
from support.waiting import wait_until

from .disk import Disk
from .fakes import Fake
from .proxy import Mood
from .stage import Stage
from .witness import Witness

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


class PlaneKilled(Fault):
    name = "control plane: kill -9"
    allows_kill = False

    def inject(self) -> None:
        with self.stage.keeper.killed():
            pass


class OnDisk(Fault):
    """Faults that need a disk of their own."""

    def why_not(self) -> str:
        return f"no disk of its own: {self.stage.no_disk}" if self.stage.disk is None else ""

    @property
    def disk(self) -> Disk:
        assert self.stage.disk is not None, self.stage.no_disk
        return self.stage.disk

    def after(self) -> None:
        wait_until(lambda: self.stage.readiness() == "ok", "/readyz is ok again", timeout=30)


class TornLog(OnDisk):
    name = "control plane: kill -9, and a torn end of its log"
    allows_kill = False

    def inject(self) -> None:
        with self.stage.keeper.killed():
            self.disk.tear(self.stage.dice)


class FullDisk(OnDisk):
    name = "disk: full"
    held = (3, 8)
    allows_kill = False

    def __init__(self, stage: Stage, submit_large: Callable[[], None]) -> None:
        super().__init__(stage)
        self.submit_large = submit_large

    def inject(self) -> None:
        """The database log has free room within itself, which large jobs use up."""
        self.disk.fill()

        def is_told() -> bool:
            self.submit_large()
            return "full" in self.stage.cannot_write()

        wait_until(is_told, "/readyz says that the disk is full", timeout=30, every=0.5)

    def heal(self) -> None:
        self.disk.make_room()


class LongFullDisk(FullDisk):
    """The control plane gives up after 30 s, exits with an error, and is started again until there
    is room."""

    name = "disk: full until it gives up"

    def inject(self) -> None:
        super().inject()
        last_words = "what was answered is kept: database: database or disk is full"
        wait_until(lambda: last_words in self.stage.plane.output(), "it gives up", timeout=60)
        refusals = self.stage.keeper.refusals
        before = len(refusals)
        wait_until(lambda: len(refusals) > before, "it says that it cannot start", timeout=30)
        assert "No space left on device" in refusals[-1], refusals[-1]


class ReadOnlyDisk(OnDisk):
    """As ext4 does when the disk fails: open files cannot be written any more."""

    name = "disk: read-only under it"
    held = (3, 8)
    allows_kill = False

    def why_not(self) -> str:
        return ""

    def inject(self) -> None:
        self.stage.shim.make_read_only()
        wait_until(
            lambda: "disk I/O error" in self.stage.cannot_write(), "/readyz says so", timeout=30
        )

    def heal(self) -> None:
        self.stage.shim.make_writable()


class ReadOnlyStart(OnDisk):
    name = "disk: read-only at a start"
    held = (2, 4)
    allows_kill = False

    def inject(self) -> None:
        self._refusals = len(self.stage.keeper.refusals)
        with self.stage.keeper.killed():
            self.disk.remount("ro")
        refusals = self.stage.keeper.refusals
        wait_until(lambda: len(refusals) > self._refusals, "it says that it cannot start", 30)
        assert "Read-only file system" in refusals[-1], refusals[-1]

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


class Network(Fault):
    """Both dashboards behind a proxy, the fake one and the real one."""

    held = (6, 10)

    def __init__(self, stage: Stage, mood: Mood) -> None:
        super().__init__(stage)
        self.mood = mood
        self.name = {
            Mood.DELAYS: "network: answers and requests delayed, some past every patience",
            Mood.DROPS: "network: requests and answers lost",
            Mood.TRUNCATES: "network: answers cut off",
            Mood.DUPLICATES: "network: every request sent twice",
        }[mood]

    def inject(self) -> None:
        for proxy in self.stage.proxies.values():
            proxy.mood = self.mood

    def heal(self) -> None:
        for proxy in self.stage.proxies.values():
            proxy.mood = Mood.KIND

    def affected(self) -> tuple[str, ...]:
        return ("shaky", "mac")


class HeadKilled(Fault):
    """SIGKILL to every process on it, and a new head without memory."""

    held = (3, 5)

    def __init__(self, stage: Stage, cluster: RayCluster | Fake, witness: Witness) -> None:
        super().__init__(stage)
        self.cluster = cluster
        self.witness = witness
        kind = "a fake" if isinstance(cluster, Fake) else "a real"
        self.name = f"Ray head ({kind} one): kill -9, and a new one"

    def inject(self) -> None:
        self.witness.head_killed(self.cluster.name)
        self.cluster.kill()

    def heal(self) -> None:
        if isinstance(self.cluster, Fake):
            self.cluster.start()
        else:
            self.cluster.restart()
        self.witness.head_replaced(self.cluster.name)

    def affected(self) -> tuple[str, ...]:
        return (self.cluster.name,)


class HeadFrozen(Fault):
    """SIGSTOP: connections are accepted, but never answered."""

    name = "Ray head (a real one): SIGSTOP for a while"
    held = (8, 12)

    def __init__(self, stage: Stage, cluster: RayCluster) -> None:
        super().__init__(stage)
        self.cluster = cluster

    def inject(self) -> None:
        self.cluster.freeze()

    def heal(self) -> None:
        self.cluster.thaw()

    def affected(self) -> tuple[str, ...]:
        return (self.cluster.name,)
