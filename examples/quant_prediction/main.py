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
    parser.add_argument("jobs", nargs="*", default=["graph_prediction", "fund_prediction"])
    args = parser.parse_args()
    initialize_scheduler_environment(config_file_path=args.config)

    submission_ids = []
    for name in args.jobs:
        submission_id = submit_job(
            entrypoint=f"python {shlex.quote(str(JOBS / f'{name}.py'))}",
            submission_id=f"{name}-{time.strftime('%Y%m%d-%H%M%S')}",
            metadata={"job_name": name},
            # The job needs 16 CPUs for its actors; its own driver reserves none of them.
            resource_requirements={"CPU": 16},
        )
        submission_ids.append(submission_id)
        time.sleep(3)
    wait_for_all_jobs(submission_ids=submission_ids, check_interval=10)
    print(f"done: {', '.join(submission_ids)}")


if __name__ == "__main__":
    main()
