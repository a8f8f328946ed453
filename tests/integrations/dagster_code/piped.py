"""The other end of Dagster Pipes, in a job on a cluster."""

from __future__ import annotations

import os

from dagster_pipes import open_dagster_pipes

with open_dagster_pipes() as context:
    cluster = os.environ["RAY_MULTICLUSTER_CURRENT_CLUSTER"]
    context.log.info(f"answer {2 * context.get_extra('number')} from {cluster}")
