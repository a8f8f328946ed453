"""What the control plane says about accepted work is a warning, once."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from ray_multicluster_scheduler._jobs import runtime_env, submission
from ray_multicluster_scheduler._plane import notices
from ray_multicluster_scheduler._work.leases import Leases
from support.made_up_plane import MadeUpPlane

TOLD = "no cluster carries lnux: it is kept as a label; did you mean linux?"


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "_told", set())


class Telling(MadeUpPlane):
    """It accepts jobs, and has something to say about all work."""

    def post(self, path: str, body: Any = None, **query: Any) -> Any:
        if path == "/v1/jobs":
            return {"id": body["id"], "notice": TOLD, "notices": [TOLD]}
        return super().post(path, body, **query)

    def _placement(self, id: str) -> dict[str, Any]:
        return {**super()._placement(id), "notices": [TOLD]}


def test_a_mistyped_tag_is_one_warning_however_many_jobs_have_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for number in range(3):
        sent = {"id": f"job-{number}", "entrypoint": "x", "tags": ["lnux"]}
        assert submission.send(Telling(), sent) == (f"job-{number}", True)  # type: ignore[arg-type]
    assert caplog.messages == [f"job-0: {TOLD}"]
    assert caplog.records[0].levelno == logging.WARNING


def test_a_folder_that_is_not_here_must_exist_on_the_cluster(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for _ in range(2):
        env = runtime_env.portable({"working_dir": "/no/such/folder"}, None)  # type: ignore[arg-type]
        assert env == {"working_dir": "/no/such/folder"}
    told = "working_dir /no/such/folder does not exist here: it must exist on the cluster"
    assert caplog.messages == [told]


def test_tasks_are_told_as_jobs_are(caplog: pytest.LogCaptureFixture) -> None:
    plane = Telling()
    plane.grants.extend(["mac"] * 3)
    leases = Leases(plane, lambda lease: None)  # type: ignore[arg-type]
    leases.obtain({"id": "task-1", "kind": "task"}, None)
    leases.obtain_some([{"id": f"task-{number}", "kind": "task"} for number in (2, 3)], None)
    leases.close()
    assert caplog.messages == [f"task-1: {TOLD}"]
