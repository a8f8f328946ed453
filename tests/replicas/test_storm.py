"""Whatever breaks, accepted jobs run once and end as they should, and at most one replica leads.

`make test` tries a few faults, `make chaos` a thousand. `REPLICA_SEED` repeats the faults of a run
in their order, `REPLICA_FAULTS` says how many.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from pathlib import Path

import pytest

from chaos.report import write
from support.plane import REPOSITORY
from support.postgres import Postgres

from .faults import every_fault
from .report import render
from .storm import Outcome, Storm

FAULTS = int(os.environ.get("REPLICA_FAULTS", "12"))
SEED = int(os.environ.get("REPLICA_SEED") or random.randrange(1_000_000))
REPORT = Path(os.environ.get("CHAOS_REPORT") or REPOSITORY / "target/chaos/replicas.md")
# After so many, the verdict is given, and others begin on an empty database.
PART = 50
# The logs of a part that went wrong.
LOGS = REPOSITORY / "target/chaos/replicas"


@pytest.mark.timeout(60 + 30 * FAULTS)
def test_whatever_breaks_at_most_one_leads_and_every_job_runs_once(
    postgres: Postgres, tmp_path: Path
) -> None:
    print(f"REPLICA_SEED={SEED}")
    began = time.monotonic()
    outcome = Outcome()
    for number, kinds in enumerate(parts(FAULTS, random.Random(SEED))):
        directory = tmp_path / f"part{number}"
        directory.mkdir()
        database = postgres.database()
        storm = Storm(directory, database, SEED + number, outcome)
        try:
            storm.rage(kinds)
        finally:
            storm.stage.close()
        database.drop()
        if not outcome.is_good:
            keep = LOGS / f"{SEED}-{number}"
            shutil.copytree(directory, keep, dirs_exist_ok=True, ignore=_sockets)
            print(f"logs: {keep}")
    server = "PostgreSQL " + postgres.sql("SHOW server_version")[0][0].split()[0]
    text = render(outcome, SEED, time.monotonic() - began, server)
    print(text)
    assert outcome.violations == []
    assert outcome.leaders == []
    assert outcome.errors == []
    assert outcome.refused == []
    assert outcome.panics == 0
    assert len(outcome.strikes) == FAULTS
    write(text, REPORT, "replicas")


def parts(count: int, dice: random.Random) -> list[list[int]]:
    """So many faults, every kind as often as the others, in a random order."""
    kinds = len(every_fault({}))
    order: list[int] = []
    while len(order) < count:
        order += dice.sample(range(kinds), kinds)
    return [order[at : min(at + PART, count)] for at in range(0, count, PART)]


def _sockets(directory: str, names: list[str]) -> list[str]:
    """What cannot be copied."""
    paths = [Path(directory) / name for name in names]
    return [path.name for path in paths if not path.is_file() and not path.is_dir()]
