"""Fixtures: two real Ray clusters for the whole run, and control planes above them."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable

import pytest
import requests

# Generating requests needs a newer Python than everything else here.
collect_ignore = (
    ["test_openapi_fuzz.py", "test_ray_api_fuzz.py"] if sys.version_info < (3, 11) else []
)

# Before anything imports Ray: a token file in the developer's home must have no effect. What
# connects to a cluster with a token shows that token, whatever is set here.
for name in [name for name in os.environ if name.startswith(("RAY_A", "SCHEDULER_"))]:
    del os.environ[name]
os.environ["RAY_AUTH_MODE"] = "disabled"
# A shell starts background processes with Ctrl-C ignored, and their children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

from ray.job_submission import JobSubmissionClient  # noqa: E402

from support import ray_cluster  # noqa: E402
from support.door import Door  # noqa: E402
from support.plane import RUNNING, MakePlane, Plane, binary  # noqa: E402
from support.pool import Pool  # noqa: E402
from support.ray_cli import RayCli  # noqa: E402
from support.ray_cluster import Clusters, RayCluster  # noqa: E402


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files are distributed over the workers, each of which has two clusters of its own.

    Tests that connect by Ray Client take turns in one worker: heads on one host choose the ports of
    their servers from the same range without coordination. These tests take half of the time, so
    they go first.
    """
    items.sort(key=lambda item: item.get_closest_marker("ray_client") is None)
    for item in items:
        is_client = item.get_closest_marker("ray_client") is not None
        group = "ray_client" if is_client else item.path.name
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def clusters() -> Iterator[Clusters]:
    """`centos` and `mac`, shared by a worker's tests. A test repairs what it broke.

    mac wants a token, as clusters do that were started without a word about authentication and
    with a token in their home. centos wants none, so that tests can compare plain Ray with us.
    """
    ray_cluster.remove_abandoned()
    both: list[RayCluster] = []
    try:
        both.append(RayCluster("centos", resources={"linux_only": 4}))
        token = secrets.token_urlsafe(24)
        both.append(RayCluster("mac", resources={"mac_only": 4}, token=token))
        with ThreadPoolExecutor() as threads:
            list(threads.map(RayCluster.start, both))
        yield {cluster.name: cluster for cluster in both}
    finally:
        for cluster in both:
            cluster.remove()


@pytest.fixture(scope="session")
def centos(clusters: Clusters) -> RayCluster:
    return clusters["centos"]


@pytest.fixture(scope="session")
def mac(clusters: Clusters) -> RayCluster:
    return clusters["mac"]


@pytest.fixture
def mended(clusters: Clusters) -> Iterator[Clusters]:
    """The clusters, for tests that kill or freeze them: usable again afterwards."""
    yield clusters
    for cluster in clusters.values():
        cluster.ensure_usable()


@pytest.fixture
def make_plane(clusters: Clusters, tmp_path: Path) -> Iterator[MakePlane]:
    """Control planes for one test. `change` gets the Pool before it is written."""
    planes: list[Plane] = []

    def make(
        change: Callable[[Pool], None] | None = None,
        env: dict[str, str] | None = None,
        healthy: bool = True,
        **scheduler: Any,
    ) -> Plane:
        pool = Pool(list(clusters.values()), scheduler)
        if change is not None:
            change(pool)
        plane = Plane(tmp_path / f"plane{len(planes) + 1}", pool, env)
        planes.append(plane)
        plane.start()
        if healthy:
            plane.wait_healthy()
        return plane

    yield make
    for plane in planes:
        plane.close()


@pytest.fixture(scope="module")
def plane(clusters: Clusters, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """One plane for all tests of a file that only use it and change nothing about it."""
    plane = Plane(tmp_path_factory.mktemp("plane"), Pool(list(clusters.values())))
    try:
        plane.start()
        plane.wait_healthy()
        yield plane
    finally:
        plane.close()


@pytest.fixture(scope="module", params=["direct", "plane"])
def door(
    request: pytest.FixtureRequest,
    clusters: Clusters,
    tmp_path_factory: pytest.TempPathFactory,
) -> Door:
    """The same test against Ray itself and against the plane: both must pass."""
    is_plane = request.param == "plane"
    if not is_plane:
        address = clusters["centos"].dashboard
    else:
        address = request.getfixturevalue("plane").address
    cli = RayCli(address, tmp_path_factory.mktemp("home"))
    return Door(address, is_plane, cli, JobSubmissionClient(address))


@pytest.fixture(autouse=True)
def tidy(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that fails halfway leaves jobs behind; without this, the next tests fail too."""
    yield
    if getattr(request.node, "failed_half_way", False) and "clusters" in request.fixturenames:
        for cluster in request.getfixturevalue("clusters").values():
            with contextlib.suppress(requests.RequestException):
                cluster.stop_all_jobs()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[Any]:
    """The end of each plane's log goes into the report of a failed test."""
    report = yield
    if report.failed:
        item.failed_half_way = True  # type: ignore[attr-defined]
        for plane in RUNNING:
            report.sections.append((f"log of {plane.address}", plane.output()[-6000:]))
    return report


def pytest_report_header() -> str:
    try:
        return f"control plane: {binary()}"
    except AssertionError as missing:
        return f"control plane: MISSING: {missing}"
