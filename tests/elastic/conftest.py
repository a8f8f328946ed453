"""Fixtures: one cluster for the whole run whose autoscaler really adds and removes nodes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support import ray_cluster
from support.elastic import ElasticCluster


@pytest.fixture(scope="session")
def cloud() -> Iterator[ElasticCluster]:
    """A head without CPUs and at most two workers of two. A test leaves it as it likes."""
    ray_cluster.remove_abandoned()
    cluster = ElasticCluster("cloud", idle_timeout=5)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.remove()


@pytest.fixture
def elastic(cloud: ElasticCluster) -> Iterator[ElasticCluster]:
    """The same, as it is when nobody has used it: the head alone."""
    yield cloud
    cloud.shrink()
