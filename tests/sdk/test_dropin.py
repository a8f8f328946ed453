"""The earlier prototype's import paths, names, parameters and defaults, without any Ray."""

from __future__ import annotations

import importlib
import inspect
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ray_multicluster_scheduler import Submission, _scheduler, errors
from support.plane import REPOSITORY

PACKAGE = "ray_multicluster_scheduler"
API = f"{PACKAGE}.app.client_api"

JOB = (
    "entrypoint, runtime_env=None, job_id=None, metadata=None, submission_id=None, "
    "preferred_cluster=None, resource_requirements=None, tags=None"
)
TASK = (
    "func, args=(), kwargs=None, resource_requirements=None, tags=None, name='', "
    "preferred_cluster=None"
)
ACTOR_ASYNC = TASK.replace("func", "actor_class")
ACTOR = ACTOR_ASYNC + ", timeout=300"
WAIT = "submission_ids, check_interval=5, timeout=None"
CONTEXT = [("get_current_cluster_context", ""), ("set_current_cluster_context", "cluster_name")]

# Where, what, and with which parameters.
CALLS = [
    (API, "initialize_scheduler", "lifecycle_manager"),
    (API, "initialize_actor_scheduler", "lifecycle_manager"),
    (API, "initialize_job_scheduler", "lifecycle_manager"),
    (API, "submit_task", TASK),
    (API, "submit_actor", ACTOR),
    (API, "submit_job", JOB),
    (API, "get_job_status", "submission_id, cluster_name=None"),
    (API, "wait_for_all_jobs", WAIT),
    (API, "stop_job", "submission_id, cluster_name"),
    (API, "graceful_shutdown_on_keyboard_interrupt", None),
    (API, "UnifiedScheduler", ""),
    (API, "get_unified_scheduler", ""),
    (API, "initialize_scheduler_environment", "config_file_path=None"),
    (API, "unified_submit_task", TASK),
    (API, "unified_submit_actor", ACTOR),
    (f"{API}.submit_job", "submit_job", JOB),
    (f"{API}.submit_job", "initialize_job_scheduler", "lifecycle_manager"),
    (f"{API}.submit_job", "get_job_status", "submission_id, cluster_name=None"),
    (f"{API}.submit_job", "get_job_info", "submission_id, cluster_name"),
    (f"{API}.submit_job", "stop_job", "submission_id, cluster_name"),
    (f"{API}.submit_job", "wait_for_all_jobs", WAIT),
    (f"{API}.submit_task", "submit_task", TASK),
    (f"{API}.submit_task", "initialize_scheduler", "lifecycle_manager"),
    (f"{API}.submit_task", "get_task_result", "task_id"),
    (f"{API}.submit_task", "get_task_status", "task_id"),
    *((f"{API}.submit_task", *call) for call in CONTEXT),
    (f"{API}.submit_actor", "submit_actor", ACTOR),
    (f"{API}.submit_actor", "submit_actor_async", ACTOR_ASYNC),
    (f"{API}.submit_actor", "initialize_actor_scheduler", "lifecycle_manager"),
    (f"{API}.submit_actor", "get_actor_result", "actor_id"),
    (f"{API}.submit_actor", "get_actor_status", "actor_id"),
    *((f"{API}.submit_actor", *call) for call in CONTEXT),
    (f"{API}.unified_scheduler", "UnifiedScheduler", ""),
    (f"{API}.unified_scheduler", "get_unified_scheduler", ""),
    (f"{API}.unified_scheduler", "initialize_scheduler_environment", "config_file_path=None"),
    (f"{PACKAGE}.control_plane.config", "ConfigManager", "config_file_path"),
    (f"{PACKAGE}.control_plane.admin_api", "AdminAPI", ""),
]

METHODS = [
    (
        f"{API}.unified_scheduler",
        "UnifiedScheduler",
        "initialize_environment",
        "config_file_path=None",
    ),
    (f"{API}.unified_scheduler", "UnifiedScheduler", "submit_task", TASK),
    (f"{API}.unified_scheduler", "UnifiedScheduler", "submit_job", JOB),
    (f"{API}.unified_scheduler", "UnifiedScheduler", "submit_actor", ACTOR),
    (f"{API}.unified_scheduler", "UnifiedScheduler", "list_clusters", ""),
    (f"{API}.unified_scheduler", "UnifiedScheduler", "cleanup", ""),
    (PACKAGE, "Scheduler", "start", ""),
    (PACKAGE, "Scheduler", "stop", ""),
    (PACKAGE, "Scheduler", "submit_task", TASK),
    (PACKAGE, "Scheduler", "submit_job", JOB),
    (
        f"{PACKAGE}.common.context_manager",
        "ClusterContextManager",
        "set_current_cluster",
        "cluster_name",
    ),
    (f"{PACKAGE}.common.context_manager", "ClusterContextManager", "get_current_cluster", ""),
    (f"{PACKAGE}.common.context_manager", "ClusterContextManager", "clear_current_cluster", ""),
    *(
        (f"{PACKAGE}.control_plane.admin_api", "AdminAPI", f"get_{what}", "")
        for what in ("cluster_status", "queue_status", "health_status", "scheduler_stats")
    ),
]


