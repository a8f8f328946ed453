"""Addresses of the form ``ray_multicluster_scheduler://…`` for Ray's own job clients.

Ray imports the module that such an address names and asks it for the cluster, so

    ray job submit --address 'ray_multicluster_scheduler://plane:8700?tags=linux&priority=5' -- …

needs neither headers nor metadata. After ``://`` comes the control plane, with ``https://`` before
it if it uses TLS, or ``auto`` for the one that the SDK would use. Several addresses of its replicas
have commas in between; Ray's client uses the first that answers. What follows ``?`` are hints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from .._plane import proof
from .._plane.addresses import addresses_of
from .._plane.attach import attach
from .._plane.client import ControlPlane
from ..errors import ConfigurationError, ControlPlaneError

if TYPE_CHECKING:
    from ray.dashboard.modules.dashboard_sdk import ClusterInfo


def get_job_submission_client_cluster_info(
    address: str,
    *,
    create_cluster_if_needed: bool | None = False,
    cookies: dict[str, Any] | None = None,
    metadata: dict[str, Any] | None = None,
    headers: dict[str, Any] | None = None,
    **_others: Any,
) -> ClusterInfo:
    """The control plane as a cluster of Ray's clients: its address, our token, and the hints.

    Ray calls it by this name.
    """
    from ray.dashboard.modules.dashboard_sdk import ClusterInfo

    place, _, query = address.partition("?")
    hints = _hints(query, address)
    if place == "auto":
        plane = attach()
        if plane is None:
            raise ControlPlaneError(
                "this job does not know its control plane",
                hint="give its cluster a plane_address, or name the control plane in place of auto",
            )
        place, own = plane.address, plane.headers
    else:
        place, own = _first_that_answers(addresses_of(place, "--address")), proof.headers()
    return ClusterInfo(
        address=place,
        cookies=cookies,
        metadata={**hints, **(metadata or {})},
        headers={**own, **(headers or {})},
    )


def _first_that_answers(addresses: str) -> str:
    """Ray's client knows one address. Every replica answers everything, so any of them will do."""
    if "," not in addresses:
        return addresses
    plane = ControlPlane(addresses)
    try:
        plane.get("/v1/version", timeout=10.0)
        return plane.address
    finally:
        plane.close()


def _hints(query: str, address: str) -> dict[str, str]:
    """As metadata. A hint that is repeated has several values, such as tags."""
    hints: dict[str, str] = {}
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise ConfigurationError(
            f"ray_multicluster_scheduler://{address}: the part after ? is not readable",
            hint="write ?tags=linux&priority=5",
        ) from None
    for name, value in pairs:
        key = f"multicluster.{name}"
        hints[key] = f"{hints[key]},{value}" if key in hints else value
    return hints
