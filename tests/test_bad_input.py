"""For any input: a clear refusal, nothing lost, nothing written elsewhere, no growth."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from support import raw
from support.jobs import hints, unique_id, wait_for
from support.plane import Plane

MIB = 1024 * 1024
BOTH = ["/api/jobs/", "/v1/jobs"]


@pytest.fixture(autouse=True)
def unharmed(plane: Plane) -> Iterator[None]:
    """After every test here: the same process, quick to answer, with its jobs."""
    pid = plane.pid
    kept = plane.client.submit_job(
        entrypoint="true", submission_id=unique_id("kept"), entrypoint_num_cpus=64
    )
    yield
    assert plane.pid == pid
    began = time.monotonic()
    assert plane.request("GET", "/healthz").status_code == 200
    assert time.monotonic() - began < 2
    assert plane.client.get_job_info(kept).status == "PENDING"
    plane.client.stop_job(kept)


def refused(answer: requests.Response) -> str:
    """A 4xx with the reason; in the native API with a code and a hint."""
    assert 400 <= answer.status_code < 500, f"{answer.status_code} {answer.text[:500]}"
    assert answer.text.strip()
    if "/v1/" in answer.url:
        body = answer.json()
        assert set(body) <= {"code", "message", "hint"}
        assert body["code"]
        assert body["message"]
    return answer.text


NOT_A_JOB: dict[str, bytes] = {
    "nothing": b"",
    "not JSON": b"entrypoint=true",
    "cut off": b'{"entrypoint": "true"',
    "not UTF-8": b'{"entrypoint": "\xff\xfe"}',
    "lone surrogate": rb'{"entrypoint": "\ud800"}',
    "a list": b'["entrypoint"]',
    "a number": b"5",
    "null": b"null",
    "not a number": b'{"entrypoint": "true", "entrypoint_num_cpus": NaN}',
    "100,000 levels deep": b'{"entrypoint": "true", "runtime_env": {"a":' + b"[" * 100_000,
    "a deep runtime_env": b'{"entrypoint":"true","runtime_env":'
    + b'{"a":' * 5000
    + b"1"
    + b"}" * 5001,
    "entrypoint missing": b"{}",
    "entrypoint null": b'{"entrypoint": null}',
    "entrypoint a list": b'{"entrypoint": ["true"]}',
    "entrypoint with a NUL": rb'{"entrypoint": "true\u0000"}',
    "the same key twice": b'{"entrypoint": "true", "entrypoint": {}}',
}


@pytest.mark.parametrize("path", BOTH)
@pytest.mark.parametrize("body", NOT_A_JOB.values(), ids=NOT_A_JOB.keys())
def test_what_is_not_a_job_is_refused(plane: Plane, path: str, body: bytes) -> None:
    headers = {"content-type": "application/json"}
    refused(plane.request("POST", path, data=body, headers=headers))


# Ray accepts each of these, and then fails the job or leaves it pending forever.
BAD_VALUES: dict[str, dict[str, Any]] = {
    "negative CPUs": {"entrypoint_num_cpus": -1},
    "more CPUs than a number holds": {"entrypoint_num_cpus": 1e308},
    "negative memory": {"entrypoint_memory": -5},
    "CPU among the custom resources": {"entrypoint_resources": {"CPU": 1}},
    "negative custom resource": {"entrypoint_resources": {"linux_only": -1}},
    "variables that are no texts": {"runtime_env": {"env_vars": {"A": {"b": 1}}}},
    "variables that are a list": {"runtime_env": {"env_vars": ["A=1"]}},
    "a package that nobody uploaded": {
        "runtime_env": {"working_dir": "gcs://_ray_pkg_0123456789abcdef.zip"}
    },
    "a package with a traversal": {"runtime_env": {"working_dir": "gcs://../../etc/passwd.zip"}},
    "an id with a slash": {"submission_id": "has/slash"},
    "an id with a traversal": {"submission_id": "../../evil"},
    "an id with a newline": {"submission_id": "a\nb"},
    "an endless id": {"submission_id": "x" * 5000},
    "an unknown cluster": {"metadata": hints("windows")},
    "a cluster that cannot be one": {"metadata": hints("../etc")},
    "a priority that is none": {"metadata": {"multicluster.priority": "high"}},
    "an unknown hint": {"metadata": {"multicluster.colour": "blue"}},
    "tags that are none": {"metadata": hints(tags=["a" * 5000])},
}


@pytest.mark.parametrize("fields", BAD_VALUES.values(), ids=BAD_VALUES.keys())
def test_values_that_cannot_work_are_refused_at_once(plane: Plane, fields: dict[str, Any]) -> None:
    before = len(plane.client.list_jobs())
    body = {"entrypoint": "true", **fields}
    refused(plane.request("POST", "/api/jobs/", json=body))
    assert len(plane.client.list_jobs()) == before, "a refused job leaves no record"


@pytest.mark.parametrize(
    "name",
    [
        "..%2f..%2fetc%2fpasswd",
        "..%2F..%2Fevil.zip",
        "%2e%2e%2fevil.zip",
        "%2fetc%2fpasswd.zip",
        "a%00b.zip",
        "..",
        "%2e%2e",
        ".zip",
        "a%5c..%5cevil.zip",
        "x" * 3000 + ".zip",
    ],
)
def test_package_names_lead_nowhere_else(plane: Plane, name: str) -> None:
    """Through plain sockets: HTTP libraries normalise such paths before sending."""
    before = outside_of(plane)
    target = f"/api/packages/gcs/{name}".encode()
    host = f"Host: 127.0.0.1:{plane.port}\r\nConnection: close\r\n".encode()
    put = b"PUT " + target + b" HTTP/1.1\r\n" + host + b"Content-Length: 4\r\n\r\nevil"
    get = b"GET " + target + b" HTTP/1.1\r\n" + host + b"\r\n"
    for request in (put, get):
        answer = raw.exchange(plane.port, request)
        code = raw.status(answer)
        assert code is not None, answer
        assert 400 <= code < 500, answer
        assert b"root:" not in answer
    assert outside_of(plane) == before


def outside_of(plane: Plane) -> set[str]:
    """Every file around the state directory, but none within it."""
    around = [path for path in plane.directory.rglob("*") if plane.state not in path.parents]
    return {str(path) for path in [*around, *plane.directory.parent.glob("*")]}


UNKNOWN = [
    ("GET", "/v1/jobs/no-such-job", 404),
    ("GET", "/v1/jobs/no-such-job/explain", 404),
    ("GET", "/v1/jobs/no-such-job/logs", 404),
    ("POST", "/v1/jobs/no-such-job/stop", 404),
    ("GET", "/v1/jobs/..%2f..%2fetc", 400),
    ("GET", "/v1/clusters/windows", 404),
    ("GET", "/v1/nothing/here", 404),
    ("GET", "/api/jobs/no-such-job", 404),
    ("GET", "/api/jobs/..%2f..%2fetc%2fpasswd/logs", 404),
    ("GET", "/api/nothing/here", 404),
    ("PATCH", "/api/jobs/", 405),
    ("DELETE", "/v1/jobs", 405),
]


@pytest.mark.parametrize(("method", "path", "status"), UNKNOWN)
def test_what_does_not_exist_is_said_to(plane: Plane, method: str, path: str, status: int) -> None:
    answer = plane.request(method, path)
    refused(answer)
    assert answer.status_code in ({404, 400} if status != 405 else {405})


def test_a_package_over_100_mib_is_refused(plane: Plane) -> None:
    def endless() -> Iterator[bytes]:
        """Without a length, and endless in practice."""
        for _ in range(4000):
            yield bytes(MIB)

    url = f"{plane.address}/api/packages/gcs/_ray_pkg_{unique_id('huge')}.zip"
    answer = requests.put(url, data=bytes(100 * MIB + 1), timeout=60)
    assert answer.status_code == 413
    assert refused(answer)
    with contextlib.suppress(requests.ConnectionError):  # closed in the middle, which is as good
        assert requests.put(url, data=endless(), timeout=60).status_code == 413
    assert requests.get(url, timeout=20).status_code == 404


@pytest.mark.parametrize("path", BOTH)
def test_a_job_that_is_somewhat_too_large_is_told_so_every_time(plane: Plane, path: str) -> None:
    """Not just disconnected, although it is refused before all of it has arrived."""
    body = json.dumps({"entrypoint": "x" * (5 * MIB)})
    answers = [plane.request("POST", path, data=body) for _ in range(20)]
    assert {answer.status_code for answer in answers} == {413}


@pytest.mark.parametrize(
    ("method", "path", "size"),
    [
        ("POST", "/api/jobs/", 5 * MIB),
        ("POST", "/v1/jobs", 5 * MIB),
        ("PUT", "/api/packages/gcs/..%2fevil", 100_000),
        ("PUT", "/v1/nowhere", 100_000),
    ],
)
def test_a_refused_body_does_not_spoil_the_connections_next_request(
    plane: Plane, method: str, path: str, size: int
) -> None:
    """A server that closes a connection because it did not read all of it must announce that."""
    with requests.Session() as session:
        for _ in range(40):
            answer = session.request(method, plane.address + path, data=b"[" * size, timeout=20)
            assert 400 <= answer.status_code < 500
            assert session.get(f"{plane.address}/healthz", timeout=20).status_code == 200


@pytest.mark.parametrize("path", BOTH)
def test_a_huge_job_is_refused(plane: Plane, path: str) -> None:
    body = json.dumps({"entrypoint": "x" * (64 * MIB)})
    with contextlib.suppress(requests.ConnectionError):  # closed before all of it was sent
        assert plane.request("POST", path, data=body).status_code in {400, 413}


def test_another_sites_web_page_is_refused(plane: Plane) -> None:
    """A page in the user's browser can reach 127.0.0.1; it must not be able to submit."""
    body = {"entrypoint": "true"}
    for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
        for path in BOTH:
            answer = plane.request("POST", path, json=body, headers=headers)
            assert 400 <= answer.status_code < 500, f"{path} {headers}: {answer.text}"


