"""One task or actor to submit: checked, then submitted at once or in the background."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable

from .._keywords import also_as
from .known import Known

if TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec

    from .._scheduler import Scheduler

    P = ParamSpec("P")


class Submission(Future[tuple[str, Any]]):
    """A future of an id and a reference for `ray.get`, or a handle.

    ``id, handle = submit_actor_async(…)`` waits, as it did in the earlier prototype.
    """

    def __init__(self, id: str) -> None:
        super().__init__()
        #: The same id, from the start.
        self.id = id

    def __iter__(self) -> Iterator[Any]:
        return iter(self.result())


@dataclass(frozen=True)
class Plan:
    """A task or actor with checked arguments; `submit` takes the id it will have."""

    id: str
    known: Known
    submit: Callable[[str], tuple[str, Any]]


def waits(
    plan: Callable[Concatenate[Scheduler, P], Plan],
) -> Callable[Concatenate[Scheduler, P], tuple[str, Any]]:
    """Submits the planned work, and waits until a cluster accepts it."""

    @functools.wraps(plan)
    def submit(self: Scheduler, /, *args: P.args, **kwargs: P.kwargs) -> tuple[str, Any]:
        planned = plan(self, *args, **kwargs)
        return planned.submit(planned.id)

    _sign(submit, inspect.signature(plan).replace(return_annotation="tuple[str, Any]"))
    return submit


def without_waiting(
    call: Callable[Concatenate[Scheduler, P], tuple[str, Any]], alias: str, **defaults: Any
) -> Callable[Concatenate[Scheduler, P], Submission]:
    """The call that does not wait, with the parameters of the one that does.

    `defaults` replace parameter defaults that would not suit; they are keywords only.
    """
    plan: Callable[..., Plan] = inspect.unwrap(call)
    signature = inspect.signature(call)

    @functools.wraps(call)
    def submit(self: Scheduler, /, *args: P.args, **kwargs: P.kwargs) -> Submission:
        return self._later(plan(self, *args, **{**defaults, **kwargs}))

    submit.__name__ = f"{call.__name__}_async"
    submit.__qualname__ = f"{call.__qualname__}_async"
    submit.__doc__ = f"Does not wait: returns a future of what :meth:`{call.__name__}` returns."
    kept = [each for name, each in signature.parameters.items() if name not in defaults]
    _sign(submit, signature.replace(parameters=kept, return_annotation="Submission"))
    return also_as(alias, list(signature.parameters)[1])(submit)


def _sign(function: Callable[..., Any], signature: inspect.Signature) -> None:
    function.__signature__ = signature  # type: ignore[attr-defined]
