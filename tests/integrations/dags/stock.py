"""A DAG as users of astro-provider-ray have it: three jobs, one after another."""

from __future__ import annotations

from datetime import datetime

try:
    from airflow.sdk import DAG
    from ray_provider.operators import SubmitRayJob
except ImportError:
    # Only in the environment of Airflow 3.
    pass
else:
    with DAG("stock", schedule=None, start_date=datetime(2026, 1, 1), catchup=False):
        before = None
        for number in (1, 2, 3):
            job = SubmitRayJob(
                task_id=f"job{number}",
                conn_id="ray_stock",
                entrypoint=f"echo stock job {number}",
                runtime_env={"env_vars": {"NUMBER": str(number)}},
                num_cpus=1,
                poll_interval=1,
            )
            if before is not None:
                before >> job
            before = job
