"""One run: faults in a random order over continuous load, and the outcome of each."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field

from support.jobs import ENDED
from support.waiting import wait_until

from .faults import (
    ClockJumps,
    Fault,
    FullDisk,
    HeadFrozen,
    HeadKilled,
    LongFullDisk,
    Network,
    PlaneKilled,
    ReadOnlyDisk,
    ReadOnlyStart,
    TornLog,
)
from .proxy import Mood
from .stage import Stage
from .witness import Witness
from .workload import Clients, Job, Ledger


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
    def __init__(
        self, stage: Stage, clients: Clients, witness: Witness, ledger: Ledger, seed: int
    ) -> None:
        self.stage = stage
        self.clients = clients
        self.witness = witness
        self.ledger = ledger
        self.dice = random.Random(seed)
        self.strikes: list[Strike] = []
        #: Faults that this machine does not allow, and why.
        self.not_tried: dict[str, str] = {}
        self._extras = 0

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
            self.clients.release(parts=len(plan) - done)
            self._strike(fault, patience=1.0 if thorough else 0.6)

    def _faults(self, with_slow_ones: bool) -> list[Fault]:
        stage, witness = self.stage, self.witness
        centos, mac = stage.clusters["centos"], stage.clusters["mac"]
        quick: list[Fault] = [
            PlaneKilled(stage),
            TornLog(stage),
            FullDisk(stage, self._submit_large),
            ReadOnlyDisk(stage),
            ReadOnlyStart(stage),
            ClockJumps(stage, 3),
            ClockJumps(stage, -2),
            *(Network(stage, mood) for mood in Mood if mood is not Mood.KIND),
            HeadKilled(stage, stage.fakes["steady"], witness),
            HeadFrozen(stage, mac),
        ]
        slow: list[Fault] = [
            HeadKilled(stage, centos, witness),
            HeadKilled(stage, mac, witness),
            HeadFrozen(stage, centos),
            LongFullDisk(stage, self._submit_large),
        ]
        return quick + slow if with_slow_ones else quick

    def _strike(self, fault: Fault, patience: float) -> None:
        why_not = fault.why_not()
        if why_not:
            self.not_tried[fault.name] = why_not
            return
        strike = Strike(fault.name, set(self.witness.in_flight()))
        self.strikes.append(strike)
        began = time.monotonic()
        fault.inject()
        held = self.dice.uniform(*fault.held) * patience
        if fault.allows_kill and self.dice.random() < 0.4:
            # Two at once: after its own crash, the control plane must remember what it was doing.
            time.sleep(held * self.dice.random())
            self.strikes.append(Strike(PlaneKilled.name, set(self.witness.in_flight())))
            PlaneKilled(self.stage).inject()
        time.sleep(max(0.0, began + held - time.monotonic()))
        fault.heal()
        healed = time.monotonic()
        fault.after()
        strike.jobs.update(self.witness.accepted_since(began))
        for probe in [self._submit_probe(cluster) for cluster in fault.affected()]:
            self._wait_for(probe, f"{fault.name}: a job runs again on {probe.cluster}")
        strike.recovered = time.monotonic() - healed
        print(f"{fault.name}: held {healed - began:.1f} s, recovered in {strike.recovered:.1f} s")

    def _submit_probe(self, cluster: str) -> Job:
        job = self._extra("probe", "real" if cluster in self.stage.clusters else "fake")
        job.cluster = cluster
        self.clients.submit(job)
        return job

    def _submit_large(self) -> None:
        """In parallel: on a full disk it is repeated until there is room."""
        job = self._extra("large", "fake")
        job.padding = 256 * 1024
        threading.Thread(target=self.clients.submit, args=(job,), daemon=True).start()

    def _extra(self, what: str, tag: str) -> Job:
        self._extras += 1
        job_id = f"chaos-{what}-{self._extras}"
        job = Job(job_id, self.ledger.entrypoint(job_id, 0.1, 0), "SUCCEEDED", [tag])
        self.witness.add(job)
        return job

    def _wait_for(self, job: Job, what: str) -> None:
        wait_until(
            lambda: self.stage.plane.native_job(job.id)["ray_status"] in ENDED, what, timeout=60
        )
