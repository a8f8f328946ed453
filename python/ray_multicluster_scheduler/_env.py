"""The environment variables of the SDK, each declared once.

crates/types declares those of the program; a test keeps the two lists alike. Settings named
``SCHEDULER_…`` are in `_settings.py`.
"""

from __future__ import annotations

#: The control plane to use, such as ``http://host:8700``; several addresses, with commas, if it has
#: replicas. Also set in jobs that can reach it.
ADDRESS = "RAY_MULTICLUSTER_ADDRESS"
#: The token to show; `ray-multicluster token create` makes one.
TOKEN = "RAY_MULTICLUSTER_TOKEN"
#: A PEM file with the only authorities to trust, for a control plane with its own certificate.
CA_FILE = "RAY_MULTICLUSTER_CA_FILE"
#: The `ray-multicluster` program, instead of the one installed with this package or on ``PATH``.
BIN = "RAY_MULTICLUSTER_BIN"
#: Where background control planes keep their state (default ``~/.ray_scheduler/planes``).
PLANES_DIR = "RAY_MULTICLUSTER_PLANES_DIR"
#: How long a background control plane stays without work (default 10 minutes).
EXIT_WHEN_IDLE = "RAY_MULTICLUSTER_EXIT_WHEN_IDLE"
#: The state directory of `ray-multicluster serve` (default ``~/.ray_scheduler/state``).
STATE_DIR = "RAY_MULTICLUSTER_STATE_DIR"
#: The PostgreSQL database that several `ray-multicluster serve` share, as `--store` takes it.
STORE = "RAY_MULTICLUSTER_STORE"

# Set by the control plane in what it starts.
#: The cluster that a job, task or actor runs on.
CURRENT_CLUSTER = "RAY_MULTICLUSTER_CURRENT_CLUSTER"
#: The id of the job.
JOB_ID = "RAY_MULTICLUSTER_JOB_ID"
#: The number of the attempt, from 1.
ATTEMPT = "RAY_MULTICLUSTER_ATTEMPT"
#: The version of the control plane.
VERSION = "RAY_MULTICLUSTER_VERSION"

# Set by the sandbox.
#: In every process of a sandbox cluster: its temporary directory, by which `down` finds them.
SANDBOX = "RAY_MULTICLUSTER_SANDBOX"
