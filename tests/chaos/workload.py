"""The jobs of a storm."""

from __future__ import annotations

import random

from history.record import History, Job


def make(history: History, dice: random.Random, count: int, real: int) -> list[Job]:
    """`count` jobs in a random order, `real` of them for real clusters; one in ten fails."""
    jobs = []
    for n in range(count):
        kind = "real" if n < real else "fake"
        # On two cores a real cluster starts about one job per second.
        seconds = dice.uniform(1, 4) if kind == "real" else dice.uniform(0.1, 6)
        exit_code = 3 if dice.random() < 0.1 else 0
        body = f"sleep {seconds:.1f}"
        jobs.append(history.job(f"chaos-{kind}-{n}", body, exit_code, tags=[kind]))
    dice.shuffle(jobs)
    return jobs
