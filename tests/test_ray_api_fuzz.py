"""Ray's API, as we implement it, with generated requests.

Generated, but the same in every run. No cluster answers here, so jobs wait.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
import requests
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.plane import Plane
from support.pool import Pool

MIB = 1024 * 1024
NOBODY = "127.0.0.1:9"

# The one 500 that we copy from Ray: an id that is taken (docs/api.md).
TAKEN = "already exists"

unhurried = settings(
    max_examples=150,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def lonely(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A control plane whose clusters do not answer. It survives all of this."""
    pool = Pool([])
    pool.clusters = [{"name": "mac", "head_address": NOBODY, "dashboard": f"http://{NOBODY}"}]
    plane = Plane(tmp_path_factory.mktemp("lonely"), pool)
    try:
        plane.start()
        pid = plane.pid
        yield plane
        assert plane.pid == pid
        accepted = {job["submission_id"] for job in plane.get("/api/jobs/")}
        assert accepted
        plane.restart()
        assert {job["submission_id"] for job in plane.get("/api/jobs/")} == accepted
    finally:
        plane.close()


@pytest.fixture(autouse=True)
def no_growth(lonely: Plane) -> Iterator[None]:
    before = lonely.resident_bytes()
    yield
    grown = lonely.resident_bytes() - before
    assert grown < 48 * MIB, f"grew by {grown / MIB:.1f} MiB"


def answered(plane: Plane, method: str, path: str, **kwargs: Any) -> requests.Response:
    """Soon, with a text, and with a 500 only where Ray has one."""
    began = time.monotonic()
    answer = plane.request(method, path, **kwargs)
    assert time.monotonic() - began < 10
    if answer.status_code >= 500:
        assert TAKEN in answer.text
    answer.content.decode()
    assert answer.content or answer.status_code in {200, 204}, answer.status_code
    return answer


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["gcs://_ray_pkg_0.zip", "/home/zorro/x", "../..", "\x00", "mac", "1e400"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4)
    ),
    max_leaves=12,
)

FIELDS = [
    "entrypoint",
    "submission_id",
    "job_id",
    "runtime_env",
    "metadata",
    "entrypoint_num_cpus",
    "entrypoint_num_gpus",
    "entrypoint_memory",
    "entrypoint_resources",
    "entrypoint_label_selector",
]
ENV = ["env_vars", "working_dir", "py_modules", "pip", "conda", "uv", "container", "config"]
HINTS = [f"multicluster.{name}" for name in ("preferred_cluster", "tags", "priority", "required")]


def some_of(names: list[str], values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(st.sampled_from(names), values, max_size=len(names))


# Mostly valid, so that it passes the first check.
jobs = st.builds(
    lambda fields, env, metadata: {
        "entrypoint": "true",
        "runtime_env": env,
        "metadata": metadata,
        **fields,
    },
    some_of(FIELDS, anything),
    some_of(ENV, anything),
    some_of(HINTS, st.text(max_size=20)),
)


@unhurried
@given(body=st.binary(max_size=300))
def test_bytes_are_no_job(lonely: Plane, body: bytes) -> None:
    assert answered(lonely, "POST", "/api/jobs/", data=body).status_code == 400


@unhurried
@given(body=anything)
def test_json_that_is_no_job_is_refused(lonely: Plane, body: Any) -> None:
    assert answered(lonely, "POST", "/api/jobs/", data=json.dumps(body)).status_code == 400


@unhurried
@given(job=jobs)
def test_a_job_is_taken_and_shown_or_refused(lonely: Plane, job: dict[str, Any]) -> None:
    answer = answered(lonely, "POST", "/api/jobs/", data=json.dumps(job))
    if answer.status_code == 200:
        taken = answer.json()["submission_id"]
        shown = answered(lonely, "GET", f"/api/jobs/{taken}").json()
        assert shown["submission_id"] == taken
        answered(lonely, "POST", f"/api/jobs/{taken}/stop")
        answered(lonely, "GET", f"/api/jobs/{taken}/logs")


@unhurried
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"]),
    parts=st.lists(
        st.sampled_from(["api", "jobs", "packages", "gcs", "stop", "logs", "tail", "version", ".."])
        | st.text(max_size=12),
        max_size=6,
    ),
    query=st.text(max_size=12),
    body=st.binary(max_size=40),
)
def test_any_address_is_answered(
    lonely: Plane, method: str, parts: list[str], query: str, body: bytes
) -> None:
    path = "/".join(quote(part, safe="", errors="surrogatepass") for part in parts)
    answer = lonely.request(method, f"/api/{path}?{quote(query)}", data=body)
    assert answer.status_code < 500, answer.text


@unhurried
@given(name=st.text(max_size=30), content=st.binary(min_size=1, max_size=100))
def test_a_package_is_taken_and_known_or_refused_and_not(
    lonely: Plane, name: str, content: bytes
) -> None:
    path = f"/api/packages/gcs/{quote(name, safe='', errors='surrogatepass')}"
    put = answered(lonely, "PUT", path, data=content)
    got = lonely.request("GET", path)
    assert put.ok == got.ok, f"{put.status_code} {got.status_code}"
    assert put.status_code < 500
