"""Each of the prototype's settings is honoured, or its user gets a warning."""

from __future__ import annotations

from dataclasses import Field, fields
from pathlib import Path

import pytest

from ray_multicluster_scheduler import _settings
from ray_multicluster_scheduler.errors import ConfigurationError
from support.plane import REPOSITORY

# The prototype's list, with its defaults.
PROTOTYPE = {
    "EXECUTION_MODE": "serial",
    "SUBMISSION_WAIT_TIME": 60,
    "RESOURCE_THRESHOLD": 0.7,
    "RESOURCE_CHECK_INTERVAL": 5,
    "JOB_COMPLETION_TIMEOUT": 600,
    "TASK_COMPLETION_TIMEOUT": 600,
    "ACTOR_READY_TIMEOUT": 300,
    "DEFAULT_TASK_TIMEOUT": 300,
    "CONNECTION_TIMEOUT": 300,
    "JOB_CLIENT_TIMEOUT": 300,
    "JOB_STATUS_CHECK_INTERVAL": 15,
    "HEALTH_CHECK_INTERVAL": 30,
    "CACHE_TIMEOUT": 5,
    "TASK_QUEUE_MAX_SIZE": 1000,
    "CIRCUIT_BREAKER_FAILURE_THRESHOLD": 5,
    "CIRCUIT_BREAKER_RECOVERY_TIMEOUT": 60,
    "RETRY_SLEEP": 0.5,
    "BACKOFF_TIME": 30,
    "CLUSTER_WEIGHT_DEFAULT": 1.0,
}
SDK = {"ACTOR_READY_TIMEOUT"}
GONE = {name.upper() for name in _settings.RETIRED}
PLANE = set(PROTOTYPE) - SDK - GONE

# The answer of a control plane to GET /v1/settings, shortened.
IN_FORCE = [
    {"name": "submission_interval", "value": "40s"},
    {"name": "resource_threshold", "value": "0.7"},
    {"name": "execution_mode", "value": "parallel"},
    {"name": "max_queue", "value": "100000"},
]


@pytest.mark.parametrize("name", sorted(SDK))
def test_a_setting_of_the_sdk_is_honoured(name: str) -> None:
    read = _settings.read({f"SCHEDULER_{name}": "2m"})
    assert getattr(read, name.lower()) == 120


@pytest.mark.parametrize("name", sorted(PLANE))
def test_a_setting_of_the_control_plane_reaches_the_one_that_is_started(name: str) -> None:
    given = {f"SCHEDULER_{name}": "7"}
    assert _settings.plane_environment(given) == given


@pytest.mark.parametrize("name", sorted(GONE))
def test_a_setting_that_is_gone_is_warned_about_and_kept_from_the_control_plane(name: str) -> None:
    given = {f"SCHEDULER_{name}": "7"}
    (line,) = _settings.notices(given)
    assert line.startswith(f"SCHEDULER_{name} no longer has any effect; hint: ")
    assert _settings.plane_environment(given) == {}


def test_a_setting_that_the_running_control_plane_does_not_have_is_warned_about() -> None:
    (line,) = _settings.notices({"SCHEDULER_SUBMISSION_WAIT_TIME": "60"}, IN_FORCE)
    assert "SCHEDULER_SUBMISSION_WAIT_TIME=60 has no effect" in line
    assert "submission_interval 40s" in line


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("SUBMISSION_WAIT_TIME", "40"),
        ("SUBMISSION_INTERVAL", "40000ms"),
        ("RESOURCE_THRESHOLD", "70%"),
        ("EXECUTION_MODE", "parallel"),
        ("SOMEBODY_ELSES", "x"),
    ],
)
def test_what_is_in_force_and_what_is_not_ours_is_not_warned_about(name: str, text: str) -> None:
    assert _settings.notices({f"SCHEDULER_{name}": text}, IN_FORCE) == []


def test_the_prototypes_file_counts_where_the_environment_says_nothing(tmp_path: Path) -> None:
    file = _settings.settings_file(tmp_path)
    file.parent.mkdir()
    file.write_text(
        "---\n# ours\nSUBMISSION_WAIT_TIME: 60  # a minute\n"
        'EXECUTION_MODE: "serial"\ncall_timeout: 20\n\nACTOR_READY_TIMEOUT: 100\n'
    )
    given = _settings.given({"SCHEDULER_ACTOR_READY_TIMEOUT": "5", "HOME": "x"}, tmp_path)
    assert given == {
        "SCHEDULER_SUBMISSION_WAIT_TIME": "60",
        "SCHEDULER_EXECUTION_MODE": "serial",
        "SCHEDULER_CALL_TIMEOUT": "20",
        "SCHEDULER_ACTOR_READY_TIMEOUT": "5",
    }
    assert _settings.read(given).call_timeout == 20
    assert set(_settings.plane_environment(given)) == {
        "SCHEDULER_SUBMISSION_WAIT_TIME",
        "SCHEDULER_EXECUTION_MODE",
    }


def test_a_line_of_the_file_that_is_no_setting_is_warned_about_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = _settings.settings_file(tmp_path)
    file.parent.mkdir()
    file.write_text("BACKOFF_TIME: 30\n  nested: [1]\n")
    for _ in range(2):
        assert _settings.given({}, tmp_path) == {"SCHEDULER_BACKOFF_TIME": "30"}
    (record,) = caplog.records
    assert f"{file}:2 is not a setting" in record.message


@pytest.mark.parametrize("text", ["soon", "", "-1", "0", "1 week"])
def test_a_value_that_cannot_be_used_is_an_error_that_names_the_variable(text: str) -> None:
    with pytest.raises(ConfigurationError, match="SCHEDULER_CALL_TIMEOUT"):
        _settings.read({"SCHEDULER_CALL_TIMEOUT": text})


def test_the_setting_replaces_the_default_of_submit_actor_but_not_what_a_caller_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SCHEDULER_ACTOR_READY_TIMEOUT", "20")
    _settings.settings.cache_clear()
    try:
        assert _settings.actor_timeout(_settings.ACTOR_READY_TIMEOUT) == 20
        assert _settings.actor_timeout(300) == 300
        assert _settings.actor_timeout(None) is None
    finally:
        _settings.settings.cache_clear()


@pytest.mark.parametrize("setting", fields(_settings.Settings), ids=lambda setting: setting.name)
def test_the_guide_has_each_setting_as_it_is_declared(setting: Field[float]) -> None:
    name, meaning = _settings.variable(setting.name), setting.metadata["meaning"]
    row = f"| `{name}` | {setting.default:g} | {meaning} |"
    assert row in (REPOSITORY / "docs/sdk.md").read_text().splitlines()


@pytest.mark.parametrize("name", PROTOTYPE)
def test_the_guide_says_what_became_of_each(name: str) -> None:
    rows = (REPOSITORY / "docs/sdk.md").read_text().partition("Its settings, as")[2].splitlines()
    assert any(f"`{name}`" in row for row in rows)


@pytest.mark.parametrize("name", PROTOTYPE)
def test_each_can_be_read(name: str) -> None:
    from ray_multicluster_scheduler.common.config import settings

    assert name in dir(settings)
    assert getattr(settings, name) is not None
