"""A connection over Ray Client: for a program that runs outside of the cluster."""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from ray.exceptions import RayError

from .. import _forks
from ..errors import ActorNameTakenError, ClusterConnectionError, TaskSubmissionError
from . import internals
from .connections import Connection
from .routing import ClusterContext
from .worker import ClusterWorker

#: Functions and classes that are kept on a cluster for the next call. Lambdas change all the time.
STUBS = 512

#: Ray's default reservation for a task.
RAYS_DEFAULT = {"num_cpus": 1}

#: For checking a connection of the user's own.
LOOK_TIMEOUT = 5.0


class ClientConnection(Connection):
    """Uses one server process on the cluster's head for as long as it is open."""

    is_native = False

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self.job_id: str | None = None
        self.session: str | None = None
        #: Set when the cluster no longer answers, and when the connection is closed completely.
        self.ended, self.over = threading.Event(), threading.Event()
        self._why: str | None = None
        self._stubs: OrderedDict[tuple[int, int], tuple[Any, Any, Any]] = OrderedDict()
        self._lock = threading.Lock()
        #: This process was forked from the one that opened it.
        self.is_parents = False
        _forks.belongs_here(self)

    def after_fork(self) -> None:
        self.is_parents = self.is_closed = True
        self._lock = threading.Lock()
        self._why = "belongs to the process that this one was forked from"
        self.ended, self.over = threading.Event(), threading.Event()
        self.ended.set()
        self.over.set()
        worker = getattr(self, "worker", None)
        if worker is not None:
            internals.abandon(worker)

    def attach(self, worker: ClusterWorker) -> None:
        self.worker = worker
        self.context = ClusterContext(worker)

    def submit_task(
        self, function: Any, args: tuple, kwargs: dict[str, Any], options: dict[str, Any]
    ) -> Any:
        return self._call(internals.ClientRemoteFunc, function, args, kwargs, options)

    def submit_actor(
        self, actor_class: Any, args: tuple, kwargs: dict[str, Any], options: dict[str, Any]
    ) -> internals.ClientActorHandle:
        handle = self.start_actor(actor_class, args, kwargs, options)
        try:
            with self.worker.answering():
                internals.actor_id(handle)
        except ClusterConnectionError as error:
            # The request was sent: it must not be sent to another cluster.
            error.may_have_started = True
            raise
        except Exception as error:
            if is_name_taken(error):
                raise name_taken(self.name, options, error) from error
            raise
        return handle

    def start_actor(
        self, actor_class: Any, args: tuple, kwargs: dict[str, Any], options: dict[str, Any]
    ) -> internals.ClientActorHandle:
        """As Ray does it: errors show at the first use."""
        return self._call(internals.ClientActorClass, actor_class, args, kwargs, options)

    def put(self, *args: Any, **kwargs: Any) -> internals.ClientObjectRef:
        return self.worker.put(*args, **kwargs)

    def get_actor(self, name: str, namespace: str | None) -> internals.ClientActorHandle:
        """ValueError if there is none."""
        return self.worker.get_actor(name, namespace)

    def ready(self, refs: list[Any]) -> list[bool]:
        if not refs:
            return []
        known = [_binary(ref) for ref in refs]
        unique = list({id: ref for id, ref in zip(known, refs) if id is not None}.values())
        found = self.worker.wait(unique, num_returns=len(unique), timeout=0)[0] if unique else []
        ids = {ref.binary() for ref in found}
        return [id is None or id in ids for id in known]

    @property
    def is_open(self) -> bool:
        """Whether it was opened: from then on, a failure is a loss."""
        return self.job_id is not None

    def alive(self) -> bool:
        return not self.ended.is_set() and self.worker.is_connected()

    def close(self) -> None:
        if not self._end("was closed"):
            return
        self.is_closed = True
        # The cluster may vanish meanwhile; then there is nothing to close. The watch cuts off one
        # that hangs.
        with contextlib.suppress(Exception):
            self.worker.close()
        self.abort()

    def lose(self, why: str) -> None:
        """Gives the connection up: everything that waits for the cluster fails now."""
        if self._end(f"was lost: {why}"):
            self.abort()

    def abort(self) -> None:
        self.over.set()
        internals.abort(self.worker)

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """Refs and handles that this thread creates within belong to this cluster."""
        before = internals.STUB.set_context(self.context)
        try:
            yield
        finally:
            internals.STUB.set_context(before)

    def gone(self, error: Exception | None = None) -> ClusterConnectionError:
        """The error for later uses of the connection and of its refs and handles."""
        if isinstance(error, ClusterConnectionError):
            return error
        cause = error or internals.last_error(self.worker)
        ended = self._why or ("failed" if self.worker.is_connected() else "was lost")
        detail = f": {_first_line(cause)}" if cause is not None and self._why is None else ""
        if self.is_parents:
            return ClusterConnectionError(
                f"the connection to cluster {self.name!r} at {self.address} {ended}",
                hint="refs and handles work in their own process only: pass values on, and submit "
                "work again here if needed",
                cluster=self.name,
            )
        return ClusterConnectionError(
            f"the connection to cluster {self.name!r} at {self.address} {ended}{detail}",
            hint="its objects and actors are gone for this program, but tasks and detached actors "
            "may still run there: check before you submit work that must not run twice. The next "
            "submission reconnects. Other clusters are not affected",
            cluster=self.name,
        )

    def refused(self, detail: str) -> ClusterConnectionError:
        return ClusterConnectionError(
            f"cluster {self.name!r} at {self.address} refused the connection: {detail}",
            hint="check the cluster's token in the configuration",
            cluster=self.name,
        )

    def _end(self, why: str) -> bool:
        with self._lock:
            if self._why is not None:
                return False
            self._why = why
        self.ended.set()
        return True

    def _call(
        self, kind: type, thing: Any, args: tuple, kwargs: dict[str, Any], options: dict[str, Any]
    ) -> Any:
        body, decorated, given = internals.unwrap(thing)
        options = {**given, **options}
        if options == RAYS_DEFAULT and decorated is None and kind is internals.ClientRemoteFunc:
            # Sending options that are the default anyway costs the server a tenth of its time.
            options = {}
        with self.worker.answering():
            stub = self._stub(kind, body, decorated)
            return (stub.options(**options) if options else stub).remote(*args, **kwargs)

    def _stub(self, kind: type, body: Any, decorated: Any) -> Any:
        check_kind(kind is internals.ClientActorClass, body)
        # By identity. The entry holds both, so that no other object can have their ids.
        key = (id(body), id(decorated))
        with self._lock:
            entry = self._stubs.get(key)
            if entry is not None:
                self._stubs.move_to_end(key)
                return entry[2]
        # Options of @ray.remote(...) are sent once; some of them are not options of a call.
        stub = kind(body, options=internals.default_options(decorated) if decorated else None)
        # Before it is kept: a stub whose upload failed can never be used.
        internals.upload(stub)
        with self._lock:
            self._stubs[key] = (body, decorated, stub)
            while len(self._stubs) > STUBS:
                self._stubs.popitem(last=False)
        return stub


