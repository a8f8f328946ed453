"""Plain `ray` functions over several clusters: which one is a call for?

Ray asks a context for everything while it is in client mode, and every thread starts with the
same one. Once this package connects, that one becomes a :class:`RoutingContext`, for the life
of the process. Calls go where their refs and handles belong; those that name none go to
:meth:`Router.default`.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Union, cast

import ray
from ray.experimental import internal_kv

from .._context import chosen_cluster
from ..errors import ClusterConnectionError
from . import internals, mixed
from .done import done

if TYPE_CHECKING:
    from .client import ClientConnection
    from .connections import Connections
    from .native import NativeConnection

Target = Union["ClientConnection", "NativeConnection"]


class ClusterContext(internals.ClientContext):
    """Of one cluster: what a thread makes while this is its context belongs there."""

    def __init__(self, worker: internals.Worker) -> None:
        super().__init__()
        self.client_worker = worker
        self.api = RoutingAPI(worker)

    def is_connected(self) -> bool:
        # Nothing goes round the API, which knows better than Ray what to say of a lost cluster.
        return True


class RoutingContext(internals.ClientContext):
    """What the default context becomes. The user's own `ray.init("ray://...")` stays in it."""

    _own: internals.Worker | None

    @property
    def client_worker(self) -> internals.Worker | None:
        """Whose the ref or handle is that this thread is about to make."""
        if getattr(ROUTER.thread, "connecting", False):
            return self._own
        return getattr(ROUTER.thread, "worker", None) or self._own

    @client_worker.setter
    def client_worker(self, worker: internals.Worker | None) -> None:
        self._own = worker

    def connect(self, *args: Any, **kwargs: Any) -> Any:
        """The user's own, after ours: theirs is the default from now on."""
        ROUTER.thread.connecting = True
        try:
            info = super().connect(*args, **kwargs)
        finally:
            ROUTER.thread.connecting = False
        ROUTER.adopt(self._own)
        return info

    def disconnect(self) -> None:
        own, self._own = self._own, None
        if own is not None:
            own.close()

    def is_connected(self) -> bool:
        """Of the user's own alone: with ours, they may still call ray.init()."""
        return self._own is not None and self._own.is_connected()

    def __getattr__(self, key: str) -> Any:
        if getattr(ROUTER.thread, "connecting", False):
            return getattr(RoutingAPI(self._own), key)
        return getattr(self.api, key)