@pytest.mark.parametrize(("module", "name", "wanted"), CALLS)
def test_a_call_has_the_parameters_and_defaults_it_had(
    module: str, name: str, wanted: str | None
) -> None:
    call = getattr(importlib.import_module(module), name)
    assert callable(call)
    if wanted is not None:
        assert_takes(call, wanted)


@pytest.mark.parametrize(("module", "kind", "name", "wanted"), METHODS)
def test_a_method_has_the_parameters_and_defaults_it_had(
    module: str, kind: str, name: str, wanted: str
) -> None:
    method = inspect.getattr_static(getattr(importlib.import_module(module), kind), name)
    if isinstance(method, staticmethod):
        assert_takes(method.__func__, wanted)
    else:
        assert_takes(method, f"self, {wanted}".rstrip(", "))


@pytest.mark.parametrize("name", [name for module, name, _ in CALLS if module == API])
def test_the_packages_star_import_brings_each_name(name: str) -> None:
    assert name in importlib.import_module(API).__all__


@pytest.mark.parametrize(
    "program",
    [
        "from {api} import submit_job as a; from {api}.submit_job import submit_job as b",
        "from {api}.submit_job import submit_job as a; from {api} import submit_job as b",
        "import {api}.submit_job as m; a = m; b = m.submit_job; m.wait_for_all_jobs",
        "import {api}; a = {api}.submit_job; b = {api}.submit_job.submit_job",
        "from {api} import submit_job as m; a = m; b = m.submit_job; m.get_job_info",
        "import {api}.submit_task as m; a = m; b = m.submit_task; m.get_task_result",
        "import {api}.submit_actor as m; a = m; b = m.submit_actor; m.get_actor_status",
    ],
)
def test_a_submodule_and_its_function_are_found_in_any_order_of_import(program: str) -> None:
    """In a program of its own, because the first import decides."""
    check = "; assert a is b and callable(a); import sys; assert 'ray' not in sys.modules"
    run = [sys.executable, "-c", program.format(api=API) + check]
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY / "python")}
    done = subprocess.run(run, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_the_functions_are_real_ones_that_other_processes_find() -> None:
    from ray_multicluster_scheduler.app.client_api import submit_job

    assert inspect.isfunction(submit_job)
    assert pickle.loads(pickle.dumps(submit_job)) is submit_job


@pytest.mark.parametrize(
    "name",
    [
        "NoHealthyClusterError",
        "TaskSubmissionError",
        "PolicyEvaluationError",
        "ClusterConnectionError",
        "ConfigurationError",
    ],
)
def test_the_errors_are_the_same_classes(name: str) -> None:
    exception = importlib.import_module(f"{PACKAGE}.common.exception")
    assert getattr(exception, name) is getattr(errors, name)
    assert issubclass(getattr(exception, name), exception.SchedulerError)


def test_the_cluster_of_a_thread_is_its_own() -> None:
    from ray_multicluster_scheduler.app.client_api.submit_actor import get_current_cluster_context
    from ray_multicluster_scheduler.app.client_api.submit_task import set_current_cluster_context
    from ray_multicluster_scheduler.common.context_manager import ClusterContextManager

    seen: list[str | None] = []
    ClusterContextManager.set_current_cluster("mac")
    try:
        other = threading.Thread(target=lambda: seen.append(get_current_cluster_context()))
        other.start()
        other.join()
        assert seen == [None]
        assert get_current_cluster_context() == "mac"
        set_current_cluster_context("centos")
        assert ClusterContextManager().get_current_cluster() == "centos"
    finally:
        ClusterContextManager.clear_current_cluster()
    assert ClusterContextManager.get_current_cluster() is None


class Recorder:
    """Stands in for the scheduler: remembers what it was asked, answers with the name of it."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple]] = []

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any) -> str:
            self.calls.append((name, args))
            return name

        return call


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    recorder = Recorder()
    monkeypatch.setattr(_scheduler, "_current", recorder)
    return recorder


def work() -> None:
    """Something to submit."""


# Arguments in the order that they are given, and handed on.
GIVEN_JOB = ("true", {"pip": []}, "j", {"k": "v"}, "s", "mac", {"CPU": 1}, ["x"])
GIVEN_TASK = (work, (1,), {"b": 2}, {"CPU": 1}, ["x"], "n", "mac")


@pytest.mark.parametrize(
    ("module", "name", "given", "handed_on"),
    [
        ("submit_job", "submit_job", GIVEN_JOB, GIVEN_JOB),
        ("submit_job", "get_job_status", ("a", "mac"), ("a", "mac")),
        ("submit_job", "get_job_info", ("a", "mac"), ("a", "mac")),
        ("submit_job", "stop_job", ("a", "mac"), ("a", "mac")),
        ("submit_job", "wait_for_all_jobs", (["a", "b"], 1, 9), (["a", "b"], 1, 9)),
        ("submit_task", "submit_task", GIVEN_TASK, GIVEN_TASK),
        ("submit_task", "get_task_result", ("t",), ("t",)),
        ("submit_task", "get_task_status", ("t",), ("t",)),
        ("submit_actor", "submit_actor", (*GIVEN_TASK, 7), (*GIVEN_TASK, 7)),
        ("submit_actor", "get_actor_status", ("a",), ("a",)),
    ],
)
def test_a_call_goes_to_this_programs_scheduler_whole(
    recorder: Recorder, module: str, name: str, given: tuple, handed_on: tuple
) -> None:
    answer = getattr(importlib.import_module(f"{API}.{module}"), name)(*given)
    assert recorder.calls == [(name, handed_on)]
    assert answer == name


def test_the_result_of_an_actor_is_its_handle(recorder: Recorder) -> None:
    from ray_multicluster_scheduler.app.client_api.submit_actor import get_actor_result

    assert get_actor_result("a") == "get_actor_handle"


def test_an_actor_submitted_without_waiting_is_a_future_that_unpacks(recorder: Recorder) -> None:
    from ray_multicluster_scheduler.app.client_api.submit_actor import submit_actor_async

    assert submit_actor_async(*GIVEN_TASK) == "submit_actor_async"
    assert recorder.calls == [("submit_actor_async", GIVEN_TASK)]
    future = Submission("actor-1")
    future.set_result(("actor-1", "a handle"))
    id, handle = future
    assert (id, handle) == ("actor-1", "a handle")


@pytest.mark.parametrize("what", ["scheduler", "actor_scheduler", "job_scheduler"])
def test_what_is_initialised_with_a_scheduler_uses_it(recorder: Recorder, what: str) -> None:
    api = importlib.import_module(API)
    other = Recorder()
    getattr(api, f"initialize_{what}")(other)
    api.submit_job("true")
    assert (len(other.calls), len(recorder.calls)) == (1, 0)


def test_the_unified_scheduler_is_this_programs_scheduler(recorder: Recorder) -> None:
    from ray_multicluster_scheduler.app.client_api import (
        get_unified_scheduler,
        unified_submit_actor,
        unified_submit_task,
    )

    unified = get_unified_scheduler()
    assert unified is get_unified_scheduler()
    assert unified.submit_job("true") == "submit_job"
    assert unified.submit_task(work) == unified_submit_task(work) == "submit_task"
    assert unified.submit_actor(Recorder) == unified_submit_actor(Recorder) == "submit_actor"
    assert unified.list_clusters() == "list_clusters"
    unified.cleanup()
    assert recorder.calls[-1] == ("stop", ())


def test_a_settings_object_shows_defaults_and_what_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray_multicluster_scheduler.common.config import ExecutionMode, settings

    monkeypatch.setattr(_scheduler, "_current", None)
    monkeypatch.setenv("SCHEDULER_JOB_COMPLETION_TIMEOUT", "900")
    monkeypatch.setenv("SCHEDULER_SUBMISSION_WAIT_TIME", "1m")
    monkeypatch.setenv("SCHEDULER_EXECUTION_MODE", "serial")
    assert settings.EXECUTION_MODE is ExecutionMode.SERIAL
    assert settings.SUBMISSION_WAIT_TIME == 60
    assert settings.JOB_COMPLETION_TIMEOUT == 900
    assert settings.RETRY_SLEEP == 0.5
    assert settings.RESOURCE_THRESHOLD == 0.7
    assert settings.ACTOR_READY_TIMEOUT == 300
    with pytest.raises(AttributeError, match="NO_SUCH"):
        _ = settings.NO_SUCH


def assert_takes(call: Any, wanted: str) -> None:
    """These parameters in this order, with these defaults. More may follow, by keyword only; and
    what had to be given may have become optional."""
    expected = list(signature(wanted).parameters.values())
    actual = [
        parameter
        for parameter in inspect.signature(call).parameters.values()
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    assert [p.name for p in actual][: len(expected)] == [p.name for p in expected]
    for has, had in zip(actual, expected):
        assert had.default in (inspect.Parameter.empty, has.default), has
    for more in actual[len(expected) :]:
        assert more.default is not inspect.Parameter.empty, more


def signature(text: str) -> inspect.Signature:
    scope: dict[str, Any] = {}
    exec(f"def made({text}): ...", scope)
    return inspect.signature(scope["made"])
