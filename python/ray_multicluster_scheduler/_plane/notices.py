"""What the caller of accepted work may not have meant: a warning, once."""

from __future__ import annotations

import logging
from collections.abc import Iterable

log = logging.getLogger("ray_multicluster_scheduler")

#: A loop that submits a thousand tasks with one mistyped tag gets one warning.
_told: set[str] = set()
#: Texts with numbers in them differ each time; this program's memory is not for them.
_MOST = 1000


def warn(job_id: str, notices: Iterable[str] | None) -> None:
    """One warning for each notice, once in this program."""
    for notice in notices or ():
        once(notice, f"{job_id}: {notice}")


def once(what: str, text: str) -> None:
    """A warning, unless there was one about this already."""
    if what not in _told and len(_told) < _MOST:
        _told.add(what)
        log.warning("%s", text)
