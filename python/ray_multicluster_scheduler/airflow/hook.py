"""The connection to a control plane."""

from __future__ import annotations

import functools
import os
from typing import Any

from .. import _env
from .._jobs.jobs import Jobs
from .._plane.addresses import addresses_of
from .._plane.client import ControlPlane
from ..errors import ConfigurationError, SchedulerError
from . import FORM
from ._airflow import AirflowNotFoundException, BaseHook

#: Where a control plane listens by default.
PORT = 8700


class RayMulticlusterHook(BaseHook):
    """A control plane, from an Airflow connection.

    Without a connection of the default name, ``RAY_MULTICLUSTER_ADDRESS`` and
    ``RAY_MULTICLUSTER_TOKEN`` name the control plane.
    """

    conn_name_attr = "conn_id"
    default_conn_name = "ray_multicluster_default"
    conn_type = "ray_multicluster"
    hook_name = "Ray Multicluster"

    def __init__(self, conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.conn_id = conn_id

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        return FORM

    def get_conn(self) -> ControlPlane:
        """The control plane. Safe to use from any thread."""
        address, token, _ = self._target
        return _shared(address, token)

    def get_new_conn(self) -> ControlPlane:
        """The same, with connections and locks of its own: a signal handler may use it."""
        address, token, _ = self._target
        return ControlPlane(address, own_token=token)

    @functools.cached_property
    def jobs(self) -> Jobs:
        """The SDK's client of jobs."""
        return Jobs(self.get_conn())

    @property
    def prefix(self) -> str:
        """How the ids of jobs begin. Two Airflows with the same DAGs need two of them."""
        return self._target[2]

    def test_connection(self) -> tuple[bool, str]:
        """For the button in Airflow's UI."""
        try:
            plane = self.get_new_conn()
            version = plane.get("/v1/version", timeout=10.0)["version"]
            clusters = plane.get("/v1/clusters", timeout=10.0)["items"]
        except SchedulerError as error:
            return False, str(error)
        names = ", ".join(cluster["name"] for cluster in clusters)
        return True, f"control plane {version} with {len(clusters)} clusters: {names}"

    @functools.cached_property
    def _target(self) -> tuple[str, str | None, str]:
        """Address, token, prefix."""
        try:
            given = self.get_connection(self.conn_id)
        except AirflowNotFoundException as error:
            address = os.environ.get(_env.ADDRESS)
            if self.conn_id != self.default_conn_name or not address:
                raise ConfigurationError(
                    f"there is no Airflow connection {self.conn_id}",
                    hint=f"add one of type {self.conn_type}, or set {_env.ADDRESS} and use "
                    f"{self.default_conn_name}",
                ) from error
            return addresses_of(address), None, "airflow"
        prefix = str(given.extra_dejson.get("prefix") or "airflow")
        return self._address(given), given.password or None, prefix

    def _address(self, given: Any) -> str:
        named, host = f"the host of connection {self.conn_id}", (given.host or "").strip()
        if not host:
            raise ConfigurationError(f"connection {self.conn_id} has no host")
        each = [self._with_port(one.strip(), given) for one in host.split(",")]
        return addresses_of(",".join(each), named, has_token=bool(given.password) or None)

    @staticmethod
    def _with_port(host: str, given: Any) -> str:
        """`host` may have a scheme; with commas in between, also a port."""
        if "://" not in host:
            is_list = "," in given.host
            has_port = is_list and host.count(":") == 1
            host = f"[{host}]" if host.count(":") > 1 and not host.startswith("[") else host
            host = host if has_port else f"{host}:{given.port or PORT}"
            return f"{given.schema or 'http'}://{host}"
        if given.port and "," not in given.host:
            return f"{host.rstrip('/')}:{given.port}"
        return host


@functools.lru_cache(maxsize=16)
def _shared(address: str, token: str | None) -> ControlPlane:
    """One for all tasks of a process, such as the triggerer."""
    return ControlPlane(address, own_token=token)
