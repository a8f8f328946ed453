"""A control plane that cannot keep up: which requests wait as it says, and which must not."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from ray_multicluster_scheduler import errors
from ray_multicluster_scheduler._plane.client import ControlPlane
from ray_multicluster_scheduler._plane.events import EventStream
from ray_multicluster_scheduler._work import held as module
from ray_multicluster_scheduler._work.held import Held
from support.fake_plane import FakePlane
from support.waiting import wait_until

#: As long as a waiting request would wait; shorter than its patience, longer than ours.
RETRY_AFTER = 20


@pytest.fixture
def plane(fake: FakePlane) -> Iterator[ControlPlane]:
    fake.overloaded = str(RETRY_AFTER)
    plane = ControlPlane(fake.address)
    yield plane
    plane.close()


def asks_again(fake: FakePlane, method: str, path: str) -> None:
    """Several times, while a waiting request would still wait before its second try."""
    began = time.monotonic()
    wait_until(lambda: len(fake.asked(method, path)) >= 3, f"{path} is asked for again")
    assert time.monotonic() - began < RETRY_AFTER


def test_places_are_kept_and_given_back_by_those_who_do_not_wait(
    fake: FakePlane, plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAUSE", 0.1)
    held = Held(plane, lambda lease: None)
    granted = {"attempt": 1, "cluster": "mac", "lease_seconds": 0.3}
    first = held.hold({"id": "first", "granted": granted})
    held.hold({"id": "second", "granted": granted})
    asks_again(fake, "POST", "/v1/placements/heartbeat")
    held.give_back(first)
    asks_again(fake, "POST", "/v1/placements/release")
    began = time.monotonic()
    held.close()
    assert time.monotonic() - began < RETRY_AFTER / 2, "nor does the end of the program wait"


def test_a_stream_of_events_is_asked_for_again_in_its_own_time(
    fake: FakePlane, plane: ControlPlane
) -> None:
    stream = EventStream(plane, "/v1/events")
    reader = threading.Thread(target=list, args=(stream,), daemon=True)
    reader.start()
    asks_again(fake, "GET", "/v1/events")
    stream.close()
    reader.join(RETRY_AFTER / 2)
    assert not reader.is_alive()


def test_whoever_only_submits_waits_as_it_is_told(fake: FakePlane, plane: ControlPlane) -> None:
    """The counterpart, so that the tests above mean something."""
    fake.overloaded = "1"
    began = time.monotonic()
    with pytest.raises(errors.ControlPlaneError):
        plane.post("/v1/jobs", {"entrypoint": "true"}, patience=1.5)
    assert time.monotonic() - began >= 1
    assert len(fake.asked("POST", "/v1/jobs")) == 2