def _binary(ref: Any) -> bytes | None:
    """None for a task that was never created, which shows when its id is read."""
    try:
        return bytes(ref.binary())
    except ClusterConnectionError:
        raise
    except Exception:
        return None


def own_connection(worker: internals.Worker) -> ClientConnection:
    """Of a worker that the user's own `ray.init("ray://...")` created."""
    address = internals.address(worker)
    connection = ClientConnection(f"ray://{address}", address)
    ClusterWorker.adopt(worker, connection)
    connection.attach(worker)
    with contextlib.suppress(Exception):
        # Already lost: then nothing can be mistaken for its refs.
        connection.job_id, connection.session = internals.session(worker, LOOK_TIMEOUT)
    return connection


def check_kind(is_actor: bool, body: Any) -> None:
    """Ray would report this later, and less clearly."""
    is_function = inspect.isfunction(body) or "cython" in type(body).__name__
    if not (isinstance(body, type) if is_actor else is_function):
        wanted = "submit_actor takes a class" if is_actor else "submit_task takes a function"
        raise TaskSubmissionError(
            f"{wanted}, not {body!r}",
            hint="plain or decorated with @ray.remote; wrap anything else that can be called in a "
            "function or lambda",
        )


def is_name_taken(error: Exception) -> bool:
    return isinstance(error, (ValueError, RayError)) and "already taken" in str(error)


def name_taken(cluster: str, options: dict[str, Any], error: Exception) -> ActorNameTakenError:
    return ActorNameTakenError(
        f"an actor named {options.get('name')!r} already lives on cluster {cluster!r}: "
        f"{_first_line(error)}",
        hint="choose another name, end that actor (ray.kill), or pass get_if_exists=True",
        cluster=cluster,
    )


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__
