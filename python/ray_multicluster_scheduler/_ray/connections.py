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
    """What must be known about a cluster before connecting to it."""

    name: str
    #: Of Ray Client: `host:port`, with or without `ray://`.
    head_address: str
    token: str | None = field(default=None, repr=False)
    #: The cluster's own; its tasks and actors run in it.
    runtime_env: dict[str, Any] = field(default_factory=dict, repr=False)
    ray_version: str | None = None
    python_version: str | None = None
    #: Changes whenever the cluster's head starts: Ray's session name.
    incarnation: str | None = None


class Connection(ABC):
    """One cluster, over Ray Client or as a driver of it."""

    #: The name of the cluster.
    name: str
    #: Closed by this program, not lost.
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
        """The actor's handle, once Ray has accepted it: ActorNameTakenError comes from here."""

    @abstractmethod
    def ready(self, refs: list[Any]) -> list[bool]:
        """Which of them are ready, at once and without fetching them."""

    @abstractmethod
    def alive(self) -> bool:
        """Whether it can be used; once lost or closed, it never can."""

    @abstractmethod
    def close(self) -> None:
        """Closes it, with its refs and handles. In bounded time, whatever the cluster does."""


class Connections:
    """Opened on first use, reused, opened again after a loss. Safe to use from any thread.

    `describe` returns a cluster's address whenever a connection is opened. A call to a cluster that
    does not answer fails within `call_timeout` seconds; a slow one does not. `namespace` is Ray's,
    for named actors.
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
        # Counts the calls of close(): a connection being opened must not outlive it.
        self._closings = 0

    def get(self, name: str) -> Connection:
        """The connection to a cluster; a dead cluster delays only callers that ask for it."""
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
        """The cluster `name`, on which this process runs as a driver or worker."""
        with self._lock:
            if self._native is None or not self._native.alive():
                from .native import NativeConnection

                self._native = NativeConnection.connect(name)
            return self._native

    def close(self) -> None:
        """Closes all of them. Their refs and handles report that from now on."""
        with self._lock:
            self._closings += 1
            ending = list(self._open.values())
            self._open.clear()
            if self._native is not None:
                ending.append(self._native)
                self._native = None
        # In parallel: a connection that does not answer takes time to give up.
        threads = [threading.Thread(target=one.close, daemon=True) for one in ending]
        try:
            for thread in threads:
                thread.start()
        except RuntimeError:
            # The interpreter is exiting and starts no more threads.
            for one in ending:
                one.close()
        for thread in threads:
            if thread.ident is not None:
                thread.join()

    def _once(self, name: str, opened: Callable[[], Connection]) -> Connection:
        """Of many concurrent callers, one opens the connection and all get the result."""
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
