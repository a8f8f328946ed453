"""Which control plane a program gets, and the error when there is none."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from ray_multicluster_scheduler import current_scheduler, initialize_scheduler_environment
from ray_multicluster_scheduler._plane import binary, config
from ray_multicluster_scheduler._plane.attach import attach
from ray_multicluster_scheduler.errors import (
    AccessError,
    ConfigurationError,
    ControlPlaneError,
)
from support import ports
from support.fake_plane import FakePlane
from support.user import User


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No configuration, no program, no address; a home and a working directory, both empty."""
    for name in ("RAY_MULTICLUSTER_ADDRESS", "RAY_MULTICLUSTER_BIN", "CLUSTER_CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("home", "work", "etc"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(config, "SYSTEM_DIRECTORY", tmp_path / "etc")
    monkeypatch.chdir(tmp_path / "work")


def a_file(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("clusters: []\n")
    return path


def test_the_nearest_configuration_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order of crates/config/src/find.rs."""
    etc = a_file(tmp_path / "etc/cluster.yaml")
    assert config.find() == etc
    home = a_file(tmp_path / "home/.ray_scheduler/cluster.yaml")
    assert config.find() == home
    work = a_file(tmp_path / "work/cluster.yaml")
    assert config.find() == work
    named = a_file(tmp_path / "work/named.yaml")
    monkeypatch.setenv("CLUSTER_CONFIG_FILE", "named.yaml")
    assert config.find() == named
    assert config.find(etc) == etc
    assert config.find("~/.ray_scheduler/cluster.yaml") == home


def test_a_configuration_has_one_name_whichever_way_led_to_it(tmp_path: Path) -> None:
    work = a_file(tmp_path / "work/cluster.yaml")
    (tmp_path / "link").symlink_to(tmp_path / "work")
    assert config.find(tmp_path / "link/cluster.yaml") == work
    assert config.find("../work/cluster.yaml") == work
    # A ConfigMap is changed by pointing the file's link elsewhere: still the same pool.
    mounted = tmp_path / "etc/cluster.yaml"
    mounted.symlink_to(work)
    assert config.find(mounted) == mounted


def test_without_a_configuration_it_says_where_it_looked_and_what_to_write(
    tmp_path: Path,
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        attach()
    said = str(raised.value)
    for folder in ("work", "home/.ray_scheduler", "etc"):
        assert f"{tmp_path}/{folder}/cluster.yaml (there is no such file)" in said
    assert "$CLUSTER_CONFIG_FILE (not set)" in said
    assert "dashboard: http://" in said


def test_a_configuration_that_was_named_is_not_replaced_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_file(tmp_path / "work/cluster.yaml")
    with pytest.raises(ConfigurationError, match=r"missing\.yaml: there is no such file"):
        attach("missing.yaml")
    with pytest.raises(ConfigurationError, match="is a directory"):
        attach(tmp_path)
    monkeypatch.setenv("CLUSTER_CONFIG_FILE", "/gone/cluster.yaml")
    with pytest.raises(ConfigurationError, match="CLUSTER_CONFIG_FILE names this file"):
        attach()


def test_without_the_program_it_says_where_it_looked_and_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_file(tmp_path / "work/cluster.yaml")
    with pytest.raises(ControlPlaneError) as raised:
        attach()
    said = str(raised.value)
    assert "ray-multicluster was not found" in said
    assert "install the wheel for this platform" in said
    assert "RAY_MULTICLUSTER_ADDRESS" in said
    assert "/bin/ray-multicluster\n" in said
    monkeypatch.setenv("RAY_MULTICLUSTER_BIN", "/gone/ray-multicluster")
    with pytest.raises(ControlPlaneError, match="/gone/ray-multicluster is not the"):
        attach()


def test_the_package_s_own_script_is_not_taken_for_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would start itself forever."""
    script, program = tmp_path / "scripts/ray-multicluster", tmp_path / "bin/ray-multicluster"
    for path, text in ((script, "from ray_multicluster_scheduler._cli import main"), (program, "")):
        path.parent.mkdir()
        path.write_text(f"#!/usr/bin/env python3\n{text}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:{program.parent}")
    assert binary.find() == program


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("0.1.0", "0.1.1"),
        ("0.9.0", "0.10.0"),
        ("0.2.0-rc.1", "0.2.0"),
        ("0.2.0-rc.2", "0.2.0-rc.10"),
        ("0.2.0-alpha.1", "0.2.0-beta.1"),
        ("0.2.0", "1.0.0-rc.1"),
    ],
)
def test_versions_are_compared_by_number(older: str, newer: str) -> None:
    assert binary.is_older(older, newer)
    assert not binary.is_older(newer, older)
    assert not binary.is_older(older, older)
    assert not binary.is_older(older + "+build", older)


