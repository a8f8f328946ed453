"""The user's own control plane: started once, shared, found again, replaced by a newer one."""

from __future__ import annotations

import json
import logging
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from ray_multicluster_scheduler import _settings
from ray_multicluster_scheduler._plane import local
from ray_multicluster_scheduler._plane.attach import attach
from ray_multicluster_scheduler._plane.client import ControlPlane
from ray_multicluster_scheduler.errors import AccessError, ConfigurationError, ControlPlaneError
from support.jobs import unique_id
from support.plane import binary
from support.user import User
from support.waiting import wait_until

# Attaches, submits if asked to, prints the address, and stays until it is ended.
PROGRAM = """
import sys, time
from ray_multicluster_scheduler._plane.attach import attach
plane = attach(sys.argv[1])
if len(sys.argv) > 2:
    plane.post("/v1/jobs", {"id": sys.argv[2], "entrypoint": "true"})
print(plane.address, flush=True)
time.sleep(300)
"""

# Looks like an old control plane.
OLD_PLANE = """
import http.server, json, os, sys
folder = sys.argv[sys.argv.index("--state-dir") + 1]
config = sys.argv[sys.argv.index("--config") + 1]

class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"version": "0.0.1", "plane": "old"}).encode())

server = http.server.HTTPServer(("127.0.0.1", 0), Answers)
notice = {"address": f"http://127.0.0.1:{server.server_port}", "pid": os.getpid()}
with open(folder + "/plane.json", "w") as file:
    json.dump({**notice, "version": "0.0.1", "config": config}, file)
server.serve_forever()
"""


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[User]:
    """This process acts as a program of this user."""
    user = User(tmp_path)
    for name in list(os.environ):
        if name not in user.environment:
            monkeypatch.delenv(name)
    for name, value in user.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(user.home)
    yield user
    user.leave()


def attached(file: Path) -> ControlPlane:
    plane = attach(file)
    assert plane is not None
    return plane


def queue_a_job(plane: ControlPlane) -> str:
    job = unique_id("job")
    plane.post("/v1/jobs", {"id": job, "entrypoint": "true"})
    return job


def state_of(plane: ControlPlane, job: str) -> str:
    return plane.get(f"/v1/jobs/{job}")["state"]


def test_eight_programs_at_once_start_one_control_plane(user: User) -> None:
    file = user.config()
    programs = [user.program(PROGRAM, file) for _ in range(8)]
    addresses = {program.stdout.readline().strip() for program in programs if program.stdout}
    assert len(addresses) == 1, [p.stderr.read() for p in programs if p.poll() and p.stderr]
    (pid,) = user.planes()
    assert {str(user.notice(pid)["address"])} == addresses
    assert attached(file).address in addresses
    log = (user.state(pid) / "plane.log").read_text()
    assert log.count("is ready at") == 1, "no other was ever tried"


def test_it_has_a_folder_of_its_own_and_nothing_of_the_program(user: User) -> None:
    attached(user.config())
    (pid,) = user.planes()
    folder = user.state(pid)
    assert folder.parent == user.home / ".ray_scheduler/planes"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    assert os.getsid(pid) == pid, "Ctrl-C and the end of a terminal do not reach it"
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    assert os.readlink(f"/proc/{pid}/fd/0") == "/dev/null"
    assert os.readlink(f"/proc/{pid}/fd/1") == str(folder / "plane.log")


def test_other_users_of_the_machine_get_nothing(user: User) -> None:
    plane = attached(user.config())
    (pid,) = user.planes()
    for path in ("/v1/clusters/pool/connection", "/v1/clusters", "/v1/jobs", "/api/jobs/"):
        assert requests.get(plane.address + path, timeout=10).status_code == 401, path
    put = requests.put(plane.address + "/v1/clusters/pool", json={}, timeout=10)
    assert put.status_code == 401
    token = user.state(pid) / "own-token"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    secret = token.read_text().strip()
    assert secret not in (user.state(pid) / "plane.log").read_text()
    assert secret not in Path(f"/proc/{pid}/cmdline").read_text()


def test_commands_of_the_same_user_find_its_token(user: User) -> None:
    file = user.config()
    attached(file)
    for more in ({}, {"RAY_MULTICLUSTER_TOKEN": "of-another-control-plane"}):
        done = subprocess.run(
            [binary(), "clusters", "--output", "json"],
            env={**user.environment, **more},
            cwd=file.parent,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert '"pool"' in done.stdout


def test_its_token_is_kept_over_a_restart_and_replaced_once_revoked(user: User) -> None:
    plane = attached(user.config())
    (pid,) = user.planes()
    folder = user.state(pid)
    first = (folder / "own-token").read_text()
    job = queue_a_job(plane)
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not user.planes(), "it is gone")
    assert state_of(plane, job) == "queued"
    assert (folder / "own-token").read_text() == first
    (pid,) = user.planes()
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not user.planes(), "it is gone")
    (folder / "tokens.json").unlink()
    assert state_of(plane, job) == "queued", "the program got the new token, too"
    assert (folder / "own-token").read_text() != first


