"""A control plane with several replicas, as the SDK uses it: who is asked, and what is repeated."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import urllib3

from ray_multicluster_scheduler import errors
from ray_multicluster_scheduler._jobs import following, waiting
from ray_multicluster_scheduler._jobs.jobs import Jobs
from ray_multicluster_scheduler._plane import failover, proof
from ray_multicluster_scheduler._plane.addresses import addresses_of
from ray_multicluster_scheduler._plane.attach import attach
from ray_multicluster_scheduler._plane.client import ControlPlane
from ray_multicluster_scheduler._plane.events import CONNECTED, EventStream
from ray_multicluster_scheduler._ray.address import get_job_submission_client_cluster_info
from ray_multicluster_scheduler._work.leases import Leases
from support import ports
from support.fake_replicas import DIES, LEADER_LOST, NO_LEADER, FakeReplica
from support.waiting import wait_until

JOB = {"id": "j-1", "entrypoint": "true"}


@pytest.fixture
def replicas() -> Iterator[tuple[FakeReplica, FakeReplica]]:
    with FakeReplica() as a, FakeReplica(a) as b:
        yield a, b


@pytest.fixture
def plane(replicas: tuple[FakeReplica, FakeReplica]) -> ControlPlane:
    return ControlPlane([each.address for each in replicas])


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failover, "PATIENCE", 1.0)


def counted(fake: FakeReplica, method: str = "POST", path: str = "/v1/jobs") -> int:
    return len(fake.asked(method, path))


# -- lists of addresses


@pytest.mark.parametrize(
    ("given", "understood"),
    [
        ("a:8700", "http://a:8700"),
        ("a:8700,b:8700", "http://a:8700,http://b:8700"),
        (" https://a , https://b/ ", "https://a,https://b"),
        ("http://a,http://a:81", "http://a,http://a:81"),
        ("[fd00::7]:8700,b", "http://[fd00::7]:8700,http://b"),
    ],
)
def test_addresses_are_a_list_with_commas(given: str, understood: str) -> None:
    assert addresses_of(given) == understood


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("a:8700,", r"=a:8700,: '' is not the address of a control plane"),
        (",", "'' is not the address"),
        ("a:8700 b:8700", "is not the address"),
        ("http://a;http://b", "is not the address"),
        ("a:8700,ray://b:10001", "'ray://b:10001' is not the address"),
        ("a:8700,b:99999", "'b:99999' is not the address"),
        ("a:8700,http://A:8700/", "names http://A:8700 twice"),
        ("http://a,a:80", "names http://a:80 twice"),
        (",".join(f"a:{port}" for port in range(1, 18)), "names 17 addresses"),
    ],
)
def test_a_list_that_cannot_be_meant_is_refused_with_a_hint(given: str, said: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=said) as caught:
        addresses_of(given)
    assert caught.value.hint


def test_a_token_is_not_sent_to_a_list_that_is_encrypted_only_in_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mixed = "https://a:8700,http://b:8700"
    assert addresses_of(mixed) == mixed
    monkeypatch.setenv("RAY_MULTICLUSTER_TOKEN", "mine")
    with pytest.raises(errors.ConfigurationError, match=r"mixes http:// and https://") as caught:
        addresses_of(mixed)
    assert caught.value.hint == "write https:// for all addresses"
    assert "mine" not in str(caught.value)


def test_a_program_attaches_to_the_first_replica_that_answers(
    replicas: tuple[FakeReplica, FakeReplica], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = replicas
    monkeypatch.setenv("RAY_MULTICLUSTER_ADDRESS", f"{a.address},{b.address}")
    a.go_away()
    plane = attach()
    assert plane is not None
    assert plane.address == b.address
    assert plane.get("/v1/clusters") == {"items": []}


def test_where_no_replica_answers_the_error_names_all_and_what_each_said(
    short: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = [f"http://127.0.0.1:{ports.a_port()}" for _ in range(2)]
    monkeypatch.setenv("RAY_MULTICLUSTER_ADDRESS", ",".join(free))
    with pytest.raises(errors.ControlPlaneError, match="no replica") as caught:
        attach()
    for address in free:
        assert f"{address}: " in caught.value.message
    assert caught.value.message.count("Connection refused") == 2


def test_inside_a_job_the_whole_list_is_used(
    replicas: tuple[FakeReplica, FakeReplica], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = replicas
    monkeypatch.setenv("RAY_MULTICLUSTER_ADDRESS", f"{a.address},{b.address}")
    monkeypatch.setenv("RAY_MULTICLUSTER_CURRENT_CLUSTER", "mac")
    a.go_away()
    plane = attach()
    assert plane is not None
    assert plane.addresses.all == (a.address, b.address)
    assert plane.get("/v1/clusters") == {"items": []}


def test_an_address_for_ray_s_own_tools_may_be_a_list(
    replicas: tuple[FakeReplica, FakeReplica],
) -> None:
    a, b = replicas
    listed = f"{a.address},{b.address}?tags=linux"
    assert get_job_submission_client_cluster_info(listed).address == a.address
    a.go_away()
    found = get_job_submission_client_cluster_info(listed)
    assert (found.address, found.metadata) == (b.address, {"multicluster.tags": "linux"})


# -- who is asked


def test_a_replica_that_refuses_connections_is_passed_over_and_the_next_remembered(
    replicas: tuple[FakeReplica, FakeReplica], plane: ControlPlane
) -> None:
    a, b = replicas
    a.go_away()
    assert plane.post("/v1/jobs", JOB)["id"] == "j-1"
    assert plane.address == b.address
    a.come_back()
    plane.get("/v1/clusters")
    assert not a.requests, "the one that answered last comes first"


def test_what_answers_no_leader_is_asked_elsewhere_and_nothing_is_done_twice(
    replicas: tuple[FakeReplica, FakeReplica], plane: ControlPlane
) -> None:
    a, b = replicas
    a.fault = NO_LEADER
    assert plane.post("/v1/jobs", {"entrypoint": "true"})["id"] in b.jobs
    assert (counted(a), counted(b), len(b.jobs)) == (1, 1, 1)


def test_while_no_replica_leads_it_goes_round_until_one_does(
    replicas: tuple[FakeReplica, FakeReplica], plane: ControlPlane
) -> None:
    a, b = replicas
    a.fault = b.fault = NO_LEADER
    threading.Timer(0.8, lambda: setattr(b, "fault", None)).start()
    began = time.monotonic()
    assert plane.post("/v1/jobs", {"entrypoint": "true"})
    assert 0.5 < time.monotonic() - began < 5
    assert counted(a) + counted(b) < 12, "with pauses that grow"


def test_retry_after_is_honoured(
    replicas: tuple[FakeReplica, FakeReplica], plane: ControlPlane
) -> None:
    a, b = replicas
    a.faults, b.faults = [NO_LEADER], [NO_LEADER]
    a.retry_after = "1"
    began = time.monotonic()
    plane.get("/v1/clusters")
    assert time.monotonic() - began >= 1


def test_with_one_address_the_next_leader_is_waited_for_too(
    replicas: tuple[FakeReplica, FakeReplica],
) -> None:
    a, _ = replicas
    plane = ControlPlane(a.address)
    a.faults = [NO_LEADER, NO_LEADER]
    assert plane.post("/v1/jobs", JOB)["id"] == "j-1"
    a.faults = [LEADER_LOST]
    assert plane.get("/v1/clusters") == {"items": []}


def test_with_one_address_a_refused_connection_is_an_error_at_once() -> None:
    address = f"http://127.0.0.1:{ports.a_port()}"
    began = time.monotonic()
    with pytest.raises(errors.ControlPlaneError, match=f"the control plane at {address} does not"):
        ControlPlane(address).get("/v1/clusters")
    assert time.monotonic() - began < 1


def test_after_the_time_for_it_the_error_names_every_address_and_what_each_said(
    replicas: tuple[FakeReplica, FakeReplica], plane: ControlPlane, short: None
) -> None:
    a, b = replicas
    a.go_away()
    b.fault = NO_LEADER
    began = time.monotonic()
    with pytest.raises(errors.ControlPlaneError) as caught:
        plane.post("/v1/jobs", JOB)
    assert 0.8 < time.monotonic() - began < 4
    lines = caught.value.message.splitlines()
    assert lines[0] == "no replica of the control plane answers"
    assert lines[1].startswith(f"  {a.address}: ")
    assert "refused" in lines[1]
    assert lines[2] == f"  {b.address}: the replica says no_leader"
    assert caught.value.code == NO_LEADER


def test_a_refusal_of_the_request_itself_is_not_taken_elsewhere(
    replicas: tuple[FakeReplica, FakeReplica], plane: ControlPlane
) -> None:
    _, b = replicas
    with pytest.raises(errors.UnknownJobError):
        plane.get("/v1/jobs/none")
    assert not b.requests


def test_only_a_connection_that_was_never_made_proves_that_nothing_arrived() -> None:
    with FakeReplica() as fake:
        broken = fake.address.replace("http:", "https:")
        with pytest.raises(urllib3.exceptions.HTTPError) as caught:
            proof.connections().request("GET", broken, timeout=5)
        assert not failover.never_arrived(caught.value)
    with pytest.raises(urllib3.exceptions.HTTPError) as caught:
        proof.connections().request("GET", fake.address, timeout=5)
    assert failover.never_arrived(caught.value)
    untrusted = urllib3.exceptions.SSLError(ssl.SSLCertVerificationError("unknown authority"))
    assert failover.never_arrived(untrusted)


# -- what is repeated


@pytest.mark.parametrize("fault", [DIES, LEADER_LOST])
def test_a_read_whose_answer_is_lost_is_asked_again_elsewhere(
    replicas: tuple[FakeReplica, FakeReplica], plane: ControlPlane, fault: str
) -> None:
    a, b = replicas
    a.faults = [fault]
    assert plane.get("/v1/clusters") == {"items": []}
    assert counted(a, "GET", "/v1/clusters") == counted(b, "GET", "/v1/clusters") == 1


@pytest.mark.parametrize("fault", [DIES, LEADER_LOST])
def test_a_job_with_an_id_is_submitted_again_elsewhere_and_is_one_job_of_this_program(
    replicas: tuple[FakeReplica, FakeReplica], plane: ControlPlane, fault: str
) -> None:
    a, b = replicas
    jobs = Jobs(plane)
    _fault_next_submission(a, fault)
    assert jobs.submit("true", submission_id="mine") == "mine"
    assert (counted(a), counted(b)) == (1, 1)
    assert list(a.jobs) == ["mine"]
    assert jobs.submitted == ["mine"], "Ctrl-C stops it"


@pytest.mark.parametrize("fault", [DIES, LEADER_LOST])
def test_a_job_without_an_id_may_have_been_accepted_and_is_not_sent_again(
    replicas: tuple[FakeReplica, FakeReplica], plane: ControlPlane, fault: str
) -> None:
    a, b = replicas
    jobs = Jobs(plane)
    _fault_next_submission(a, fault)
    with pytest.raises(errors.ControlPlaneError, match="may or may not have been accepted"):
        jobs.submit("true")
    assert (counted(a), counted(b), len(a.jobs)) == (1, 0, 1)
    assert jobs.submit("true", submission_id="next") == "next"
    assert counted(b) == 1, "the next request begins elsewhere"


@pytest.mark.parametrize("fault", [DIES, LEADER_LOST])
def test_a_stop_whose_answer_is_lost_is_repeated_and_has_stopped_the_job(
    replicas: tuple[FakeReplica, FakeReplica], plane: ControlPlane, fault: str
) -> None:
    a, _ = replicas
    a.add("j-1")
    a.faults = [fault]
    assert Jobs(plane).stop("j-1") is True
    assert [counted(each, "POST", "/v1/jobs/j-1/stop") for each in replicas] == [1, 1]
    assert Jobs(plane).stop("j-1") is False, "it had ended before"


@pytest.mark.parametrize("fault", [DIES, LEADER_LOST])
def test_an_upload_that_breaks_off_begins_anew_elsewhere(
    replicas: tuple[FakeReplica, FakeReplica], plane: ControlPlane, fault: str, tmp_path: Any
) -> None:
    a, _ = replicas
    a.faults = [fault]
    file = tmp_path / "package"
    file.write_bytes(b"content")
    with file.open("rb") as package:
        plane.open("PUT", "/api/packages/gcs/p.zip", package, headers={"Content-Length": "7"})
    assert a.packages == {"p.zip": b"content"}


def _fault_next_submission(fake: FakeReplica, fault: str) -> None:
    """What comes before a submission, such as a look for packages, is answered."""
    fake.faulty, fake.faults = "POST /v1/jobs", [fault]


# -- following over a failover


def test_events_go_on_at_the_next_replica_without_a_gap_and_without_one_twice(
    replicas: tuple[FakeReplica, FakeReplica], plane: ControlPlane
) -> None:
    a, b = replicas
    for n in range(6):
        a.add(f"j-{n}")
    heard: list[int] = []
    stream = EventStream(plane, "/v1/events")
    connected = threading.Event()

    def read() -> None:
        for event in stream:
            connected.set() if event.kind == CONNECTED else heard.append(event.data["seq"])

    threading.Thread(target=read, daemon=True).start()
    assert connected.wait(5)
    a.change("j-0", "running")
    a.change("j-1", "running")
    wait_until(lambda: len(heard) == 2, "two events", timeout=5)
    a.go_away()
    # Happens while nobody is connected; the shared log has it.
    a.change("j-2", "running")
    wait_until(lambda: b.watchers(), "the next replica is followed", timeout=10)
    a.change("j-3", "running")
    wait_until(lambda: len(heard) == 4, "all events", timeout=5)
    assert heard == [1, 2, 3, 4]
    stream.close()


def test_a_log_goes_on_at_the_next_replica_and_each_piece_is_told_once(
    replicas: tuple[FakeReplica, FakeReplica], plane: ControlPlane
) -> None:
    a, _ = replicas
    a.add("j-1", "running")

    def log(attempt: int, start: int, text: str) -> tuple[str, dict[str, Any]]:
        return "log", {"attempt": attempt, "cluster": "mac", "from": start, "text": text}

    a.log_events += [
        [log(1, 0, "one\n"), ("note", {"text": "-- attempt 2\n"}), log(2, 0, "two\n")],
        # A replica that is behind: the first attempt again, and less of the second.
        [log(1, 0, "one\n"), ("note", {"text": "-- attempt 2\n"}), log(2, 0, "tw")],
        [log(2, 0, "two\nthree\n"), ("end", {})],
    ]
    threading.Timer(0.2, a.go_away).start()
    told = "".join(following.follow(plane, "/v1/jobs/j-1/logs/follow"))
    assert told == "one\n-- attempt 2\ntwo\nthree\n"


def test_waiting_for_a_job_goes_on_while_the_leader_changes(
    replicas: tuple[FakeReplica, FakeReplica], plane: ControlPlane
) -> None:
    a, b = replicas
    a.add("j-1", "running")

    def fail_over() -> None:
        wait_until(lambda: a.watchers(), "it is followed", timeout=5)
        a.go_away()
        b.faults = [NO_LEADER, NO_LEADER]
        time.sleep(0.3)
        b.change("j-1", "succeeded")

    threading.Thread(target=fail_over, daemon=True).start()
    waiting.wait(plane, "j-1", check_interval=0.5, timeout=20, on_end=lambda job: None)


def test_leases_survive_a_failover(
    replicas: tuple[FakeReplica, FakeReplica], plane: ControlPlane
) -> None:
    a, b = replicas
    a.lease_seconds = b.lease_seconds = 6.0
    leases = Leases(plane, lambda lease: None)
    lease = leases.obtain({"id": "task-1", "kind": "task"}, None)
    wait_until(lambda: a.asked("POST", "/v1/placements/heartbeat"), "a heartbeat", timeout=5)
    # Its machine is gone: it accepts, and never answers.
    a.frozen.set()
    seen = [leases._held.get(lease, "lost")]
    wait_until(
        lambda: len(b.asked("POST", "/v1/placements/heartbeat")) >= 2, "beats go on", timeout=15
    )
    seen.append(leases._held.get(lease, "lost"))
    assert seen == [None, None], "it is still held"
    assert b.gaps["task-1"] < 5, "well within the lease"
    a.frozen.clear()
    leases.close()


def test_a_heartbeat_that_nobody_takes_is_sent_again_until_one_does(
    replicas: tuple[FakeReplica, FakeReplica], plane: ControlPlane
) -> None:
    a, b = replicas
    a.lease_seconds = b.lease_seconds = 6.0
    leases = Leases(plane, lambda lease: None)
    leases.obtain({"id": "task-1", "kind": "task"}, None)
    a.fault = b.fault = NO_LEADER
    threading.Timer(3.5, lambda: setattr(b, "fault", None)).start()
    wait_until(lambda: b.gaps.get("task-1"), "a heartbeat", timeout=15)
    assert b.gaps["task-1"] < 5.5
    a.fault = None
    leases.close()
