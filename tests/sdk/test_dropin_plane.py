"""The earlier prototype's objects over a real control plane without a cluster."""

from __future__ import annotations

import importlib
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3

from ray_multicluster_scheduler import current_scheduler
from ray_multicluster_scheduler import main as prototype_main
from ray_multicluster_scheduler.app.client_api import (
    UnifiedScheduler,
    initialize_actor_scheduler,
    initialize_job_scheduler,
    initialize_scheduler,
    initialize_scheduler_environment,
)
from ray_multicluster_scheduler.app.client_api.submit_job import (
    get_job_info,
    get_job_status,
    stop_job,
    submit_job,
    wait_for_all_jobs,
)
from ray_multicluster_scheduler.common.config import PLANE_DEFAULTS, ExecutionMode, settings
from ray_multicluster_scheduler.common.exception import (
    ConfigurationError,
    NoHealthyClusterError,
    PolicyEvaluationError,
)
from ray_multicluster_scheduler.control_plane.admin_api import AdminAPI
from ray_multicluster_scheduler.control_plane.config import ConfigManager
from support import ports
from support.plane import Plane
from support.pool import Pool
from support.program import environment
from support.prototype import CALLS, METHODS, NAMES, PACKAGE, RESULTS


@pytest.fixture(scope="module")
def lonely(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A control plane above a cluster that does not run: jobs are accepted, and wait."""
    pool = Pool([], {"submission_interval": "25s", "execution_mode": "serial"})
    pool.clusters.append(
        {
            "name": "centos",
            "head_address": f"127.0.0.1:{ports.a_port()}",
            "dashboard": f"http://127.0.0.1:{ports.a_port()}",
            "tags": ["linux"],
            "runtime_env": {"env_vars": {"home_dir": "/home/zorro/"}},
        }
    )
    plane = Plane(tmp_path_factory.mktemp("lonely"), pool)
    try:
        yield plane.start()
    finally:
        plane.close()


@pytest.fixture(autouse=True)
def initialised(lonely: Plane, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("RAY_MULTICLUSTER_ADDRESS", lonely.address)
    scheduler = initialize_scheduler_environment()
    for initialize in (initialize_scheduler, initialize_actor_scheduler, initialize_job_scheduler):
        initialize(scheduler)
    yield
    scheduler.stop()


def test_a_job_that_waits_is_pending_under_its_own_id_and_can_be_stopped() -> None:
    job_id = submit_job("python train.py", submission_id="mine", tags=["tradebot"])
    assert job_id == "mine"
    assert get_job_status("mine") == get_job_status("mine", "centos") == "PENDING"
    assert get_job_info("mine", "centos").tags == ("tradebot",)
    with pytest.raises(TimeoutError):
        wait_for_all_jobs(["mine"], check_interval=1, timeout=0.2)
    assert stop_job("mine", "centos") is True
    assert get_job_status("mine") == "STOPPED"
    with pytest.raises(RuntimeError, match="mine"):
        wait_for_all_jobs(["mine"])


def test_a_cluster_that_does_not_exist_is_refused_at_once() -> None:
    with pytest.raises(ConfigurationError, match="moc"):
        UnifiedScheduler().submit_job("true", preferred_cluster="moc")


@pytest.fixture
def public() -> dict[str, Any]:
    """Every public name of the prototype, as its programs import them."""
    return {
        name: getattr(importlib.import_module(module), name)
        for module, name, *_ in [*CALLS, *NAMES, *METHODS]
        if module != PACKAGE
    }


@pytest.mark.parametrize(("call", "wanted"), RESULTS)
def test_a_call_gives_what_it_gave(
    lonely: Plane, public: dict[str, Any], call: str, wanted: Any
) -> None:
    submit_job("true", submission_id="kept")
    submit_job("true", submission_id="ended")
    assert shape(eval(call, {**public, "path": str(lonely.config)})) == wanted


def shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: shape(one) for key, one in value.items()}
    if isinstance(value, list):
        return [shape(one) for one in value[:1]]
    return type(value).__name__


def test_the_admin_api_tells_of_clusters_health_and_queue() -> None:
    submit_job("true", submission_id="waits")
    admin = AdminAPI()
    centos = admin.get_cluster_status()["centos"]
    assert centos["metadata"].tags == ["linux"]
    assert (centos["snapshot"].node_count, centos["snapshot"].timestamp) == (0, 0)
    assert admin.get_health_status() == {"centos": "UNHEALTHY"}
    queue = admin.get_queue_status()
    assert (queue["queue_size"] > 0, queue["is_empty"]) == (True, False)
    assert (queue["queue_max_size"], queue["is_full"]) == (100000, False)
    assert admin.get_scheduler_stats()["clusters"]["count"] == 1


def test_the_clusters_of_a_configuration_are_told(lonely: Plane) -> None:
    (cluster,) = ConfigManager(str(lonely.config)).get_cluster_configs()
    assert (cluster.name, cluster.prefer, cluster.weight) == ("centos", False, 1.0)
    assert cluster.runtime_env is not None
    assert cluster.runtime_env["env_vars"]["home_dir"] == "/home/zorro/"
    assert UnifiedScheduler().list_clusters() == ["centos"]


def test_a_task_that_may_not_wait_hears_that_no_cluster_is_healthy() -> None:
    with pytest.raises(NoHealthyClusterError, match="centos") as caught:
        current_scheduler().submit_task(lambda: None, timeout=0)
    assert isinstance(caught.value, TimeoutError)
    assert str(caught.value.job_id) in str(caught.value)


def test_what_was_started_reaches_the_control_plane_where_its_cluster_can(lonely: Plane) -> None:
    scheduler = current_scheduler()
    told = scheduler._describe("centos").runtime_env["env_vars"]
    assert told["RAY_MULTICLUSTER_ADDRESS"] == lonely.address
    other = {**lonely.pool["centos"], "name": "far"}
    del other["plane_address"]
    lonely.post("/v1/clusters", other)
    told = scheduler._describe("far").runtime_env["env_vars"]
    lonely.request("DELETE", "/v1/clusters/far")
    assert told["RAY_MULTICLUSTER_CURRENT_CLUSTER"] == "far"
    assert "RAY_MULTICLUSTER_ADDRESS" not in told


def test_a_policy_that_cannot_be_used_is_an_error_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As the control plane reports it, through the client."""
    told = {"code": "bad_policy", "message": "policy mine: no such name", "hint": "correct it"}
    answer = urllib3.HTTPResponse(json.dumps(told).encode(), status=422, preload_content=True)
    plane = current_scheduler().plane
    monkeypatch.setattr(plane._http, "request", lambda *_, **__: answer)
    with pytest.raises(PolicyEvaluationError, match="no such name") as caught:
        plane.request("PUT", "/v1/policies/mine", {})
    assert (caught.value.code, caught.value.hint) == ("bad_policy", "correct it")


def test_the_prototypes_main_blocks_until_it_is_told_to_end(lonely: Plane) -> None:
    running = threading.Thread(target=prototype_main.main, daemon=True)
    running.start()
    running.join(timeout=0.5)
    assert running.is_alive()
    prototype_main.shutdown_scheduler()
    running.join(timeout=10)
    assert not running.is_alive()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_prototypes_main_as_a_program_ends_on_a_signal(
    lonely: Plane, tmp_path: Path, number: signal.Signals
) -> None:
    program = subprocess.Popen(
        [sys.executable, "-m", f"{PACKAGE}.main"],
        env=environment(lonely, tmp_path),
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stderr is not None
    assert lonely.address in program.stderr.readline()
    assert program.poll() is None
    program.send_signal(number)
    assert program.wait(30) == 0
    program.stderr.close()


def test_settings_are_those_in_force() -> None:
    assert settings.SUBMISSION_WAIT_TIME == 25
    assert settings.EXECUTION_MODE is ExecutionMode.SERIAL
    assert settings.RESOURCE_CHECK_INTERVAL == 1


@pytest.mark.parametrize("name", PLANE_DEFAULTS)
def test_the_defaults_are_the_control_planes(lonely: Plane, name: str) -> None:
    from ray_multicluster_scheduler._settings import RENAMED

    proper = RENAMED.get(name.lower(), name.lower())
    told = {setting["name"]: setting["default"] for setting in lonely.get("/v1/settings")["items"]}
    assert told[proper] == PLANE_DEFAULTS[name]


def test_a_setting_that_the_control_plane_does_not_have_is_warned_about(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SCHEDULER_SUBMISSION_WAIT_TIME", "61")
    monkeypatch.setenv("SCHEDULER_CACHE_TIMEOUT", "61")
    initialize_scheduler_environment().stop()
    text = caplog.text
    assert "SCHEDULER_SUBMISSION_WAIT_TIME=61 has no effect" in text
    assert "SCHEDULER_CACHE_TIMEOUT no longer has any effect" in text


def test_the_prototypes_file_is_honoured_by_the_control_plane_that_is_started(
    lonely: Plane, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from ray_multicluster_scheduler._plane import local
    from support.plane import binary

    (tmp_path / ".ray_scheduler").mkdir()
    (tmp_path / ".ray_scheduler/settings.yaml").write_text("TASK_QUEUE_MAX_SIZE: 77\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RAY_MULTICLUSTER_BIN", str(binary()))
    monkeypatch.delenv("RAY_MULTICLUSTER_ADDRESS")
    with initialize_scheduler_environment(lonely.config):
        try:
            assert settings.TASK_QUEUE_MAX_SIZE == 77
        finally:
            started = local.LocalPlane(lonely.config)
            started._end(local.running(started.folder))