def test_a_folder_of_another_user_is_not_used(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    file = user.config()
    attached(file)
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    with pytest.raises(ControlPlaneError, match="belongs to another user"):
        attach(file)


def test_it_outlives_the_program_and_keeps_its_jobs(user: User) -> None:
    file, job = user.config(), unique_id("job")
    program = user.program(PROGRAM, file, job)
    assert program.stdout is not None
    address = program.stdout.readline().strip()
    # Ctrl-C goes to every process that the program started in its terminal.
    os.killpg(program.pid, signal.SIGINT)
    program.wait(30)
    killed = user.program(PROGRAM, file)
    assert killed.stdout is not None
    assert killed.stdout.readline().strip() == address
    killed.kill()
    killed.wait(30)
    later = attached(file)
    assert later.address == address
    assert state_of(later, job) == "queued"


def test_after_it_ended_idle_the_next_request_starts_it_again(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_MULTICLUSTER_EXIT_WHEN_IDLE", "1s")
    plane = attached(user.config())
    first, name = plane.address, plane.get("/v1/version")["plane"]
    wait_until(lambda: not user.planes(), "it ended", timeout=30)
    assert plane.get("/v1/version")["plane"] == name, "the same state"
    assert plane.address != first


def test_after_it_was_killed_the_next_request_starts_it_again_and_jobs_are_there(
    user: User,
) -> None:
    plane = attached(user.config())
    job = queue_a_job(plane)
    (pid,) = user.planes()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "it is gone")
    assert state_of(plane, job) == "queued"
    (again,) = user.planes()
    assert again != pid


def test_two_configurations_have_two_control_planes(user: User) -> None:
    one, other = attached(user.config("one")), attached(user.config("other"))
    assert one.address != other.address
    job = queue_a_job(one)
    assert other.get("/v1/jobs")["items"] == []
    # Through another path to the first file, the first control plane again.
    (user.home / "link").symlink_to(user.home / "one")
    same = attached(user.home / "link/cluster.yaml")
    assert same.address == one.address
    assert state_of(same, job) == "queued"
    assert len(user.planes()) == 2


def test_an_older_one_is_replaced_and_a_newer_one_is_not(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = user.config()
    plane = attached(file)
    job = queue_a_job(plane)
    (pid,) = user.planes()

    use(monkeypatch, a_program(user, "0.0.1"))
    assert attached(file).address == plane.address, "never back to an older one"

    use(monkeypatch, a_program(user, "99.0.0"))
    newer = attached(file)
    (replaced,) = user.planes()
    assert replaced != pid
    assert user.notice(replaced)["address"] == newer.address
    # The earlier program finds it too, with all its jobs.
    use(monkeypatch, Path(user.environment["RAY_MULTICLUSTER_BIN"]))
    assert state_of(plane, job) == "queued"
    assert plane.address == newer.address


def test_eight_newer_programs_at_once_replace_an_older_one_once(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, script = user.config(), user.home / "old.py"
    script.write_text(OLD_PLANE)
    use(monkeypatch, a_program(user, "0.0.1", serves=f'exec {sys.executable} {script} "$@"'))
    old = attached(file)
    (pid,) = user.planes()
    programs = [user.program(PROGRAM, file) for _ in range(8)]
    addresses = {program.stdout.readline().strip() for program in programs if program.stdout}
    assert len(addresses) == 1
    (replaced,) = user.planes()
    assert replaced != pid
    assert addresses == {str(user.notice(replaced)["address"])} != {old.address}
    log = (user.state(replaced) / "plane.log").read_text()
    assert log.count("is ready at") == 1


def test_an_older_one_will_do_where_there_is_no_program(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = user.config()
    plane = attached(file)
    use(monkeypatch, user.home / "gone")
    assert attached(file).address == plane.address


def test_one_that_is_served_by_hand_is_used_for_its_file(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = user.config()
    address = user.serve(file.relative_to(user.home))
    assert attached(file).address == address
    assert len(user.planes()) == 1
    assert attached(user.config("other")).address != address
    assert len(user.planes()) == 2
    # It is the user's own, so the SDK may update it.
    monkeypatch.setattr(local, "__version__", "99.0.0")
    with pytest.warns(UserWarning, match=f"the control plane at {address} .* restart it"):
        assert attached(file).address == address


def test_one_that_cannot_be_trusted_gets_no_other_beside_it(user: User) -> None:
    file = user.config()
    address = user.serve(file.relative_to(user.home))
    notice = user.home / ".ray_scheduler/state/plane.json"
    # It does not serve TLS; an unknown certificate fails in the same way.
    notice.write_text(notice.read_text().replace("http://", "https://"))
    with pytest.raises(AccessError, match="cannot trust the server") as refused:
        attach(file)
    assert "RAY_MULTICLUSTER_CA_FILE" in str(refused.value)
    assert len(user.planes()) == 1
    # A program with another configuration is not affected.
    assert attached(user.config("other")).address != address


def test_the_one_that_holds_the_folder_is_waited_for(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be exiting; or another program that does not know our lock may be starting it."""
    file = user.config()
    plane = attached(file)
    (pid,) = user.planes()
    notice, hidden = user.state(pid) / "plane.json", user.home / "hidden.json"
    notice.rename(hidden)
    threading.Timer(1.0, lambda: hidden.rename(notice)).start()
    assert attached(file).address == plane.address

    notice.rename(hidden)
    monkeypatch.setattr(local, "STOP_TIMEOUT", 1.0)
    with pytest.raises(ControlPlaneError, match="is in use by another control plane"):
        attached(file)
    hidden.rename(notice)
    assert user.planes() == [pid], "what could not start has ended"


def test_a_stranger_at_its_address_is_not_taken_for_it(user: User) -> None:
    """A killed one leaves its plane.json; another control plane may get its port."""
    one, other = user.config("one"), user.config("other")
    plane = attached(one)
    (pid,) = user.planes()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "it is gone")
    stranger = attached(other)
    notice = local.LocalPlane(one).folder / "plane.json"
    left = json.loads(notice.read_text())
    notice.write_text(json.dumps({**left, "address": stranger.address}))
    again = attached(one)
    assert again.address not in (plane.address, stranger.address)


def test_a_wrong_configuration_is_told_with_line_and_hint(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = user.config()
    right = file.read_text()
    file.write_text(right.replace("dashboard: http://", "dashboard: "))
    with pytest.raises(ConfigurationError) as raised:
        attach(file)
    said = str(raised.value)
    assert said.startswith(f"{file}:4:16: dashboard")
    assert "^^^^" in said
    assert "hint: write http://127.0.0.1" in said
    assert user.planes() == []

    file.write_text(right)
    monkeypatch.setenv("SCHEDULER_RESOURCE_THRESHOLD", "plenty")
    with pytest.raises(ConfigurationError, match="SCHEDULER_RESOURCE_THRESHOLD"):
        attach(file)


def test_a_program_that_fails_is_told_with_what_it_said(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, a_program(user, "1.0.0", serves="echo the disk is on fire >&2; exit 3"))
    with pytest.raises(ControlPlaneError, match=r"exit code 3") as raised:
        attach(user.config())
    assert "    the disk is on fire" in str(raised.value)
    assert "plane.log" in str(raised.value)


def test_a_program_that_is_none_is_told(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    program = user.home / "ray-multicluster"
    program.write_bytes(b"\x7fELF of another world")
    program.chmod(0o755)
    use(monkeypatch, program)
    with pytest.raises(ControlPlaneError, match="Exec format error") as raised:
        attach(user.config())
    assert "is it built for this platform?" in str(raised.value)


def test_a_program_that_never_gets_ready_is_not_waited_for_for_ever(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "START_TIMEOUT", 1.0)
    use(monkeypatch, a_program(user, "1.0.0", serves="echo thinking; exec sleep 300"))
    with pytest.raises(ControlPlaneError, match=r"not ready after 1 s[^$]*thinking"):
        attach(user.config())


def test_a_folder_that_cannot_be_made_is_told(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    file = user.config()
    monkeypatch.setenv("RAY_MULTICLUSTER_PLANES_DIR", str(file))
    with pytest.raises(ControlPlaneError, match="set RAY_MULTICLUSTER_PLANES_DIR to a folder"):
        attach(file)


def test_a_long_log_is_put_aside_at_the_start(user: User) -> None:
    file = user.config()
    log = local.LocalPlane(file).log
    log.parent.mkdir(parents=True)
    log.write_text("of old\n" * local.LOG_LIMIT)
    attached(file)
    assert "is ready at" in log.read_text()
    assert log.stat().st_size < 10_000
    assert log.with_name("plane.log.1").stat().st_size > local.LOG_LIMIT


def test_settings_of_the_first_program_are_in_force_and_the_next_one_is_told(
    user: User, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One control plane, one clock: a later program cannot change it for all the others."""
    _settings._say_once.cache_clear()
    file = user.config()
    monkeypatch.setenv("SCHEDULER_SUBMISSION_WAIT_TIME", "7")
    with caplog.at_level(logging.WARNING, "ray_multicluster_scheduler"):
        plane = attached(file)
        in_force = {item["name"]: item["value"] for item in plane.get("/v1/settings")["items"]}
        assert in_force["submission_interval"] == "7s"
        assert caplog.messages == []
        monkeypatch.setenv("SCHEDULER_SUBMISSION_WAIT_TIME", "8")
        attached(file)
    (line,) = caplog.messages
    assert line.startswith("SCHEDULER_SUBMISSION_WAIT_TIME=8 has no effect")


def use(monkeypatch: pytest.MonkeyPatch, program: Path) -> None:
    monkeypatch.setenv("RAY_MULTICLUSTER_BIN", str(program))


def a_program(user: User, version: str, serves: str = f'exec {binary()} "$@"') -> Path:
    """The program, reporting that version."""
    path = user.home / f"ray-multicluster-{version}"
    says = f"echo ray-multicluster {version}"
    path.write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then {says}; else {serves}; fi\n')
    path.chmod(0o755)
    return path
