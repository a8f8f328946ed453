"""All of Ray's private names that this package uses, and what for.

Ray has no public way to use several clusters from one program, so this package uses internals of
Ray Client. All of them are listed here, are looked up here when Ray is first needed, and are
reached through this module: if a Ray version lacks one, the error names it.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
from typing import Any, Callable

from ..errors import ConfigurationError

_FORKS = "GRPC_ENABLE_FORK_SUPPORT"


def _without_fork_handlers() -> None:
    """Loads gRPC without its fork handlers, unless the user configured or loaded gRPC already.

    The handlers skip themselves while a stream is open, as ours always are, and print a line each
    time the program forks. A child uses none of its parent's connections anyway.
    """
    if _FORKS in os.environ:
        return
    os.environ[_FORKS] = "0"
    try:
        # Read once, here; child processes decide for themselves.
        importlib.import_module("grpc")
    finally:
        del os.environ[_FORKS]


try:
    _without_fork_handlers()
    import ray
except ImportError as missing:
    raise ConfigurationError(
        f"tasks and actors need Ray, which is not installed here: {missing}",
        hint="pip install 'ray_multicluster_scheduler[ray]'; jobs need no Ray on this side",
    ) from missing

#: The oldest and the newest Ray that the tests run with. Others work if they have all names below.
TESTED = ("2.9.3", "2.60.0")

#: Module, name in it, what for.
NAMES = (
    ("ray.util.client", "ray", "the stub that every client call goes through"),
    ("ray.util.client", "RayAPIStub.get_context", "this thread's context"),
    ("ray.util.client", "RayAPIStub.set_context", "new refs and handles belong to its worker"),
    ("ray.util.client", "RayAPIStub.shutdown", "`ray.shutdown()` has to close ours too"),
    ("ray.util.client", "RayAPIStub.disconnect", "switches client mode off, which we still need"),
    ("ray.util.client", "_default_context", "what threads start with; becomes the routing one"),
    ("ray.util.client", "_ClientContext.connect", "the user's own ray.init('ray://...')"),
    ("ray.util.client", "_ClientContext.disconnect", "its end"),
    ("ray.util.client.api", "_ClientAPI.call_remote", "every `.remote()` of a client stub"),
    ("ray.util.client.api", "_ClientAPI._convert_function", "`.remote()` of a ray.remote function"),
    ("ray.util.client.api", "_ClientAPI._convert_actor", "`.remote()` of a ray.remote class"),
    ("ray.util.client.api", "_ClientAPI._get_converted", "what the two above gave"),
    ("ray.util.client.api", "_ClientAPI._converted_key_exists", "whether they gave it"),
    ("ray.util.client.worker", "Worker._server_init", "starts our server process on the head"),
    ("ray.util.client.worker", "Worker.connection_info", "the cluster's versions"),
    ("ray.util.client.worker", "Worker.get_cluster_info", "Ray's job id and session"),
    ("ray.util.client.worker", "Worker.ping_server", "is the head there?"),
    ("ray.util.client.worker", "Worker.is_connected", "false once lost or closed"),
    ("ray.util.client.worker", "Worker.call_remote", "schedules; here with our pickler"),
    ("ray.util.client.worker", "Worker._call_schedule_for_task", "what it ends in"),
    ("ray.util.client.worker", "Worker._dumps_from_client", "functions and classes"),
    ("ray.util.client.worker", "Worker._put_pickled", "`ray.put`; here with our pickler"),
    ("ray.util.client.worker", "Worker._get", "one round trip of `ray.get`"),
    ("ray.util.client.worker", "Worker.wait", "`ray.wait`"),
    ("ray.util.client.worker", "Worker.register_callback", "`await` and futures, by their ref"),
    ("ray.util.client.worker", "Worker.get_actor", "`ray.get_actor`"),
    ("ray.util.client.worker", "Worker.terminate_actor", "`ray.kill`"),
    ("ray.util.client.worker", "Worker.terminate_task", "`ray.cancel`"),
    ("ray.util.client.worker", "Worker.close", "the polite end"),
    ("ray.util.client.dataclient", "DataClient._check_shutdown", "or one loss closes them all"),
    ("ray.util.client.dataclient", "DataClient._shutdown", "the stream is over"),
    ("ray.util.client.dataclient", "DataClient._process_response", "a sign of life"),
    ("ray.util.client.dataclient", "DataClient.Schedule", "ids that never come say why"),
    ("ray.util.client.dataclient", "DataClient.RegisterGetCallback", "`await` and futures"),
    ("ray.util.client.dataclient", "DataClient._can_reconnect", "what we end is no error"),
    ("ray.util.client.logsclient", "LogstreamClient.log", "what the server on the head logs"),
    ("ray.util.client.common", "ClientObjectRef", "refs, known by their `_worker`"),
    ("ray.util.client.common", "ClientObjectRef._wait_for_id", "never, in a forked child"),
    ("ray.util.client.common", "ClientActorRef", "an actor's id, with its `_worker`"),
    ("ray.util.client.common", "ClientActorRef._wait_for_id", "likewise"),
    ("ray.util.client.common", "ClientActorHandle", "handles, by their `actor_ref`"),
    ("ray.util.client.common", "ClientRemoteFunc._ensure_ref", "uploads a function"),
    ("ray.util.client.common", "ClientActorClass._ensure_ref", "uploads a class"),
    ("ray.util.client.common", "ClientRemoteMethod", "`handle.method`, by its `_actor_handle`"),
    ("ray.util.client.common", "OptionWrapper", "`.options()`, around its `_remote_stub`"),
    ("ray.util.client.client_pickler", "ClientPickler.persistent_id", "refs inside of values"),
    ("ray._private.client_mode_hook", "disable_client_hook", "calls on the native driver"),
    ("ray._private.client_mode_hook", "_explicitly_enable_client_mode", "ray.get asks us"),
    ("ray._private.auto_init_hook", "enable_auto_connect", "off: no local Ray by accident"),
    ("ray.core.generated.ray_client_pb2", "ClusterInfoType.RUNTIME_CONTEXT", "to ask for it"),
    ("ray.experimental.internal_kv", "_internal_kv_get", "Ray's own store, of the native driver"),
    ("ray._private.state", "state", "free resources: why a job's work cannot start"),
    ("ray._private.state", "actors", "has an actor of a job found its place?"),
    ("ray.actor", "ActorClass._remote", "also `__ray_metadata__` and `_default_options`"),
    ("ray.actor", "ActorHandle._actor_method_call", "native handles: calls with our refs"),
    ("ray.remote_function", "RemoteFunction._remote", "also `_function`, `_default_options`"),
    ("ray.job_config", "JobConfig.set_runtime_env", "the cluster's own, for our connection"),
    ("ray.job_config", "JobConfig.set_ray_namespace", "likewise"),
)

#: Attributes of a connected worker and of its data client, which only instances have.
WORKER = (
    "_client_id",
    "_conn_str",
    "_in_shutdown",
    "_reconnect_grace_period",
    "channel",
    "closed",
    "log_client",
)
DATA_CLIENT = ("data_thread", "_in_shutdown", "_last_exception", "client_worker")


def _missing() -> list[str]:
    missing = []
    for module, name, why in NAMES:
        try:
            found: Any = importlib.import_module(module)
            for part in name.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError):
            missing.append(f"{module}.{name} ({why})")
    return missing


def _unsupported(missing: list[str]) -> ConfigurationError:
    return ConfigurationError(
        f"Ray {ray.__version__} is not supported for tasks and actors on several clusters. "
        f"It lacks: {'; '.join(missing)}",
        hint=f"use a Ray that this was tested with ({' to '.join(TESTED)}), or submit it as a job: "
        "jobs need nothing of this",
    )


if _lacking := _missing():
    raise _unsupported(_lacking)

import ray._private.auto_init_hook as _auto_init  # noqa: E402
import ray._private.state as _state  # noqa: E402
import ray.core.generated.ray_client_pb2 as _protocol  # noqa: E402
import ray.util.client as _client  # noqa: E402
from ray._private.client_mode_hook import (  # noqa: E402
    _explicitly_enable_client_mode as enable_client_mode,
)
from ray._private.client_mode_hook import disable_client_hook  # noqa: E402
from ray.actor import ActorClass, ActorHandle  # noqa: E402
from ray.job_config import JobConfig  # noqa: E402
from ray.remote_function import RemoteFunction  # noqa: E402
from ray.util.client import _ClientContext as ClientContext  # noqa: E402
from ray.util.client.api import _ClientAPI as ClientAPI  # noqa: E402
from ray.util.client.client_pickler import ClientPickler  # noqa: E402
from ray.util.client.common import (  # noqa: E402
    ClientActorClass,
    ClientActorHandle,
    ClientActorRef,
    ClientObjectRef,
    ClientRemoteFunc,
    ClientRemoteMethod,
    OptionWrapper,
)
from ray.util.client.dataclient import DataClient  # noqa: E402
from ray.util.client.logsclient import LogstreamClient  # noqa: E402
from ray.util.client.worker import Worker  # noqa: E402

__all__ = [
    "TESTED",
    "ActorClass",
    "ActorHandle",
    "ClientAPI",
    "ClientActorClass",
    "ClientActorHandle",
    "ClientActorRef",
    "ClientContext",
    "ClientObjectRef",
    "ClientPickler",
    "ClientRemoteFunc",
    "ClientRemoteMethod",
    "DataClient",
    "JobConfig",
    "LogstreamClient",
    "OptionWrapper",
    "RemoteFunction",
    "Worker",
    "disable_client_hook",
    "enable_client_mode",
]

STUB = _client.ray
DEFAULT_CONTEXT = _client._default_context


def check_worker(worker: Worker) -> None:
    """The same for attributes that a worker has only once it is connected."""
    missing = [f"Worker.{name}" for name in WORKER if not hasattr(worker, name)]
    missing += [f"DataClient.{name}" for name in DATA_CLIENT if not hasattr(data(worker), name)]
    if missing:
        raise _unsupported(missing)


def disable_auto_init() -> None:
    _auto_init.enable_auto_connect = False


def address(worker: Worker) -> str:
    return worker._conn_str


def data(worker: Worker) -> DataClient:
    return worker.data_client


def set_grace(worker: Worker, seconds: int) -> None:
    """How long to retry when the connection breaks, on both sides; before `_server_init`."""
    worker._reconnect_grace_period = seconds


def start_server(worker: Worker, config: JobConfig) -> None:
    """Our server process on the head; waits for it, and for its runtime_env."""
    # The environment hook is for drivers; as Ray does it.
    worker._server_init(config, {"_skip_env_hook": True})


def session(worker: Worker, timeout: float) -> tuple[str, str | None]:
    """Ray's job id of this connection, and the session name of the cluster it reached."""
    context = worker.get_cluster_info(
        _protocol.ClusterInfoType.RUNTIME_CONTEXT,
        timeout=timeout,
    )
    return context.job_id.hex(), getattr(context, "session_name", "") or None


