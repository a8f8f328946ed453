"""A connection without Ray Client: for a job, task or actor on the cluster it runs on."""

from __future__ import annotations

import functools
import operator
import os
import signal
import threading
from typing import Any

import ray

from .._context import current_context
from . import internals
from .client import check_kind, is_name_taken, name_taken
from .connections import Connection
from .pickling import NATIVE, foreign, name_of
from .router import ROUTER
from .unplaced import Watch


class NativeConnection(Connection):
    """It starts nothing on the cluster."""

    is_native = True

    def __init__(self, name: str) -> None:
        self.name = name
        # Work of a worker belongs to its driver, which watches all of it.
        self._watch = Watch(name) if internals.JOB_CONFIG in os.environ else None
        self._notice_foreign_values()

    @classmethod
    def connect(cls, name: str) -> NativeConnection:
        """As a driver, unless this process is one, or a worker, already."""
        with internals.disable_client_hook():
            if ray.is_initialized():
                return cls(name)
            main = threading.current_thread() is threading.main_thread()
            before = signal.getsignal(signal.SIGTERM) if main else None
            # No runtime_env: the job has one, and Ray refuses to merge another into it.
            ray.init(address="auto")
            if before is not None and before is not signal.SIG_DFL:
                # Ray replaces the handler that the program has set.
                signal.signal(signal.SIGTERM, before)
        return cls(name)

    @classmethod
    def present(cls) -> NativeConnection:
        """The driver or worker that this process is."""
        context = current_context()
        return cls(context.cluster if context else NATIVE)

    def submit_task(
        self, function: Any, args: tuple, kwargs: dict[str, Any], options: dict[str, Any]
    ) -> Any:
        return self._call(False, function, args, kwargs, options)

    def submit_actor(
        self, actor_class: Any, args: tuple, kwargs: dict[str, Any], options: dict[str, Any]
    ) -> Any:
        try:
            return self.start_actor(actor_class, args, kwargs, options)
        except Exception as error:
            if is_name_taken(error):
                raise name_taken(self.name, options, error) from error
            raise

    def start_actor(
        self, actor_class: Any, args: tuple, kwargs: dict[str, Any], options: dict[str, Any]
    ) -> Any:
        return self._call(True, actor_class, args, kwargs, options)

    def put(self, *args: Any, **kwargs: Any) -> Any:
        with internals.disable_client_hook():
            return ray.put(*args, **kwargs)

    def get_actor(self, name: str, namespace: str | None) -> Any:
        with internals.disable_client_hook():
            return ray.get_actor(name, namespace)

    def ready(self, refs: list[Any]) -> list[bool]:
        if not refs:
            return []
        unique = list({ref.binary(): ref for ref in refs}.values())
        with internals.disable_client_hook():
            found, _ = ray.wait(unique, num_returns=len(unique), timeout=0, fetch_local=False)
        ids = {ref.binary() for ref in found}
        return [ref.binary() in ids for ref in refs]

    def alive(self) -> bool:
        with internals.disable_client_hook():
            return ray.is_initialized()

    def close(self) -> None:
        """The driver stays one until it exits: `ray.get` and its actors keep working."""
        if self._watch is not None:
            self._watch.close()

    def own(self, value: Any) -> Any:
        """A ref of another cluster as one of this cluster: by value, once there is one."""
        worker = internals.owner(value)
        if worker is None:
            return value
        if isinstance(value, internals.ClientActorHandle):
            raise foreign(name_of(worker), self.name)
        # Stored on the ref: passed to a thousand tasks, the value moves once, and is freed with the
        # ref.
        moved = value.__dict__.setdefault("_moved", {})
        if None not in moved:
            # Through its worker: Ray may be in the middle of a native call, and would resolve it
            # natively.
            fetched = ROUTER.adopt(worker).worker.get(value)
            with internals.disable_client_hook():
                moved[None] = ray.put(fetched)
        return moved[None]

    def _notice_foreign_values(self) -> None:
        """The same for refs and handles inside of values."""
        # From the standard library: workers that read such a value may not have this package.
        first = operator.itemgetter(0)
        for kind in (internals.ClientObjectRef, internals.ClientActorHandle):
            ray.util.register_serializer(
                kind, serializer=lambda value: (self.own(value),), deserializer=first
            )

    def _call(
        self,
        is_actor: bool,
        thing: Any,
        args: tuple,
        kwargs: dict[str, Any],
        options: dict[str, Any],
    ) -> Any:
        body, decorated, given = internals.unwrap(thing)
        check_kind(is_actor, body)
        if decorated is None:
            decorated = _decorated(body)
        # Ray treats a ref that is an argument itself as one of its own, by its id.
        args = tuple(map(self.own, args))
        kwargs = {key: self.own(value) for key, value in kwargs.items()}
        started = internals.call_natively(decorated, args, kwargs, {**given, **options})
        if self._watch is not None:
            self._watch.note()
        return started


@functools.lru_cache(maxsize=512)
def _decorated(body: Any) -> Any:
    """One object for all calls, so that Ray exports the function once."""
    return ray.remote(body)