class RoutingAPI(internals.ClientAPI):
    """`ray.get` and all the others. `worker` is the cluster's of a context that has one."""

    def __init__(self, worker: internals.Worker | None = None) -> None:
        self._worker = worker

    @property
    def worker(self) -> Any:
        """For what Ray asks of the worker itself."""
        return self._worker or ROUTER.default_client("this call").worker

    @worker.setter
    def worker(self, worker: Any) -> None:
        """Ray sets it for the user's own connection, which the context keeps."""

    def get(self, vals: Any, *, timeout: float | None = None, **others: Any) -> Any:
        if isinstance(vals, list):
            return mixed.get(vals, timeout) if vals else []
        if internals.owner(vals) is None:
            return _natively(ray.get, vals, timeout=timeout, **others)
        return mixed.get([vals], timeout)[0]

    def wait(
        self,
        object_refs: list[Any],
        *,
        num_returns: int = 1,
        timeout: float | None = None,
        fetch_local: bool = True,
    ) -> tuple[list[Any], list[Any]]:
        return mixed.wait_for(object_refs, num_returns, timeout, fetch_local)

    def put(self, *args: Any, **kwargs: Any) -> Any:
        if self._worker is not None:
            return self._worker.put(*args, **kwargs)
        return ROUTER.default("ray.put").put(*args, **kwargs)

    def call_remote(self, instance: Any, *args: Any, **kwargs: Any) -> list:
        worker = internals.callee(instance)
        worker = self.worker if worker is None else ROUTER.adopt(worker).worker
        futures = worker.call_remote(instance, *args, **kwargs)
        # Ray makes the refs of them next, in this thread.
        ROUTER.thread.worker = worker
        return futures

    def kill(self, actor: Any, *, no_restart: bool = True) -> None:
        worker = internals.owner(actor)
        if worker is None:
            _natively(ray.kill, actor, no_restart=no_restart)
        else:
            ROUTER.adopt(worker).worker.terminate_actor(actor, no_restart)
            if no_restart:
                done([actor])

    def cancel(self, obj: Any, *, force: bool = False, recursive: bool = True) -> None:
        worker = internals.owner(obj)
        if worker is None:
            _natively(ray.cancel, obj, force=force, recursive=recursive)
        else:
            ROUTER.adopt(worker).worker.terminate_task(obj, force, recursive)

    def get_actor(self, name: str, namespace: str | None = None) -> Any:
        return ROUTER.find_actor(name, namespace)

    def is_initialized(self) -> bool:
        return native_is_up() or bool(ROUTER.connected())

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        # Decided at the call: what it is given may belong somewhere.
        with internals.disable_client_hook():
            return ray.remote(*args, **kwargs)

    def method(self, *args: Any, **kwargs: Any) -> Any:
        with internals.disable_client_hook():
            return ray.method(*args, **kwargs)

    def _convert_function(self, func: internals.RemoteFunction) -> str:
        return ROUTER.convert(func)

    def _convert_actor(self, actor: internals.ActorClass) -> str:
        return ROUTER.convert(actor)

    def _converted_key_exists(self, key: str) -> bool:
        return key in ROUTER.converted

    def _get_converted(self, key: str) -> Routed:
        return Routed(ROUTER.converted[key], self._worker)

    def __getattribute__(self, key: str) -> Any:
        """What is not routed above is asked of the default: natively, if it is the driver."""
        if key in NATIVELY and self._worker is None and ROUTER.is_native():
            return _without_hook(NATIVELY[key])
        return super().__getattribute__(key)


class Routed:
    """A `@ray.remote` function or class on its way to whichever cluster it is called for."""

    def __init__(self, decorated: Any, worker: internals.Worker | None) -> None:
        self._decorated = decorated
        self._worker = worker

    def _remote(self, args: Any, kwargs: Any, **options: Any) -> Any:
        args, kwargs = tuple(args or ()), dict(kwargs or {})
        # Ray adds those of the decorator, some of which it does not take for a single call.
        usual = internals.default_options(self._decorated)
        options = {k: v for k, v in options.items() if k not in usual or usual[k] is not v}
        target = ROUTER.target(args, kwargs) if self._worker is None else self._worker.connection
        if isinstance(self._decorated, internals.ActorClass):
            return target.start_actor(self._decorated, args, kwargs, options)
        return target.submit_task(self._decorated, args, kwargs, options)


