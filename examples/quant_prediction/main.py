"""The morning's predictions: two jobs for the pool, each on whichever cluster suits it best.

    python main.py [--config cluster.yaml]

The jobs are named by their path on this machine. The cluster that runs one has its own copy
below its own home directory; the path is translated to it.
"""

from __future__ import annotations

import argparse
import shlex
import time
from pathlib import Path

from ray_multicluster_scheduler.app.client_api import (
    graceful_shutdown_on_keyboard_interrupt,
    initialize_scheduler_environment,
    submit_job,
    wait_for_all_jobs,
)

JOBS = Path(__file__).absolute().parent / "jobs"


@graceful_shutdown_on_keyboard_interrupt
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--config", help="the pool (default: the cluster.yaml that is found)")
    args = parser.parse_args()
    initialize_scheduler_environment(config_file_path=args.config)

    run = time.strftime("%Y%m%d-%H%M%S")
    submitted = [
        submit_job(
            entrypoint=f"python {shlex.quote(str(JOBS / f'{name}.py'))}",
            submission_id=f"{name}-{run}",
            metadata={"job_name": name, "run": run},
            resource_requirements={"CPU": 1},
        )
        for name in ("graph_prediction", "fund_prediction")
    ]
    wait_for_all_jobs(submitted, check_interval=5)
    print(f"done: {', '.join(submitted)}")


if __name__ == "__main__":
    main()