def abort(worker: Worker) -> None:
    """Drops a connection at once: pending calls get an error."""
    worker._in_shutdown = True
    worker.closed = True
    channel = worker.channel
    if channel is not None:
        channel.close()


def abandon(worker: Worker) -> None:
    """For a connection of the parent process: refs and handles leave it alone from now on."""
    worker._in_shutdown = True
    worker.closed = True


def before_waiting_for_ids(check: Callable[[Worker], None]) -> None:
    """Calls `check` before a ref or handle waits for the id that Ray has not sent yet."""
    for kind in (ClientObjectRef, ClientActorRef):
        wait = kind._wait_for_id

        def checked(self: Any, timeout: float | None = None, wait: Any = wait) -> Any:
            if self._id_future is not None:
                check(self._worker)
            return wait(self, timeout)

        kind._wait_for_id = checked


def last_error(worker: Worker) -> Exception | None:
    """What broke the connection, if Ray noticed it first."""
    return data(worker)._last_exception


def owner(thing: Any) -> Worker | None:
    """The worker that a ref or handle of Ray Client belongs to; None for anything else."""
    if isinstance(thing, ClientObjectRef):
        return thing._worker
    if isinstance(thing, ClientActorHandle):
        return thing.actor_ref._worker
    return None


def actor_id(handle: ClientActorHandle) -> bytes:
    """Waits until Ray has accepted or refused the actor."""
    return handle.actor_ref.id