class Router:
    """One per process, since there is one `ray`."""

    def __init__(self) -> None:
        #: `worker`: of this thread's last call. `connecting`: the user's own ray.init() runs.
        self.thread = threading.local()
        #: Functions and classes that Ray has asked about; they go when nobody else has them.
        self.converted: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
        self._lock = threading.RLock()
        self._connections: list[ClientConnection] = []
        self._owners: weakref.WeakSet[Connections] = weakref.WeakSet()
        self._own: dict[internals.Worker, ClientConnection] = {}
        self._installed = False

    def install(self, owner: Connections) -> None:
        """Takes the default context over, once; a connection that is there already stays."""
        with self._lock:
            self._owners.add(owner)
            if self._installed:
                return
            context, stub = internals.DEFAULT_CONTEXT, internals.STUB
            own = context.__dict__.pop("client_worker", None)
            context.__class__ = RoutingContext
            context.client_worker = own
            context.api = RoutingAPI()
            if own is not None:
                self.adopt(own)
            stub.shutdown = self._shutdown
            stub.disconnect = _keeping_client_mode(stub.disconnect)
            internals.disable_auto_init()
            internals.enable_client_mode()
            self._installed = True

    def add(self, connection: ClientConnection) -> bool:
        """False if its ids could be those of another: Ray derives them from the job id."""
        with self._lock:
            used = {other.job_id for other in self.connected()}
            if native_is_up():
                used.add(_natively(ray.get_runtime_context).get_job_id())
            if connection.job_id in used:
                return False
            self._connections.append(connection)
            return True

    def connected(self) -> list[ClientConnection]:
        """Ours, the oldest first; and before them the user's own."""
        with self._lock:
            self._connections = [one for one in self._connections if one.alive()]
            self._own = {worker: one for worker, one in self._own.items() if one.alive()}
            return [*self._own.values(), *self._connections]

    def adopt(self, worker: internals.Worker) -> ClientConnection:
        """The connection of any worker; the user's own become known here."""
        connection = getattr(worker, "connection", None)
        if connection is None:
            from .client import own_connection

            with self._lock:
                connection = self._own[worker] = own_connection(worker)
        return connection

    def target(self, args: tuple, kwargs: dict[str, Any]) -> Target:
        """For a function or class with these arguments.

        A cluster that was asked for, or else that of a handle (which works nowhere else), or
        this program's own Ray, or that of a ref, which saves moving it.
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
        """For a call that names no ref or handle.

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
            f"no Ray cluster is connected, so {what} has nowhere to go",
            hint="submit_task and submit_actor connect by themselves; "
            "for a Ray of your own call ray.init() first",
        )

    def is_native(self) -> bool:
        """Whether the default is this program's own Ray; also if there is nothing else."""
        target = self._chosen() or self._users_own()
        return not self.connected() if target is None else target.is_native

    def find_actor(self, name: str, namespace: str | None) -> Any:
        """By name, on all clusters; the one of this thread or program first."""
        first = self._chosen() or self._users_own()
        if first is not None:
            with contextlib.suppress(ValueError):
                return first.get_actor(name, namespace)
        others = [one for one in self.connected() if one is not first]
        asked = {mixed.start(partial(one.get_actor, name, namespace)): one for one in others}
        found: dict[str, Any] = {}
        lost: list[ClusterConnectionError] = []
        for future, connection in asked.items():
            try:
                found[connection.name] = future.result()
            except ClusterConnectionError as error:
                lost.append(error)
            except ValueError:
                # Not there.
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
        for owner in list(self._owners):
            native = owner.native_if_open()
            if native is not None and native.name == name:
                return cast("NativeConnection", native)
        for owner in list(self._owners):
            return cast("ClientConnection", owner.get(name))
        return None

    def _users_own(self) -> Target | None:
        if native_is_up():
            from .native import NativeConnection

            return NativeConnection.present()
        with self._lock:
            return next((one for one in self._own.values() if one.alive()), None)

    def _shutdown(self, _exiting_interpreter: bool = False, **_others: Any) -> None:
        """`ray.shutdown()`: ours, the user's own, and the native driver's."""
        for owner in list(self._owners):
            owner.close()
        internals.STUB.disconnect()
        if native_is_up():
            _natively(ray.shutdown, _exiting_interpreter=_exiting_interpreter)


ROUTER = Router()

#: What is not about a ref or handle, by the name that Ray asks for it.
NATIVELY: dict[str, Callable[..., Any]] = {
    **{
        name: getattr(ray, name)
        for name in (
            "nodes",
            "timeline",
            "cluster_resources",
            "available_resources",
            "get_runtime_context",
            "get_gpu_ids",
        )
    },
    **{
        name: function
        for name, function in vars(internal_kv).items()
        if name.startswith(("_internal_kv_", "_pin_runtime_env")) and callable(function)
    },
}


def native_is_up() -> bool:
    """Whether this process is a driver or worker of a Ray cluster, without Ray Client."""
    with internals.disable_client_hook():
        return ray.is_initialized()


def _natively(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with internals.disable_client_hook():
        if not ray.is_initialized() and not ROUTER.connected():
            # Ray would say to call ray.init(), which is seldom what is wanted.
            ROUTER.default_client(f"ray.{function.__name__}")
        return function(*args, **kwargs)


def _without_hook(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        with internals.disable_client_hook():
            return function(*args, **kwargs)

    return call


def _keeping_client_mode(function: Callable[..., Any]) -> Callable[..., Any]:
    """Ray switches it off with the user's own connection; refs of ours still need it."""

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        finally:
            internals.enable_client_mode()

    return call
