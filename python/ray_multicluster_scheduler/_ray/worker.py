"""Ray Client's worker for one cluster among several.

Differences from Ray's: refs of other clusters in sent values are detected, new refs belong to this
cluster in whatever thread they are created, errors name the cluster, and the loss of this
connection does not affect the others.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Callable

import grpc
from ray.exceptions import RayError

from ..errors import SchedulerError
from . import again, internals
from .pickling import dumps

if TYPE_CHECKING:
    from .client import ClientConnection

#: For the first sign of life of a head; Ray itself waits forever here.
PING_TIMEOUT = 5.0

#: A head's error for a server process that is gone; Ray notices later, in another way.
FORGOTTEN = str(grpc.StatusCode.NOT_FOUND)

#: Logged by Ray's server on the head for each new client: Ray starts there in a thread.
HARMLESS = "SIGTERM handler is not set because current thread is not the main thread"

REFUSED = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)


class ClusterWorker(internals.Worker):
    """Knows its connection; `connection` is set before anything else happens."""

    connection: ClientConnection
    #: When the cluster last answered anything, by the monotonic clock. Sending alone, as in calls,
    #: does not count.
    heard: float

    def __init__(self, connection: ClientConnection, **how: Any) -> None:
        self.connection = connection
        self.heard = time.monotonic()
        self.channel = None
        connection.attach(self)
        try:
            super().__init__(connection.address, **how)
        except BaseException:
            if self.channel is not None:
                self.channel.close()
            raise
        internals.check_worker(self)
        internals.data(self).__class__ = ClusterDataClient
        self.log_client.__class__ = ClusterLogClient

    @classmethod
    def adopt(cls, worker: internals.Worker, connection: ClientConnection) -> None:
        """Turns a worker that Ray created into one of this class."""
        worker.__class__ = cls
        worker.connection = connection
        worker.heard = time.monotonic()
        internals.data(worker).__class__ = ClusterDataClient

    def ping_server(self, timeout: float | None = None) -> bool:
        try:
            return super().ping_server(timeout or PING_TIMEOUT)
        except grpc.RpcError as error:
            if error.code() in REFUSED:
                raise self.connection.refused(error.details()) from error
            raise

    def call_remote(self, instance: Any, *args: Any, **kwargs: Any) -> list:
        with self.answering():
            task = instance._prepare_client_task()
            task.data, kept = dumps((args, kwargs), self)
            num_returns = instance._num_returns()
            if num_returns == "streaming":
                raise RuntimeError('num_returns="streaming" is not supported over Ray Client')
            futures = self._call_schedule_for_task(
                task, -1 if num_returns == "dynamic" else num_returns
            )
            # Only now may the refs moved for this call be released: requests stay in order.
            del kept
            return futures

    def put(self, val: Any, *, client_ref_id: bytes | None = None) -> internals.ClientObjectRef:
        if isinstance(val, internals.ClientObjectRef):
            raise TypeError("ray.put of an ObjectRef is not allowed; put it into a list first")
        with self.answering():
            data, kept = dumps(val, self)
            ref = self._put_pickled(data, client_ref_id)
            del kept
            return ref

    def _dumps_from_client(self, val: Any) -> bytes:
        return dumps(val, self)[0]

    def _get(self, ref: list, timeout: float) -> Any:
        with self.answering():
            try:
                values = super()._get(ref, timeout)
            except RayError:
                # Not ready, or an error of the task: still an answer.
                self.heard = time.monotonic()
                raise
            self.heard = time.monotonic()
            return values

    def wait(self, object_refs: list, **how: Any) -> tuple[list, list]:
        with self.answering():
            found = super().wait(object_refs, **how)
            self.heard = time.monotonic()
            return found

    def register_callback(self, ref: Any, callback: Callable[[Any], None]) -> None:
        """`await` and `.future()`."""
        ask = super().register_callback

        def ask_if_connected(ref: Any, tell: Callable[[Any], None]) -> None:
            if not self.is_connected():
                raise self.connection.gone()
            ask(ref, tell)

        again.register(ref, callback, ask_if_connected)

    def get_actor(self, name: str, namespace: str | None = None) -> internals.ClientActorHandle:
        with self.answering():
            return super().get_actor(name, namespace)

    def terminate_actor(self, actor: Any, no_restart: bool) -> None:
        with self.answering():
            super().terminate_actor(actor, no_restart)

    def terminate_task(self, obj: Any, force: bool, recursive: bool) -> None:
        with self.answering():
            super().terminate_task(obj, force, recursive)

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        """During one request: new refs belong to this cluster, and errors name it."""
        if not self.is_connected():
            raise self.connection.gone()
        try:
            with self.connection.current():
                yield
        except (RayError, SchedulerError):
            # A task may fail with any error, including a ConnectionError of its own.
            raise
        except Exception as error:
            broken = isinstance(error, (ConnectionError, grpc.RpcError))
            if broken and FORGOTTEN in str(error):
                self.connection.lose("its head no longer knows this program")
            if broken or not self.is_connected():
                raise self.connection.gone(error) from error
            raise


class ClusterDataClient(internals.DataClient):
    """The stream of a worker: its loss affects no other, and names the cluster."""

    client_worker: ClusterWorker

    def _check_shutdown(self) -> None:
        # Ray's own class closes every connection of the program here.
        if self._in_shutdown and threading.current_thread() is not self.data_thread:
            raise self.client_worker.connection.gone()

    def _can_reconnect(self, error: grpc.RpcError) -> bool:
        connection = self.client_worker.connection
        if connection.is_closed or not connection.is_open:
            # We close it, or try to open it and report the result: no error for Ray to log.
            return self.client_worker._can_reconnect(error)
        return super()._can_reconnect(error)

    def _shutdown(self) -> None:
        super()._shutdown()
        # Ray would only notice with the next request, and repeat the present ones forever.
        error = self._last_exception
        why = error.details() if isinstance(error, grpc.RpcError) else error
        self.client_worker.connection.lose(f"the stream ended: {why or 'by the head'}")

    def _process_response(self, response: Any) -> None:
        self.client_worker.heard = time.monotonic()
        super()._process_response(response)

    def Schedule(self, request: Any, callback: Callable[[Any], None]) -> None:
        super().Schedule(request, self._named(callback))

    def RegisterGetCallback(self, request: Any, callback: Callable[[Any], None]) -> None:
        connection = self.client_worker.connection

        def deserialize(response: Any) -> None:
            with connection.current():
                callback(response)

        super().RegisterGetCallback(request, self._named(deserialize))

    def _named(self, callback: Callable[[Any], None]) -> Callable[[Any], None]:
        connection = self.client_worker.connection

        def answer(response: Any) -> None:
            if isinstance(response, ConnectionError):
                response = connection.gone(response)
            callback(response)

        return answer


class ClusterLogClient(internals.LogstreamClient):
    """The log of the server on the head, without lines that mean nothing here."""

    def log(self, level: int, msg: str) -> None:
        if HARMLESS not in msg:
            super().log(level, msg)
