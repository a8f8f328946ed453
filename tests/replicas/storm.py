"""One part of a run: faults in a random order over continuous load, and the outcome of each."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from history.check import Violation
from history.record import now
from support.jobs import unique_id
from support.postgres import Database
from support.replicas import Replica, Sampler
from support.shim import Shim
from support.waiting import wait_until

from .faults import Fault, every_fault
from .stage import Stage

REPLICAS = 3
THREADS = 4
# A client waits up to this long after each submission.
PAUSE = 1.5
LATER = 90.0


@dataclass
class Strike:
    """One fault, once."""

    fault: str
    #: In flight when it began, or accepted before everything was mended.
    jobs: set[str] = field(default_factory=set)
    #: Seconds until the next submission was accepted, and until it was sent to a cluster.
    accepted: float | None = None
    sent: float | None = None


@dataclass
class Outcome:
    """Of all parts together."""

    strikes: list[Strike] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    #: Two that led at the same time.
    leaders: list[str] = field(default_factory=list)
    #: What else went wrong, such as a replica that did not come back.
    errors: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    repeated: dict[str, int] = field(default_factory=dict)
    jobs: int = 0
    epochs: int = 0
    panics: int = 0

    @property
    def is_good(self) -> bool:
        wrong = (self.violations, self.leaders, self.errors, self.refused)
        return not any(wrong) and not self.panics


class Storm:
    def __init__(self, directory: Path, database: Database, seed: int, outcome: Outcome) -> None:
        self.dice = random.Random(seed)
        self.outcome = outcome
        self.stage = Stage(directory, database, REPLICAS, seed, retain_finished=100_000)
        self.shims: dict[str, Shim] = {}
        for replica in self.stage.replicas:
            shim = self.shims[replica.name] = Shim(replica.plane.directory)
            replica.plane.add_env(shim.env)
        self._calm = threading.Event()

    def rage(self, kinds: list[int]) -> None:
        """These of all faults, in this order."""
        stage = self.stage.start()
        sampler = Sampler(stage.replicas)
        sampler.start()
        load = [threading.Thread(target=self._load, daemon=True) for _ in range(THREADS)]
        for thread in load:
            thread.start()
        faults = every_fault(self.shims)
        began = len(self.outcome.strikes)
        for kind in kinds:
            try:
                self._strike(faults[kind % len(faults)](stage))
            except Exception as error:
                self.outcome.errors.append(f"{self._last(began)}: {error!r:.3000}")
                break
        self._calm.set()
        for thread in load:
            thread.join(30)
        self._judge(sampler, began)

    def _judge(self, sampler: Sampler, began: int) -> None:
        stage, outcome = self.stage, self.outcome
        try:
            stage.mend()
            wait_until(lambda: not stage.history.in_flight(), "all jobs have ended", LATER)
        except AssertionError as error:
            outcome.errors.append(f"after {self._last(began)}: {error!s:.3000}")
        # A wrong second run might come late.
        time.sleep(1)
        outcome.leaders += sampler.stop()
        try:
            outcome.violations += stage.watcher.verdict()
        except Exception as error:
            outcome.errors.append(f"the verdict: {error!r:.3000}")
        outcome.refused += stage.client.refused
        for what, count in stage.client.repeated.items():
            outcome.repeated[what] = outcome.repeated.get(what, 0) + count
        outcome.jobs += len(stage.history.final)
        outcome.panics += stage.replicas.output().count("panicked")
        outcome.epochs += stage.database.epoch()

    def _last(self, began: int) -> str:
        strikes = self.outcome.strikes
        return strikes[-1].fault if len(strikes) > began else "the start"

    def _load(self) -> None:
        dice = random.Random(self.dice.random())
        while not self._calm.is_set():
            fails = dice.random() < 0.1
            body = f"sleep {dice.uniform(0.05, 1.5):.2f}"
            job = self.stage.history.job(unique_id("load"), body, 3 if fails else 0)
            self.stage.client.submit(job)
            time.sleep(dice.uniform(0, PAUSE))

    def _strike(self, fault: Fault) -> None:
        history = self.stage.history
        strike = Strike(fault.name, set(history.in_flight()))
        self.outcome.strikes.append(strike)
        began = now()
        fault.inject()
        struck = now()
        held = self.dice.uniform(*fault.held)
        with ThreadPoolExecutor() as threads:
            probe = None
            if not fault.is_total:
                # While the fault lasts: a short one ends before another one could lead.
                probe = threads.submit(self._probe, strike, struck, fault.spared())
            time.sleep(max(0.0, struck + held - now()))
            healed = now()
            fault.heal()
            if probe is None:
                self._probe(strike, healed, fault.spared())
            else:
                probe.result()
        self.stage.mend()
        strike.jobs.update(history.accepted_since(began))
        times = f"accepted after {strike.accepted:.2f} s, sent after {strike.sent:.2f} s"
        print(
            f"{len(self.outcome.strikes)}. {fault.name}: {now() - began:.1f} s, {times}", flush=True
        )

    def _probe(self, strike: Strike, since: float, spared: list[Replica]) -> None:
        """By a replica that is not hit itself: what counts is when there is a leader again."""
        probe = self.stage.probe(since, *spared)
        strike.accepted, strike.sent = probe.accepted, probe.sent