def test_an_address_is_used_whatever_the_configuration(
    elsewhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for given in (elsewhere, elsewhere + "/", elsewhere[len("http://") :]):
        monkeypatch.setenv("RAY_MULTICLUSTER_ADDRESS", given)
        found = attach("missing.yaml")
        assert found is not None
        assert found.address == elsewhere
        assert found.get("/v1/version")["api"] == "v1"


def test_inside_a_job_the_control_plane_is_the_one_it_was_given_or_none(
    elsewhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_MULTICLUSTER_JOB_ID", "nightly")
    monkeypatch.setenv("RAY_MULTICLUSTER_CURRENT_CLUSTER", "mac")
    assert attach() is None
    monkeypatch.setenv("RAY_MULTICLUSTER_ADDRESS", elsewhere)
    found = attach()
    assert found is not None
    assert found.address == elsewhere


def test_an_address_where_nobody_answers_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"http://127.0.0.1:{ports.a_port()}"
    monkeypatch.setenv("RAY_MULTICLUSTER_ADDRESS", address)
    with pytest.raises(ControlPlaneError, match="refused") as raised:
        attach()
    assert f"no control plane answers at {address}" in str(raised.value)
    assert "hint: check that it runs" in str(raised.value)


def test_an_address_of_something_else_is_told(
    monkeypatch: pytest.MonkeyPatch, something_else: str
) -> None:
    monkeypatch.setenv("RAY_MULTICLUSTER_ADDRESS", something_else)
    with pytest.raises(ControlPlaneError, match="is not a control plane") as raised:
        attach()
    assert "not a Ray cluster" in str(raised.value)


@pytest.mark.parametrize("address", ["ray://127.0.0.1:10001", "http://", "ftp://x"])
def test_an_address_that_is_none_is_told(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("RAY_MULTICLUSTER_ADDRESS", address)
    with pytest.raises(ConfigurationError, match="write http://host:port"):
        attach()


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[str]:
    """A control plane of another user."""
    somebody = User(tmp_path / "somebody")
    yield somebody.serve(somebody.config())
    somebody.leave()


@pytest.fixture
def something_else() -> Iterator[str]:
    """A web server of other purpose."""

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>")

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", ports.a_port()), Pages) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_to_be_initialized_again_is_no_change_unless_it_is_another_control_plane(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with FakePlane() as one, FakePlane() as other:
        monkeypatch.setenv("RAY_MULTICLUSTER_ADDRESS", one.address)
        with initialize_scheduler_environment() as first:
            with initialize_scheduler_environment() as again:
                assert again is first
            assert current_scheduler() is first, "only the outermost `with` stops it"
            monkeypatch.setenv("RAY_MULTICLUSTER_ADDRESS", other.address)
            with initialize_scheduler_environment() as second:
                assert second is not first
                assert current_scheduler() is second


def test_a_token_is_shown_to_a_control_plane_that_wants_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with FakePlane() as plane:
        plane.token = "rmc_secret"
        monkeypatch.setenv("RAY_MULTICLUSTER_ADDRESS", plane.address)
        with pytest.raises(AccessError, match="Missing authentication token") as refused:
            attach()
        assert "RAY_MULTICLUSTER_TOKEN" in str(refused.value)
        monkeypatch.setenv("RAY_MULTICLUSTER_TOKEN", "rmc_secret\n")
        found = attach()
        assert found is not None
        assert found.get("/v1/version")["api"] == "v1"


def test_a_token_that_is_none_is_told_and_not_repeated(
    monkeypatch: pytest.MonkeyPatch, elsewhere: str
) -> None:
    monkeypatch.setenv("RAY_MULTICLUSTER_ADDRESS", elsewhere)
    monkeypatch.setenv("RAY_MULTICLUSTER_TOKEN", "rmc_first\nrmc_second")
    with pytest.raises(ConfigurationError, match="RAY_MULTICLUSTER_TOKEN") as told:
        attach()
    assert "rmc_first" not in str(told.value)
