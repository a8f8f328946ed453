"""Notifications that a result was fetched, or an actor killed, by this program."""

from __future__ import annotations

from typing import Any, Callable

_MARK = "_multicluster_done"


def when_done(thing: Any, tell: Callable[[BaseException | None], None]) -> None:
    """Calls `tell` once, with the error of the fetch. For refs and handles of Ray Client."""
    thing.__dict__[_MARK] = tell


def done(things: list[Any], error: BaseException | None = None) -> None:
    """This program has fetched or killed these."""
    for thing in things:
        tell = thing.__dict__.pop(_MARK, None)
        if tell is not None:
            tell(error)
