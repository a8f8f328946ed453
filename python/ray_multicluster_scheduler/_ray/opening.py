"""Opening a connection: right versions, right cluster, unique ids, in bounded time."""

from __future__ import annotations

import copy
import os
import socket
import sys
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Callable

import grpc
import ray

from ..errors import (
    ClusterConnectionError,
    ConfigurationError,
    SchedulerError,
    VersionMismatchError,
)
from . import internals
from .client import ClientConnection
from .connections import ClusterAddress
from .router import ROUTER
from .routing import install
from .threads import start
from .watching import watch
from .worker import ClusterWorker

if TYPE_CHECKING:
    from .connections import Connections

#: How many connections are tried for a usable one: starts fail, ids collide.
ATTEMPTS = 8

#: The same session this many times is no accident: the cluster restarted, and we know it late.
SAME_SESSION = 3

#: Errors of a head that failed to start our server process; the next try mostly succeeds.
FLAKY = (
    "Starting Ray client server failed",
    "ZombieProcess",
    "NoSuchProcess",
    "Proxy failed to Connect",
    "the stream ended",
)

#: Ray Client's error for a head that accepted the connection but did not answer within 5 s.
SLOW = "ray client connection timeout"

#: Heads on one host choose ports from the same range for our server processes, and may choose the
#: same one. So only one opens at a time there, but none waits for another longer than this.
HOST_PATIENCE = 10.0

#: The process that opened the first connection.
_process: int | None = None
_hosts: dict[str, threading.Lock] = {}
# A lock that is held at a fork is never released in the child.
os.register_at_fork(after_in_child=_hosts.clear)


def open_connection(
    describe: Callable[[], ClusterAddress],
    *,
    owner: Connections,
    call_timeout: float,
    namespace: str | None,
) -> ClientConnection:
    """A connection whose ids differ from those of all others in this program."""
    _check_process()
    address = describe()
    check_versions(address.name, address.ray_version, address.python_version)
    install(owner)
    began = time.monotonic()
    sessions: Counter[str | None] = Counter()
    dropped: list[ClientConnection] = []
    try:
        for attempt in range(1, ATTEMPTS + 1):
            _reach(address, call_timeout)
            try:
                connection = _connect(address, call_timeout, namespace)
            except ClusterConnectionError as error:
                late = time.monotonic() - began > call_timeout / 2
                again = SLOW in str(error) and not late
                if attempt == ATTEMPTS or not (again or any(s in str(error) for s in FLAKY)):
                    raise
                time.sleep(0.2 * attempt)
                continue
            dropped.append(connection)
            sessions[connection.session] += 1
            if _is_elsewhere(connection, address) and sessions[connection.session] < SAME_SESSION:
                address = describe()
            elif ROUTER.add(connection):
                dropped.remove(connection)
                return connection
    finally:
        for one in dropped:
            start(one.close)
    raise ClusterConnectionError(
        f"no usable connection to cluster {address.name!r} at {address.head_address} "
        f"in {ATTEMPTS} attempts",
        hint="do several clusters share that host? give their heads different ports",
        cluster=address.name,
    )


def _check_process() -> None:
    """gRPC's threads do not exist in a forked child: a connection there would wait forever."""
    global _process
    if _process is None:
        _process = os.getpid()
    if _process != os.getpid():
        raise ConfigurationError(
            "this process was forked from one that had connected to Ray clusters, so it cannot "
            "connect to any",
            hint="start it with multiprocessing's `spawn` or `forkserver`, or submit tasks and "
            "actors in the parent; jobs can be submitted here",
        )


def check_versions(cluster: str, ray_version: str | None, python_version: str | None) -> None:
    """Ray Client works between equal versions only."""
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    there = ".".join(python_version.split(".")[:2]) if python_version else here
    if "RAY_IGNORE_VERSION_MISMATCH" in os.environ or (
        (ray_version or ray.__version__) == ray.__version__ and there == here
    ):
        return
    raise VersionMismatchError(
        f"cluster {cluster!r} has Ray {ray_version or '?'} with Python {python_version or '?'}, "
        f"but this program has Ray {ray.__version__} with Python "
        f"{'.'.join(map(str, sys.version_info[:3]))}: tasks and actors need the same version of "
        "Ray and the same Python 3.x on both sides",
        hint="submit it as a job (submit_job), whose versions may differ, or run this program "
        f"with ray=={ray_version or ray.__version__} and Python {there}",
        cluster=cluster,
    )


