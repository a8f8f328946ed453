"""Pickling values for a cluster: refs and handles of other clusters are found at any depth.

Ids of two clusters can be the same, so an undetected ref could stand for another object there. Refs
are therefore moved, by value; handles cannot be, and are refused.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Callable

import ray

from ..errors import ForeignHandleError
from . import internals
from .router import ROUTER

if TYPE_CHECKING:
    from .worker import ClusterWorker

NATIVE = "this program's own Ray"


def dumps(value: Any, worker: ClusterWorker) -> tuple[bytes, list]:
    """The value for a cluster, and the refs moved there for it, to be kept until it is sent."""
    with io.BytesIO() as file:
        pickler = ClusterPickler(worker, file)
        pickler.dump(value)
        return file.getvalue(), pickler.moved


class ClusterPickler(internals.ClientPickler):
    def __init__(self, worker: ClusterWorker, file: io.BytesIO) -> None:
        super().__init__(worker._client_id, file)
        self._worker = worker
        self.moved: list[internals.ClientObjectRef] = []

    def persistent_id(self, obj: Any) -> Any:
        # Called for every object, so it goes by type alone: Ray's own check asks ten times here.
        own = OWN.get(type(obj))
        if own is None:
            return None
        return super().persistent_id(own(self, obj))

    def _ref(self, ref: internals.ClientObjectRef) -> internals.ClientObjectRef:
        return ref if internals.owner(ref) is self._worker else self._keep(move(ref, self._worker))

    def _native_ref(self, ref: ray.ObjectRef) -> internals.ClientObjectRef:
        with internals.disable_client_hook():
            value = ray.get(ref)
        return self._keep(self._worker.put(value))

    def _handle(self, handle: internals.ClientActorHandle) -> internals.ClientActorHandle:
        worker = internals.owner(handle)
        if worker is not self._worker:
            raise foreign(name_of(worker), self._worker.connection.name)
        return handle

    def _method(self, method: internals.ClientRemoteMethod) -> internals.ClientRemoteMethod:
        worker = internals.callee(method)
        if worker is not self._worker:
            raise foreign(name_of(worker), self._worker.connection.name)
        return method

    def _native_handle(self, _handle: internals.ActorHandle) -> Any:
        raise foreign(NATIVE, self._worker.connection.name)

    def _as_it_is(self, obj: Any) -> Any:
        return obj

    def _keep(self, ref: internals.ClientObjectRef) -> internals.ClientObjectRef:
        self.moved.append(ref)
        return ref


#: Types that are not pickled by value.
OWN: dict[type, Callable[[ClusterPickler, Any], Any]] = {
    internals.ClientObjectRef: ClusterPickler._ref,
    internals.ClientActorHandle: ClusterPickler._handle,
    internals.ClientRemoteMethod: ClusterPickler._method,
    ray.ObjectRef: ClusterPickler._native_ref,
    internals.ActorHandle: ClusterPickler._native_handle,
    internals.ClientRemoteFunc: ClusterPickler._as_it_is,
    internals.ClientActorClass: ClusterPickler._as_it_is,
    internals.OptionWrapper: ClusterPickler._as_it_is,
    type(internals.STUB): ClusterPickler._as_it_is,
}


def move(ref: internals.ClientObjectRef, to: ClusterWorker) -> internals.ClientObjectRef:
    """The same value on another cluster, moved once for each; waits until there is a value."""
    # Stored on the ref: passed to a thousand tasks, the value moves once, and is freed with the
    # ref.
    moved = ref.__dict__.setdefault("_moved", {})
    if to not in moved:
        moved[to] = to.put(ROUTER.adopt(internals.owner(ref)).worker.get(ref))
    return moved[to]


def foreign(home: str, target: str) -> ForeignHandleError:
    return ForeignHandleError(
        f"an actor handle of {home!r} cannot be used by work on cluster {target!r}",
        hint="actors can be called on their own cluster only: call it from here and pass on the "
        "result, or submit the work to the actor's cluster (preferred_cluster)",
        cluster=target,
    )


def name_of(worker: Any) -> str:
    connection = getattr(worker, "connection", None)
    return connection.name if connection is not None else "another cluster"
