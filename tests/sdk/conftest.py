"""Fixtures of the SDK's tests that need no Ray."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ray_multicluster_scheduler._jobs.jobs import Jobs
from ray_multicluster_scheduler._plane.client import ControlPlane
from support.fake_plane import FakePlane


@pytest.fixture
def fake() -> Iterator[FakePlane]:
    with FakePlane() as plane:
        yield plane


@pytest.fixture
def jobs(fake: FakePlane) -> Jobs:
    return Jobs(ControlPlane(fake.address))
