"""Everything that happens to replicas, their database and the network between. Each fault has a
name, how it is caused and undone, and from when on the next accept and the next dispatch are timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from support.replicas import LEASE, Replica, together
from support.shim import Shim
from support.wire import Mode, Point, Trigger, Wire, nothing

from .stage import CLUSTERS, Stage

# Shorter and longer than the lease, in seconds.
SHORT = (0.2, LEASE * 0.6)
LONG = (LEASE * 1.2, LEASE * 2.2)
# A point that is not reached within this time will not be: there was nothing to send.
REACHED = 4.0


class Fault:
    name = ""
    held: tuple[float, float] = (0.0, 0.0)
    #: Nothing can be accepted, or sent, before it ends: what it takes is timed from its end.
    is_total = False

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.replicas = stage.replicas
        self.leader = self.replicas.wait_for_leader()

    def inject(self) -> None:
        """Each has its own."""
        raise NotImplementedError

    def heal(self) -> None:
        """`Stage.mend` does the rest."""

    def spared(self) -> list[Replica]:
        """Those that clients can use meanwhile."""
        return [replica for replica in self.replicas.live() if replica is not self.leader]


class Killed(Fault):
    name = "leader: kill -9"

    def inject(self) -> None:
        self.leader.kill()


class HandOver(Fault):
    name = "leader: SIGTERM"

    def inject(self) -> None:
        assert self.leader.stop() == 0


class FollowerKilled(Fault):
    name = "follower: kill -9"

    def inject(self) -> None:
        self.victim = self.stage.dice.choice(self.replicas.followers())
        self.victim.kill()

    def spared(self) -> list[Replica]:
        return self.replicas.live()


class AllKilled(Fault):
    name = "all replicas: kill -9 at once"
    is_total = True

    def inject(self) -> None:
        together(replica.kill for replica in self.replicas)

    def heal(self) -> None:
        together(replica.start for replica in self.replicas)

    def spared(self) -> list[Replica]:
        return self.replicas.all


class RollingRestart(Fault):
    name = "all replicas: restarted one after the other"

    def inject(self) -> None:
        for replica in self.replicas:
            assert replica.stop() == 0
            replica.start()

    def spared(self) -> list[Replica]:
        return self.replicas.live()


class AtAPoint(Fault):
    """Something happens to the leader at a certain point of a commit or of a dispatch."""

    def __init__(self, stage: Stage, point: Point, what: str) -> None:
        super().__init__(stage)
        self.point = point
        self.is_commit = what == "commit"
        words = {
            Point.BEFORE: f"before a {what}",
            Point.INSIDE: f"inside a {what}",
            Point.UNANSWERED: f"after a {what}, before its answer",
            Point.ANSWERED: f"right after the answer to a {what}",
            Point.LOST: f"a {what} whose answer is lost",
        }
        self.where = words[point]
        self._armed: list[tuple[Wire, Trigger]] = []

    def do_at_point(self, action: Callable[[], object]) -> None:
        """Returns once it was done, at that point or, if nothing comes by, without it."""
        if self.is_commit:
            wire = self.leader.to_database
            self._armed = [(wire, wire.at_commit(self.point, action))]
        else:
            wires = [self.leader.to_clusters[name] for name in CLUSTERS]
            self._armed = [(wire, wire.at_submit(self.point, action)) for wire in wires]
        deadline = time.monotonic() + REACHED
        while time.monotonic() < deadline:
            if any(trigger.happened.is_set() for _, trigger in self._armed):
                return
            time.sleep(0.01)
        self.disarm()
        action()

    def disarm(self) -> None:
        for wire, trigger in self._armed:
            wire.disarm()
            trigger.release()


class FrozenAt(AtAPoint):
    def __init__(self, stage: Stage, point: Point, what: str, is_long: bool) -> None:
        super().__init__(stage, point, what)
        self.held = LONG if is_long else SHORT
        length = "longer" if is_long else "shorter"
        self.name = f"leader: SIGSTOP {self.where}, {length} than its lease"

    def inject(self) -> None:
        self.do_at_point(self.leader.freeze)

    def heal(self) -> None:
        # What it had sent arrives now, or just after it has woken up.
        first, second = self.disarm, self.leader.thaw
        if self.stage.dice.random() < 0.5:
            first, second = second, first
        first()
        second()


class KilledAt(AtAPoint):
    """What it had sent may arrive seconds after its end."""

    def __init__(self, stage: Stage, point: Point, what: str) -> None:
        super().__init__(stage, point, what)
        self.held = (0.0, 2 * LEASE)
        self.name = f"leader: kill -9 {self.where}"

    def inject(self) -> None:
        self.do_at_point(self.leader.kill)

    def heal(self) -> None:
        self.disarm()


class AnswerLost(AtAPoint):
    """And perhaps the database cannot be reached for a while after that."""

    def __init__(self, stage: Stage, is_cut: bool) -> None:
        super().__init__(stage, Point.LOST, "commit")
        self.is_cut = is_cut
        self.held = LONG if is_cut else (0.0, 0.2)
        self.name = f"leader: {self.where}{', and then the database' if is_cut else ''}"

    def inject(self) -> None:
        self.do_at_point(self._cut if self.is_cut else nothing)

    def _cut(self) -> None:
        # Within the wire's own thread; the trigger has reset this connection.
        self.leader.to_database.refuse()

    def heal(self) -> None:
        self.disarm()
        self.leader.to_database.mode = Mode.PASS

    def spared(self) -> list[Replica]:
        return super().spared() if self.is_cut else self.replicas.live()


class SessionsEnded(Fault):
    def __init__(self, stage: Stage, only_writer: bool) -> None:
        super().__init__(stage)
        self.only = "query LIKE '%COMMIT%'" if only_writer else "true"
        whose = "some sessions" if only_writer else "all sessions"
        self.name = f"database: pg_terminate_backend, {whose}"

    def inject(self) -> None:
        self.stage.database.terminate(self.only)

    def spared(self) -> list[Replica]:
        return self.replicas.live()


class Partition(Fault):
    """Between the leader, or a follower, and the database."""

    def __init__(self, stage: Stage, mode: Mode, is_long: bool, is_leader: bool = True) -> None:
        super().__init__(stage)
        self.mode = mode
        self.held = LONG if is_long else SHORT
        followers = [one for one in self.replicas.live() if one is not self.leader]
        self.victim = self.leader if is_leader else stage.dice.choice(followers)
        whose = "leader" if is_leader else "follower"
        length = "longer" if is_long else "shorter"
        self.name = f"{whose} and database: {words(mode)}, {length} than the lease"

    def inject(self) -> None:
        self.victim.to_database.mode = self.mode

    def heal(self) -> None:
        if self.stage.dice.random() < 0.3:
            self.victim.to_database.reset()
        self.victim.to_database.mode = Mode.PASS

    def spared(self) -> list[Replica]:
        return [replica for replica in self.replicas.live() if replica is not self.victim]


class ClustersAway(Fault):
    """Between the leader and all clusters; the database is there, so it goes on leading."""

    held = LONG
    is_total = True

    def __init__(self, stage: Stage, mode: Mode) -> None:
        super().__init__(stage)
        self.mode = mode
        self.name = f"leader and clusters: {words(mode)}"

    def inject(self) -> None:
        for wire in self.leader.to_clusters.values():
            wire.mode = self.mode

    def heal(self) -> None:
        for wire in self.leader.to_clusters.values():
            wire.mode = Mode.PASS

    def spared(self) -> list[Replica]:
        return self.replicas.live()


class ClustersAwayAndKilled(ClustersAway):
    """What the leader had sent to clusters arrives after another one leads."""

    is_total = False

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage, Mode.SWALLOW)
        self.name = "leader: requests to clusters delayed, and kill -9"

    def inject(self) -> None:
        super().inject()
        time.sleep(0.5)
        self.leader.kill()

    def spared(self) -> list[Replica]:
        return Fault.spared(self)


class DatabaseKilled(Fault):
    name = "database: kill -9, and started again"
    held = (0.0, 3.0)
    is_total = True

    def inject(self) -> None:
        self.stage.database.server.kill()

    def heal(self) -> None:
        self.stage.database.server.restart()

    def spared(self) -> list[Replica]:
        return self.replicas.live()


class DatabaseHangs(Fault):
    is_total = True
    what = "database: hangs"

    def __init__(self, stage: Stage, is_long: bool) -> None:
        super().__init__(stage)
        self.held = (4.0, 8.0) if is_long else SHORT
        length = "longer" if is_long else "shorter"
        self.name = f"{self.what}, {length} than the lease"

    def inject(self) -> None:
        self.stage.database.server.freeze()

    def heal(self) -> None:
        self.stage.database.server.thaw()

    def spared(self) -> list[Replica]:
        return self.replicas.live()


class SyncsHang(DatabaseHangs):
    """It answers reads, and no commit."""

    what = "database: fsync hangs"

    def inject(self) -> None:
        self.stage.database.server.shim.hang_syncs(True)

    def heal(self) -> None:
        self.stage.database.server.shim.hang_syncs(False)


class ClockOff(Fault):
    """Of the next leader, or of this one while it leads."""

    held = (0.5, 2.0)

    def __init__(self, stage: Stage, shims: dict[str, Shim], is_next: bool) -> None:
        super().__init__(stage)
        self.shims, self.is_next = shims, is_next
        whose = "next leader, after kill -9 of the leader" if is_next else "leader"
        self.name = f"clock: an hour off at the {whose}"

    def inject(self) -> None:
        for replica in self.replicas:
            if (replica is not self.leader) == self.is_next:
                self.shims[replica.name].set_clock(self.stage.dice.choice([-1, 1]))
        if self.is_next:
            self.leader.kill()

    def heal(self) -> None:
        for shim in self.shims.values():
            shim.set_clock(0)

    def spared(self) -> list[Replica]:
        return self.replicas.live()


def words(mode: Mode) -> str:
    return {
        Mode.CUT: "connections reset and refused",
        Mode.SWALLOW: "partition",
        Mode.SWALLOW_REQUESTS: "requests held back",
        Mode.SWALLOW_ANSWERS: "answers held back",
    }[mode]


def every_fault(shims: dict[str, Shim]) -> list[Callable[[Stage], Fault]]:
    """One of each kind, to be made at the moment it happens."""
    stopping = (Point.BEFORE, Point.INSIDE, Point.UNANSWERED, Point.ANSWERED)
    points = [(point, "commit") for point in stopping]
    points += [(point, "dispatch") for point in stopping]
    lossy = (Mode.SWALLOW, Mode.SWALLOW_REQUESTS, Mode.SWALLOW_ANSWERS, Mode.CUT)
    made: list[Callable[[Stage], Fault]] = []
    # The most important kinds, several times.
    made += [Killed, HandOver] * 4
    made += [FollowerKilled, AllKilled, RollingRestart, ClustersAwayAndKilled, DatabaseKilled]
    for point, what in points:
        made += [partial(FrozenAt, point=point, what=what, is_long=b) for b in (False, True)]
        made.append(partial(KilledAt, point=point, what=what))
    for mode in lossy:
        made += [partial(Partition, mode=mode, is_long=b) for b in (False, True)]
        made.append(partial(ClustersAway, mode=mode))
    for mode in (Mode.SWALLOW, Mode.CUT):
        made.append(partial(Partition, mode=mode, is_long=True, is_leader=False))
    for either in (False, True):
        made.append(partial(AnswerLost, is_cut=either))
        made.append(partial(SessionsEnded, only_writer=either))
        made.append(partial(DatabaseHangs, is_long=either))
        made.append(partial(SyncsHang, is_long=either))
        made.append(partial(ClockOff, shims=shims, is_next=either))
    return made
