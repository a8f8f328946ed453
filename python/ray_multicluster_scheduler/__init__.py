"""One front door to many Ray clusters.

Inside a job that the control plane placed, :func:`current_context` says which job it
is, on which cluster it runs and where the control plane is.
"""

from __future__ import annotations

from ._context import JobContext, cluster_context, current_context
from ._version import __version__

__all__ = ["JobContext", "__version__", "cluster_context", "current_context"]