GARBAGE = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(200)),  # TLS, to a plain port
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET /v1/clusters HTTP/1.1\r\n" + b"A: " + b"b" * MIB + b"\r\n\r\n",
    b"GET /" + b"a" * MIB + b" HTTP/1.1\r\n\r\n",
    b"POST /api/jobs/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -5\r\n\r\n",
    b"POST /api/jobs/ HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\n",
    b"\r\n" * 1000,
    b"GET /v1/clusters HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X-Y: z\r\n" * 5000 + b"\r\n",
]


@pytest.mark.parametrize("data", GARBAGE, ids=range(len(GARBAGE)))
def test_what_is_not_http_is_hung_up_on(plane: Plane, data: bytes) -> None:
    code = raw.status(raw.exchange(plane.port, data, end=True))
    assert code is None or 400 <= code < 506


def test_slow_clients_block_nobody_and_are_hung_up_on(plane: Plane) -> None:
    head = f"POST /api/jobs/ HTTP/1.1\r\nHost: 127.0.0.1:{plane.port}\r\n".encode()
    half_heads = [raw.connect(plane.port) for _ in range(300)]
    half_bodies = [raw.connect(plane.port) for _ in range(300)]
    try:
        for connection in half_heads:
            connection.sendall(head)
        for connection in half_bodies:
            connection.sendall(head + b'Content-Length: 1000\r\n\r\n{"entry')
        began = time.monotonic()
        for _ in range(20):
            assert plane.request("GET", "/v1/clusters").status_code == 200
        job_id = plane.client.submit_job(entrypoint="echo in time")
        assert time.monotonic() - began < 5
        wait_for(plane.client, job_id, "SUCCEEDED")
        assert raw.is_closed_within(half_heads[0], 60), "a head that never comes is given up"
        assert raw.is_closed_within(half_bodies[0], 90), "a body that never comes is given up"
    finally:
        for connection in half_heads + half_bodies:
            connection.close()


def test_bad_requests_do_not_make_it_grow(plane: Plane) -> None:
    def a_round() -> None:
        with requests.Session() as session:
            for n in range(150):
                for path in BOTH:
                    session.post(plane.address + path, data=b'{"entrypoint": ', timeout=20)
                    session.post(plane.address + path, json={"entrypoint": n}, timeout=20)
                session.get(f"{plane.address}/v1/jobs/unknown-{n}", timeout=20)
                session.get(f"{plane.address}/v1/unknown/{n}", timeout=20)
        for n in range(20):
            plane.request("PUT", f"/api/packages/gcs/..%2f{n}", data=b"x" * MIB)
            plane.request("POST", "/api/jobs/", data=b"[" * (8 * MIB))

    a_round()  # buffers and pools reach their size
    before = plane.resident_bytes()
    for _ in range(3):
        a_round()
    grown = plane.resident_bytes() - before
    assert grown < 24 * MIB, f"grew by {grown / MIB:.1f} MiB"
