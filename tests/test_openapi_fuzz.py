"""The native API matches its OpenAPI document, whatever is sent.

schemathesis generates requests from the document, valid and invalid ones. No cluster answers here,
so work waits; tests that need a cluster are elsewhere.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.openapi_hooks import KNOWN, NOBODY
from support.plane import Plane
from support.pool import Pool

TESTS = Path(__file__).resolve().parent

# Streams do not end; test_native_api.py reads them.
ENDLESS = ["follow_events", "follow_logs"]


@pytest.fixture
def lonely(tmp_path: Path) -> Iterator[Plane]:
    """A control plane whose clusters do not answer, with one queued job."""
    pool = Pool([])
    pool.clusters = [
        {"name": name, "head_address": NOBODY, "dashboard": f"http://{NOBODY}"}
        for name in ("centos", KNOWN["name"])
    ]
    plane = Plane(tmp_path / "plane", pool)
    try:
        plane.start()
        plane.post("/v1/jobs", {"id": KNOWN["id"], "entrypoint": "true"})
        yield plane
    finally:
        plane.close()


def test_the_native_api_keeps_to_its_document(lonely: Plane, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "schemathesis.cli", "run", "--no-color"]
    command += ["--phases", "examples,coverage,fuzzing", "--max-examples", "40"]
    command += ["--generation-deterministic", "--suppress-health-check", "all"]
    command += ["--continue-on-failure", "--warnings", "off", "--request-timeout", "20"]
    # The API may refuse values that no schema can describe, such as an unknown cluster. Our own
    # check, in the hooks, says what it may not refuse.
    command += ["--exclude-checks", "positive_data_acceptance"]
    for operation in ENDLESS:
        command += ["--exclude-operation-id", operation]
    hooks = {"SCHEMATHESIS_HOOKS": "support.openapi_hooks", "PYTHONPATH": str(TESTS)}
    run = subprocess.run(
        [*command, f"{lonely.address}/v1/openapi.json"],
        cwd=tmp_path,
        env={**os.environ, **hooks},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-2000:]
    waiting = lonely.get("/v1/queue")["waiting"]
    assert waiting > 0
    lonely.restart()
    assert lonely.get("/v1/queue")["waiting"] == waiting, "what was accepted can be read again"
