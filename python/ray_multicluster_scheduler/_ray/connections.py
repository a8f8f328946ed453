"""All connections of this program to Ray clusters."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Callable

from ..errors import ClusterConnectionError


@dataclass(frozen=True)
class ClusterAddress:
    """What there is to know about a cluster before connecting to it."""

    name: str
    #: Of Ray Client: `host:port`, with or without `ray://`.
    head_address: str
    token: str | None = field(default=None, repr=False)
    #: The cluster's own; what runs there runs in it.
    runtime_env: dict[str, Any] = field(default_factory=dict, repr=False)
    ray_version: str | None = None
    python_version: str | None = None
    #: Changes whenever the cluster's head starts: Ray's session name.
    incarnation: str | None = None


class Connection(ABC):
    """One cluster, over Ray Client or as a driver of it."""

    #: The cluster's.
    name: str
    #: By this program, and not lost.
    is_closed = False

    @abstractmethod
    def submit_task(
        self, function: Any, args: tuple, kwargs: dict[str, Any], options: dict[str, Any]
    ) -> Any:
        """The task's ObjectRef, a list of them for `num_returns` above 1.

        `function` is plain or decorated by `@ray.remote`; `options` are Ray's own, and win over
        those it was decorated with.
        """

    @abstractmethod
    def submit_actor(
        self, actor_class: Any, args: tuple, kwargs: dict[str, Any], options: dict[str, Any]
    ) -> Any:
        """The actor's handle, once Ray has taken it: ActorNameTakenError comes from here."""

    @abstractmethod
    def ready(self, refs: list[Any]) -> list[bool]:
        """Which of them are there, at once and without fetching them."""

    @abstractmethod
    def alive(self) -> bool:
        """Whether it can be used; once lost or closed, it stays so."""

    @abstractmethod
    def close(self) -> None:
        """Ends it, and what was made by it. In bounded time, whatever the cluster does."""


class Connections:
    """Opened on first use, reused, opened again after a loss. Safe to use from any thread.

    `describe` is asked for a cluster's address whenever a connection is opened. A call to a
    cluster that does not answer fails within `call_timeout` seconds; one that takes its time
    does not. `namespace` is Ray's, for named actors.
    """

    def __init__(
        self,
        describe: Callable[[str], ClusterAddress],
        *,
        call_timeout: float = 15.0,
        namespace: str | None = None,
    ) -> None:
        self._describe = describe
        self._call_timeout = call_timeout
        self._namespace = namespace or os.environ.get("RAY_NAMESPACE") or None
        self._lock = threading.Lock()
        self._open: dict[str, Connection] = {}
        self._opening: dict[str, Future[Connection]] = {}
        self._native: Connection | None = None
        # Counts the calls of close(): what was being opened before must not outlive it.
        self._closings = 0

    def get(self, name: str) -> Connection:
        """The connection to a cluster; a dead cluster holds up only those who ask for it."""
        from .opening import open_connection

        def opened() -> Connection:
            return open_connection(
                lambda: self._describe(name),
                owner=self,
                call_timeout=self._call_timeout,
                namespace=self._namespace,
            )

        return self._once(name, opened)

    def native(self, name: str) -> Connection:
        """The cluster that this process runs on, as a driver or worker of it: `name` is its."""
        with self._lock:
            if self._native is None or not self._native.alive():
                from .native import NativeConnection

                self._native = NativeConnection.connect(name)
            return self._native

    def close(self) -> None:
        """Ends all of them. Refs and handles they made say so from now on."""
        with self._lock:
            self._closings += 1
            ending = list(self._open.values())
            self._open.clear()
            if self._native is not None:
                ending.append(self._native)
                self._native = None
        # Side by side: one that does not answer takes its time to give up.
        threads = [threading.Thread(target=one.close, daemon=True) for one in ending]
        try:
            for thread in threads:
                thread.start()
        except RuntimeError:
            # The interpreter is ending and starts no more of them.
            for one in ending:
                one.close()
        for thread in threads:
            if thread.ident is not None:
                thread.join()

    def _once(self, name: str, opened: Callable[[], Connection]) -> Connection:
        """Many may ask at once: one opens, all have what came of it."""
        with self._lock:
            connection = self._open.get(name)
            if connection is not None and connection.alive():
                return connection
            opening = self._opening.get(name)
            mine = opening is None
            if opening is None:
                opening = self._opening[name] = Future()
            closings = self._closings
        if not mine:
            return opening.result()
        try:
            connection = opened()
            with self._lock:
                closed = self._closings != closings
                if not closed:
                    self._open[name] = connection
            if closed:
                connection.close()
                raise ClusterConnectionError(
                    f"the connection to cluster {name!r} was closed while it was being opened",
                    hint="the scheduler was stopped meanwhile: initialize it again",
                    cluster=name,
                )
        except BaseException as error:
            opening.set_exception(error if isinstance(error, Exception) else _interrupted(name))
            raise
        else:
            opening.set_result(connection)
            return connection
        finally:
            with self._lock:
                del self._opening[name]


def _interrupted(name: str) -> ClusterConnectionError:
    return ClusterConnectionError(
        f"connecting to cluster {name!r} was interrupted", hint="try again", cluster=name
    )