def _reach(address: ClusterAddress, call_timeout: float) -> None:
    """A closed port fails at once, unlike with Ray Client."""
    host, port = _host_and_port(address)
    try:
        socket.create_connection((host, port), timeout=call_timeout / 3).close()
    except OSError as error:
        raise _unreachable(address, error) from error


def _connect(
    address: ClusterAddress, call_timeout: float, namespace: str | None
) -> ClientConnection:
    host, port = _host_and_port(address)
    bracketed = f"[{host}]" if ":" in host else host
    connection = ClientConnection(address.name, f"{bracketed}:{port}")
    # The head chooses the port of our server process before starting it.
    turn = _hosts.setdefault(host, threading.Lock())
    alone = turn.acquire(timeout=HOST_PATIENCE)
    try:
        _attach(connection, address)
        # Setting up the cluster's runtime_env may take minutes: the watch limits it.
        watch(connection, call_timeout)
        try:
            _start(connection, address, call_timeout, namespace)
        except BaseException:
            start(connection.close)
            raise
    finally:
        if alone:
            turn.release()
    return connection


def _attach(connection: ClientConnection, address: ClusterAddress) -> None:
    metadata = [("authorization", f"Bearer {address.token}")] if address.token else None
    try:
        ClusterWorker(connection, metadata=metadata, connection_retries=1)
    except ConnectionError as error:
        if isinstance(error, SchedulerError):
            raise
        raise _unreachable(address, error) from error


def _start(
    connection: ClientConnection,
    address: ClusterAddress,
    call_timeout: float,
    namespace: str | None,
) -> None:
    worker = connection.worker
    # Both sides give up a broken connection before the watch does.
    internals.set_grace(worker, max(1, int(call_timeout * 2 / 3)))
    config = internals.JobConfig()
    if address.runtime_env:
        # Ray changes the object, which belongs to this cluster and is used again.
        config.set_runtime_env(copy.deepcopy(address.runtime_env))
    if namespace:
        config.set_ray_namespace(namespace)
    try:
        with connection.current():
            internals.start_server(worker, config)
            info = worker.connection_info()
            connection.job_id, connection.session = internals.session(worker, call_timeout)
    except SchedulerError:
        raise
    except (ConnectionError, grpc.RpcError) as error:
        raise ClusterConnectionError(
            f"cluster {address.name!r} at {connection.address} did not start a server for this "
            f"program: {error}",
            hint="check its runtime_env; see ray_client_server*.err on its head",
            cluster=address.name,
        ) from error
    check_versions(address.name, info["ray_version"], info["python_version"])


def _is_elsewhere(connection: ClientConnection, address: ClusterAddress) -> bool:
    """Heads on one host can return each other's server processes."""
    if connection.session is None:
        return False
    if address.incarnation is not None and connection.session != address.incarnation:
        return True
    return any(
        other.session == connection.session and other.address != connection.address
        for other in ROUTER.connected()
    )


def _unreachable(address: ClusterAddress, error: Exception) -> ClusterConnectionError:
    return ClusterConnectionError(
        f"cluster {address.name!r} cannot be reached at {address.head_address}: {error}",
        hint="is its Ray Client port (head_address) open from this machine? jobs need only its "
        "dashboard: submit_job may still work",
        cluster=address.name,
    )


def _host_and_port(address: ClusterAddress) -> tuple[str, int]:
    host, _, port = address.head_address.rpartition("://")[2].rpartition(":")
    if not host or not port.isdigit():
        raise ClusterConnectionError(
            f"the head_address of cluster {address.name!r}, {address.head_address!r}, is not "
            "host:port",
            hint="correct it in cluster.yaml; the port is Ray Client's, 10001 unless set otherwise",
            cluster=address.name,
        )
    return host.strip("[]"), int(port)
