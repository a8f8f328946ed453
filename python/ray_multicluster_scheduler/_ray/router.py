"""The cluster that a call on `ray` goes to, if several are connected."""

from __future__ import annotations

import contextlib
import threading
import uuid
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, Union, cast

import ray

from .. import _forks
from .._context import chosen_cluster
from ..errors import ClusterConnectionError
from . import internals
from .threads import start

if TYPE_CHECKING:
    from .client import ClientConnection
    from .connections import Connections
    from .native import NativeConnection

Target = Union["ClientConnection", "NativeConnection"]


class Router:
    """One per process, since there is one `ray`."""

    def __init__(self) -> None:
        #: Functions and classes that Ray has asked about; freed with the last reference to them.
        self.converted: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
        self.after_fork()
        _forks.belongs_here(self)

    def after_fork(self) -> None:
        """No cluster is connected."""
        #: `worker`: of this thread's last call. `connecting`: the user's own ray.init() is running.
        self.thread = threading.local()
        self._lock = threading.RLock()
        self._connections: list[ClientConnection] = []
        self._owners: weakref.WeakSet[Connections] = weakref.WeakSet()
        self._own: dict[internals.Worker, ClientConnection] = {}

    def own(self, owner: Connections) -> None:
        """Sets who opens a cluster that a thread has chosen and that is not connected."""
        with self._lock:
            self._owners.add(owner)

    def owners(self) -> list[Connections]:
        with self._lock:
            return list(self._owners)

    def add(self, connection: ClientConnection) -> bool:
        """False if its ids could collide with another's: Ray derives them from the job id."""
        with self._lock:
            used = {other.job_id for other in self.connected()}
            with internals.disable_client_hook():
                if ray.is_initialized():
                    used.add(ray.get_runtime_context().get_job_id())
            if connection.job_id in used:
                return False
            self._connections.append(connection)
            return True

    def connected(self) -> list[ClientConnection]:
        """Ours, the oldest first; before them the user's own."""
        with self._lock:
            self._connections = [one for one in self._connections if one.alive()]
            self._own = {worker: one for worker, one in self._own.items() if one.alive()}
            return [*self._own.values(), *self._connections]

    def adopt(self, worker: internals.Worker) -> ClientConnection:
        """The connection of any worker; registers the user's own connections."""
        connection = getattr(worker, "connection", None)
        if connection is None:
            from .client import own_connection

            with self._lock:
                connection = self._own[worker] = own_connection(worker)
        return connection

    def target(self, args: tuple, kwargs: dict[str, Any]) -> Target:
        """For a function or class with these arguments.

        The chosen cluster, or else that of a handle (which works nowhere else), or this program's
        own Ray, or that of a ref, which saves moving it.
        """
        given = [*args, *kwargs.values()]
        chosen = self._chosen()
        if chosen is not None:
            return chosen
        for thing in given:
            if isinstance(thing, internals.ClientActorHandle):
                return self.adopt(internals.owner(thing))
        own = self._users_own()
        if own is not None:
            return own
        for thing in given:
            if isinstance(thing, internals.ClientObjectRef):
                return self.adopt(internals.owner(thing))
        return self.default("`.remote()`")

    def default(self, what: str) -> Target:
        """For a call without a ref or handle.

        The cluster of `with cluster_context(...)`, or this program's own Ray (a job's, or that
        of the user's `ray.init()`), or the first that was connected.
        """
        found = self._chosen() or self._users_own()
        return found if found is not None else self.default_client(what)

    def default_client(self, what: str) -> ClientConnection:
        chosen = self._chosen()
        if chosen is not None and not chosen.is_native:
            return cast("ClientConnection", chosen)
        for connection in self.connected():
            return connection
        raise ClusterConnectionError(
            f"no Ray cluster is connected, so {what} has no cluster to run on",
            hint="submit_task and submit_actor connect automatically; "
            "to use your own Ray, call ray.init() first",
        )

    def is_native(self) -> bool:
        """Whether the default is this program's own Ray; also if there is no other."""
        target = self._chosen() or self._users_own()
        return not self.connected() if target is None else target.is_native

    def find_actor(self, name: str, namespace: str | None) -> Any:
        """By name, on all clusters; the cluster of this thread or program first."""
        first = self._chosen() or self._users_own()
        if first is not None:
            with contextlib.suppress(ValueError):
                return first.get_actor(name, namespace)
        others = [one for one in self.connected() if one is not first]
        asked = {start(partial(one.get_actor, name, namespace)): one for one in others}
        found: dict[str, Any] = {}
        lost: list[ClusterConnectionError] = []
        for future, connection in asked.items():
            try:
                found[connection.name] = future.result()
            except ClusterConnectionError as error:
                lost.append(error)
            except ValueError:
                # Not on this cluster.
                continue
        if len(found) > 1:
            raise ValueError(
                f"there is an actor named {name!r} on several clusters: {', '.join(found)}. "
                "hint: say which in `with cluster_context(...):`"
            )
        for handle in found.values():
            return handle
        if not others and first is None:
            self.default_client("ray.get_actor")
        if lost:
            raise lost[0]
        raise ValueError(
            f"Failed to look up actor with name {name!r}: it is on none of the clusters "
            f"{[one.name for one in self.connected()]}"
        )

    def for_native(self, value: Any) -> Any:
        """An argument of a call on this program's own Ray."""
        native = self._native() if internals.owner(value) is not None else None
        return value if native is None else native.own(value)

    def convert(self, decorated: Any) -> str:
        key = uuid.uuid4().hex
        self.converted[key] = decorated
        return key

    def _chosen(self) -> Target | None:
        name = chosen_cluster()
        if name is None:
            return None
        for connection in self.connected():
            if connection.name == name:
                return connection
        native = self._native()
        if native is not None and native.name == name:
            return native
        for owner in self.owners():
            return cast("ClientConnection", owner.get(name))
        return None

    def _users_own(self) -> Target | None:
        native = self._native()
        if native is not None:
            return native
        with self._lock:
            return next((one for one in self._own.values() if one.alive()), None)

    def _native(self) -> NativeConnection | None:
        from .native import NativeConnection

        return NativeConnection.present() if native_is_up() else None


ROUTER = Router()


def native_is_up() -> bool:
    """Whether this process is a driver or worker of a Ray cluster, without Ray Client."""
    with internals.disable_client_hook():
        return ray.is_initialized()
