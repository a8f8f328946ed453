"""The earlier prototype's errors. Deprecated: all are in ``ray_multicluster_scheduler.errors``."""

from __future__ import annotations

from ..errors import (
    ClusterConnectionError,
    ConfigurationError,
    NoHealthyClusterError,
    PolicyEvaluationError,
    SchedulerError,
    TaskSubmissionError,
)

__all__ = [
    "ClusterConnectionError",
    "ConfigurationError",
    "NoHealthyClusterError",
    "PolicyEvaluationError",
    "SchedulerError",
    "TaskSubmissionError",
]
