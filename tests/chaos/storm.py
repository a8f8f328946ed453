"""One run: faults in a random order over continuous load, and the outcome of each."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field

from history.record import Job, now

from .cluster_faults import (
    HeadFrozen,
    HeadKilled,
    Network,
    OldHeadKilled,
    OldRay,
    SlowLink,
    StrangersRun,
)
from .faults import (
    BurstOfTasks,
    ClockCorrected,
    ClockJumps,
    FailingWrites,
    Fault,
    FullDisk,
    LongFailingWrites,
    PlaneKilled,
    ReadOnlyStart,
    TornLog,
)
from .proxy import Mood
from .stage import Stage


@dataclass
class Strike:
    """One fault, once."""

    fault: str
    #: In flight when it began, or accepted while it lasted.
    jobs: set[str] = field(default_factory=set)
    #: Seconds from its end until a job submitted then had run, on each cluster it hit. Not measured
    #: for one that came in the middle of another.
    recovered: float | None = None


class Storm:
    def __init__(self, stage: Stage, seed: int) -> None:
        self.stage = stage
        self.dice = random.Random(seed)
        self.strikes: list[Strike] = []
        #: Faults that this machine does not allow, and why.
        self.not_tried: dict[str, str] = {}

    def rage(self, rounds: int) -> None:
        """Every fault once per round, in a new order each time; the slow ones once in total, and
        only if there is more than one round."""
        thorough = rounds > 1
        plan: list[Fault] = []
        for number in range(rounds):
            todo = self._faults(with_slow_ones=thorough and number == 0)
            self.dice.shuffle(todo)
            plan += todo
        for done, fault in enumerate(plan):
            self.stage.client.release(parts=len(plan) - done)
            self._strike(fault, patience=1.0 if thorough else 0.6)

    def _faults(self, with_slow_ones: bool) -> list[Fault]:
        stage = self.stage
        centos, mac = stage.clusters["centos"], stage.clusters["mac"]
        quick: list[Fault] = [
            PlaneKilled(stage),
            TornLog(stage),
            FullDisk(stage),
            FailingWrites(stage),
            ReadOnlyStart(stage),
            ClockJumps(stage, 3),
            ClockJumps(stage, -2),
            ClockCorrected(stage),
            Network(stage, Mood.DELAYS, "answers and requests delayed, some past every patience"),
            Network(stage, Mood.DROPS, "requests and answers lost"),
            Network(stage, Mood.TRUNCATES, "answers cut off"),
            Network(stage, Mood.DUPLICATES, "every request sent twice"),
            Network(stage, Mood.JOBS_HANG, "/api/jobs hangs while polls are answered", "shaky"),
            StrangersRun(stage),
            OldHeadKilled(stage),
            OldRay(stage),
            BurstOfTasks(stage),
            HeadFrozen(stage, mac),
        ]
        slow: list[Fault] = [
            HeadKilled(stage, stage.fakes["steady"]),
            HeadKilled(stage, centos),
            HeadKilled(stage, mac),
            HeadFrozen(stage, centos),
            LongFailingWrites(stage),
            SlowLink(stage),
        ]
        return quick + slow if with_slow_ones else quick

    def _strike(self, fault: Fault, patience: float) -> None:
        why_not = fault.why_not()
        if why_not:
            self.not_tried[fault.name] = why_not
            return
        history = self.stage.history
        strike = Strike(fault.name, set(history.in_flight()))
        self.strikes.append(strike)
        began = now()
        fault.inject()
        held = self.dice.uniform(*fault.held) * patience
        if fault.allows_kill and self.dice.random() < 0.4:
            # Two at once: after its own crash, the control plane must remember what it was doing.
            time.sleep(held * self.dice.random())
            self.strikes.append(Strike(PlaneKilled.name, set(history.in_flight())))
            PlaneKilled(self.stage).inject()
        time.sleep(max(0.0, began + held - now()))
        fault.heal()
        healed = now()
        fault.after()
        strike.jobs.update(history.accepted_since(began))
        for cluster, probe in [(name, self._probe(fault, name)) for name in fault.affected()]:
            fault.wait_for_end(probe, f"a job runs again on {cluster}")
        strike.recovered = now() - healed
        print(f"{fault.name}: held {healed - began:.1f} s, recovered in {strike.recovered:.1f} s")

    def _probe(self, fault: Fault, cluster: str) -> Job:
        tag = "real" if cluster in self.stage.clusters else "fake"
        return fault.submit("probe", tags=[tag], preferred_cluster=cluster, required=True)
