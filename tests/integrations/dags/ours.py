"""DAGs of our own operator, for Airflow 2 and 3. They talk with the test through files."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

try:
    from airflow.sdk import DAG
except ImportError:
    from airflow import DAG

from ray_multicluster_scheduler.airflow import RayMulticlusterJobOperator

FILES = Path(os.environ["INTEGRATION_FILES"])


def dag(name: str) -> DAG:
    return DAG(name, schedule=None, start_date=datetime(2026, 1, 1), catchup=False)


def job(task: str, entrypoint: str, **more: Any) -> RayMulticlusterJobOperator:
    more.setdefault("retry_delay", timedelta(0))
    return RayMulticlusterJobOperator(task_id=task, entrypoint=entrypoint, poll_interval=1, **more)


def until(name: str) -> str:
    """Runs until the test makes this file, and counts its runs."""
    file = FILES / name
    return f"echo $$ >> {file}.runs; while [ ! -e {file} ]; do sleep 0.2; done"


def note_pid(_: Any) -> None:
    (FILES / "lost.pid").write_text(str(os.getpid()))


with dag("journey"):
    first = job(
        "first",
        "echo hello $NAME from $RAY_MULTICLUSTER_CURRENT_CLUSTER; cat data.txt",
        working_dir=str(FILES / "code"),
        env_vars={"NAME": "{{ dag.dag_id }}"},
        preferred_cluster="mac",
        tags=["macos", "{{ task.task_id }}"],
        priority="{{ 2 + 3 }}",
        needs={"CPU": "{{ 1 }}", "memory": "64MiB"},
        metadata={"team": "quant"},
    )
    second = job("second", "echo deferred on purpose", deferrable=True)
    mapped = RayMulticlusterJobOperator.partial(task_id="mapped").expand(
        entrypoint=["echo part 0", "echo part 1"]
    )
    first >> second >> mapped

with dag("fails_once"):
    runs = FILES / "fails_once.runs"
    job("job", f"echo ran >> {runs}; [ $(wc -l < {runs}) -ge 2 ]", retries=1)

with dag("lost"):
    job("job", until("lost"), retries=1, pre_execute=note_pid)

with dag("killed"):
    job("waits", until("never"))
    job("deferred", until("never_either"), deferrable=True)

with dag("restarted"):
    job("job", until("restarted"), deferrable=True)

with dag("timed"):
    job("queued_first", "sleep 1", preferred_cluster="mac", required=True, timeout=5)
    job("too_long", until("too_long"), preferred_cluster="centos", timeout=timedelta(seconds=2))
    job("deferred", until("too"), preferred_cluster="centos", timeout=2, deferrable=True)

with dag("cleared"):
    job("job", f"echo ran >> {FILES / 'cleared.runs'}")