def callee(stub: Any) -> Worker | None:
    """The worker that something with `.remote()` belongs to, if it has one."""
    if isinstance(stub, OptionWrapper):
        stub = stub._remote_stub
    if isinstance(stub, ClientRemoteMethod):
        return owner(stub._actor_handle)
    return owner(getattr(stub, "_ref", None))


def upload(stub: ClientRemoteFunc | ClientActorClass) -> None:
    """Puts a function or class on the cluster of this thread's context."""
    stub._ensure_ref()


def unwrap(thing: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Function or class, its `@ray.remote` object if it has one, and its `.options()`."""
    options: dict[str, Any] = {}
    # `.options()` returns an object of a local class, which has them in its closure.
    remote = getattr(type(thing), "remote", None)
    if type(thing).__name__ in {"FuncWrapper", "ActorOptionWrapper"} and remote is not None:
        free = dict(zip(remote.__code__.co_freevars, remote.__closure__ or ()))
        held = {name: cell.cell_contents for name, cell in free.items()}
        options = dict(held.get("updated_options", {}))
        thing = held.get("func_cls", held.get("actor_cls"))
    if isinstance(thing, RemoteFunction):
        return thing._function, thing, options
    if isinstance(thing, ActorClass):
        return thing.__ray_metadata__.modified_class, thing, options
    return thing, None, options


def call_natively(
    decorated: Any, args: tuple, kwargs: dict[str, Any], options: dict[str, Any]
) -> Any:
    """`decorated.options(**options).remote(...)`, also with options that this does not accept."""
    with disable_client_hook():
        return decorated._remote(
            args=args, kwargs=kwargs, **{**default_options(decorated), **options}
        )


def change_native_arguments(change: Callable[[Any], Any]) -> None:
    """For every later method call on a native handle: these do not pass through the hook."""
    call = ActorHandle._actor_method_call

    @functools.wraps(call)
    def changed(
        self: Any, method_name: str, args: Any = None, kwargs: Any = None, **others: Any
    ) -> Any:
        given = [change(value) for value in args or ()]
        named = {key: change(value) for key, value in (kwargs or {}).items()}
        return call(self, method_name, args=given, kwargs=named, **others)

    ActorHandle._actor_method_call = changed


#: What Ray tells only a job's driver about its job: JSON.
JOB_CONFIG = "RAY_JOB_CONFIG_JSON_ENV_VAR"

#: Ray's name for the actor that runs a job's driver and holds its reservation.
SUPERVISOR = "_ray_internal_job_actor_"


def free_by_node() -> dict[str, dict[str, float]]:
    """Free resources of the native driver's cluster, by node id."""
    if hasattr(_state, "available_resources_per_node"):
        return _state.available_resources_per_node()
    # Its name in Ray 2.9.
    return _state.state._available_resources_per_node()


def has_place(handle: ActorHandle) -> bool:
    """Has Ray given this native actor a process, whether or not it is ready?"""
    with disable_client_hook():
        known = _state.actors(handle._actor_id.hex())
    # The address names a node from the start; only a running process has a port.
    is_new = known.get("State") in (None, "DEPENDENCIES_UNREADY", "PENDING_CREATION")
    return bool(known.get("Pid")) or not is_new


def default_options(decorated: Any) -> dict[str, Any]:
    """The options of `@ray.remote(...)`."""
    return dict(decorated._default_options)


def ping(handle: Any) -> Any:
    """A ref that is ready once the actor runs: Ray gives every actor this method."""
    if isinstance(handle, ClientActorHandle):
        return ClientRemoteMethod(handle, "__ray_ready__", 1, inspect.Signature()).remote()
    return handle.__ray_ready__.remote()
