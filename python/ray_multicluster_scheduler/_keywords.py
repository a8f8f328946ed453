"""Second names of parameters, for programs that use them."""

from __future__ import annotations

import functools
from typing import Any, Callable, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


def also_as(other: str, name: str) -> Callable[[F], F]:
    """The parameter `name` can also be given by the keyword `other`."""

    def decorate(call: F) -> F:
        @functools.wraps(call)
        def renamed(*args: Any, **kwargs: Any) -> Any:
            if other in kwargs:
                if name in kwargs:
                    raise TypeError(f"{call.__name__}() got both {name!r} and {other!r}")
                kwargs[name] = kwargs.pop(other)
            return call(*args, **kwargs)

        return cast(F, renamed)

    return decorate
