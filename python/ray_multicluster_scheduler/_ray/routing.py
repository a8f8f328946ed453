"""Plain `ray` functions over several clusters: routing each call to its cluster.

In client mode, Ray asks a context for everything, and every thread starts with the same one. Once
this package connects, that context becomes a :class:`RoutingContext`, for the life of the process.
Calls go to the cluster of their refs and handles; calls without any go to `Router.default`.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, Callable

import ray
from ray.experimental import internal_kv

from .. import _forks
from . import internals, mixed
from .done import done
from .router import ROUTER, native_is_up

if TYPE_CHECKING:
    from .connections import Connections

_installing = threading.Lock()


def install(owner: Connections) -> None:
    """Takes over the default context, once; the user's own connection, if any, stays in it."""
    with _installing:
        ROUTER.own(owner)
        context, stub = internals.DEFAULT_CONTEXT, internals.STUB
        if isinstance(context, RoutingContext):
            return
        own = context.__dict__.pop("client_worker", None)
        context.__class__ = RoutingContext
        context.client_worker = own
        context.api = RoutingAPI()
        if own is not None:
            ROUTER.adopt(own)
        stub.shutdown = _shutdown
        stub.disconnect = _keeping_client_mode(stub.disconnect)
        _forks.belongs_here(context)
        internals.before_waiting_for_ids(_refuse_of_parent)
        internals.change_native_arguments(ROUTER.for_native)
        internals.disable_auto_init()
        internals.enable_client_mode()


class ClusterContext(internals.ClientContext):
    """Of one cluster: refs and handles that a thread creates in this context belong there."""

    def __init__(self, worker: internals.Worker) -> None:
        super().__init__()
        self.client_worker = worker
        self.api = RoutingAPI(worker)

    def is_connected(self) -> bool:
        # Every call goes through the API, which has better errors for a lost cluster than Ray.
        return True


class RoutingContext(internals.ClientContext):
    """Replaces the default context. The user's own `ray.init("ray://...")` stays in it."""

    _own: internals.Worker | None

    @property
    def client_worker(self) -> internals.Worker | None:
        """The worker of the ref or handle that this thread is about to create."""
        if getattr(ROUTER.thread, "connecting", False):
            return self._own
        return getattr(ROUTER.thread, "worker", None) or self._own

    @client_worker.setter
    def client_worker(self, worker: internals.Worker | None) -> None:
        self._own = worker

    def after_fork(self) -> None:
        """The parent's own connection is not the child's."""
        self._own = None
        internals.STUB.set_context(self)

    def connect(self, *args: Any, **kwargs: Any) -> Any:
        """The user's own connection, after ours: theirs is the default from now on."""
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
        """For the user's own connection alone: with ours, they may still call ray.init()."""
        return self._own is not None and self._own.is_connected()

    def __getattr__(self, key: str) -> Any:
        if getattr(ROUTER.thread, "connecting", False):
            return getattr(RoutingAPI(self._own), key)
        return getattr(self.api, key)


class RoutingAPI(internals.ClientAPI):
    """`ray.get` and all the others. `worker` is the cluster of a context that has one."""

    def __init__(self, worker: internals.Worker | None = None) -> None:
        self._worker = worker

    @property
    def worker(self) -> Any:
        """For Ray's own calls on the worker itself."""
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
        # Ray creates their refs next, in this thread.
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
        # Decided at the call: its arguments may belong to a cluster.
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
        """Calls not routed above go to the default: natively, if that is the driver."""
        if key in NATIVELY and self._worker is None and ROUTER.is_native():
            return _without_hook(NATIVELY[key])
        return super().__getattribute__(key)


class Routed:
    """A `@ray.remote` function or class whose cluster is chosen at the call."""

    def __init__(self, decorated: Any, worker: internals.Worker | None) -> None:
        self._decorated = decorated
        self._worker = worker

    def _remote(self, args: Any, kwargs: Any, **options: Any) -> Any:
        args, kwargs = tuple(args or ()), dict(kwargs or {})
        # Ray adds the options of the decorator, some of which it does not accept for a single call.
        usual = internals.default_options(self._decorated)
        options = {k: v for k, v in options.items() if k not in usual or usual[k] is not v}
        target = ROUTER.target(args, kwargs) if self._worker is None else self._worker.connection
        if isinstance(self._decorated, internals.ActorClass):
            return target.start_actor(self._decorated, args, kwargs, options)
        return target.submit_task(self._decorated, args, kwargs, options)


#: Calls that are not about a ref or handle, by the name that Ray uses.
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


def _refuse_of_parent(worker: internals.Worker) -> None:
    """In a forked child, an id that had not arrived at the fork never arrives."""
    connection = getattr(worker, "connection", None)
    if connection is not None and connection.is_parents:
        raise connection.gone()


def _renew_lock() -> None:
    global _installing
    _installing = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def _natively(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with internals.disable_client_hook():
        if not ray.is_initialized() and not ROUTER.connected():
            # Ray would suggest ray.init(), which is seldom right here.
            ROUTER.default_client(f"ray.{function.__name__}")
        return function(*args, **kwargs)


def _shutdown(_exiting_interpreter: bool = False, **_others: Any) -> None:
    """`ray.shutdown()`: of ours, the user's own, and the native driver."""
    for owner in ROUTER.owners():
        owner.close()
    internals.STUB.disconnect()
    if native_is_up():
        with internals.disable_client_hook():
            ray.shutdown(_exiting_interpreter=_exiting_interpreter)


def _without_hook(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        with internals.disable_client_hook():
            return function(*args, **kwargs)

    return call


def _keeping_client_mode(function: Callable[..., Any]) -> Callable[..., Any]:
    """Ray switches client mode off with the user's own connection; our refs still need it."""

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        finally:
            internals.enable_client_mode()

    return call
