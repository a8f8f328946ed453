"""Several Ray clusters in one program, behind the plain `ray` functions.

Importing this does not import Ray: that happens with the first connection.
"""

from __future__ import annotations

from typing import Any

from .connections import ClusterAddress, Connection, Connections
from .done import when_done

__all__ = [
    "ClusterAddress",
    "Connection",
    "Connections",
    "carried_options",
    "ray_version",
    "when_done",
    "when_lost",
]


def when_lost(refs: list[Any], again: Any) -> None:
    """What the refs of a task continue with if its cluster is lost; see `again.when_lost`."""
    from . import again as module

    module.when_lost(refs, again)


def ray_version() -> str:
    """The version of Ray in this program."""
    from .internals import ray

    return str(ray.__version__)


def carried_options(thing: Any, *, is_actor: bool) -> dict[str, Any]:
    """The options of `@ray.remote(...)` and `.options(...)` of a function or class.

    Raises:
        TaskSubmissionError: it cannot be submitted.
    """
    from . import internals
    from .client import check_kind

    body, decorated, given = internals.unwrap(thing)
    check_kind(is_actor, body)
    return {**(internals.default_options(decorated) if decorated is not None else {}), **given}
