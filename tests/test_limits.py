"""Hostile and clumsy clients: a good one is still served, and afterwards all is as before."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from support import raw, tokens
from support.plane import Plane, binary, lonely
from support.waiting import PATIENCE, wait_until

#: A good client is answered within this time.
PROMPTLY = 3 * PATIENCE


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Plane]:
    plane = lonely(tmp_path, submit_rate="20/s").start()
    yield plane
    plane.close()


def descriptors(plane: Plane) -> int:
    return len(os.listdir(f"/proc/{plane.pid}/fd"))


def threads(plane: Plane) -> int:
    return len(os.listdir(f"/proc/{plane.pid}/task"))


def cpu_seconds(plane: Plane) -> float:
    fields = Path(f"/proc/{plane.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def head(method: str, path: str, token: str, *more: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {token}"]
    return "\r\n".join([*lines, *more, "", ""]).encode()


class Flood(threading.Thread):
    """Submits as fast as it can, several at a time."""

    AT_A_TIME = 20

    def __init__(self, plane: Plane, token: str) -> None:
        super().__init__(daemon=True)
        self.answers: list[requests.Response] = []
        self.over = threading.Event()
        self._plane, self._token = plane, token

    def run(self) -> None:
        session = requests.Session()
        session.headers.update(tokens.headers(self._token))
        number = 0
        while not self.over.is_set():
            jobs = [
                {"id": f"flood-{number}-{n}", "entrypoint": "true"} for n in range(self.AT_A_TIME)
            ]
            with contextlib.suppress(requests.ConnectionError):
                self.answers.append(
                    session.post(
                        f"{self._plane.address}/v1/jobs/batch", json={"jobs": jobs}, timeout=60
                    )
                )
                number += 1

    def statuses(self) -> set[int]:
        return {answer.status_code for answer in list(self.answers)}


@pytest.mark.timeout(900)
def test_hostile_clients_lock_nobody_out_and_leave_nothing_behind(limited: Plane) -> None:
    plane = limited
    good = tokens.create(plane, "zorro", "submit", "--submit-rate", "1000000/s")
    bad = tokens.create(plane, "diego", "submit")
    proof = tokens.headers(good)
    # Enough events that a watcher that reads nothing gets stuck.
    for part in range(3):
        jobs = [{"id": f"{part}-{n}-" + "x" * 100, "entrypoint": "true"} for n in range(8000)]
        accepted = plane.post("/v1/jobs/batch", {"jobs": jobs}, headers=proof, timeout=120)
        assert accepted["accepted"] == 8000
    plane.post("/v1/jobs", {"id": "followed", "entrypoint": "true"}, headers=proof)
    # A blocking task may hold a thread for ten seconds.
    time.sleep(12)
    before = descriptors(plane), threads(plane), plane.resident_bytes()

    hostile: list[socket.socket] = []

    def attack(count: int, sent: bytes, buffer: int | None = None) -> None:
        for _ in range(count):
            connection = socket.socket()
            if buffer:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
            connection.settimeout(20 * PATIENCE)
            connection.connect(("127.0.0.1", plane.port))
            with contextlib.suppress(OSError):
                connection.sendall(sent)
            hostile.append(connection)

    attack(2000, b"")
    attack(200, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
    attack(100, head("POST", "/v1/jobs", good, "Content-Length: 1000") + b"{")
    attack(50, head("GET", "/v1/events?after=0", good), buffer=4096)
    attack(20, head("GET", "/v1/jobs?limit=1000", good), buffer=4096)
    attack(50, random.Random(1).randbytes(5000))
    followers = len(hostile)
    attack(20, head("GET", "/v1/jobs/followed/logs/follow", good), buffer=4096)
    flood = Flood(plane, bad)
    flood.start()
    began = time.monotonic()

    for number in range(20):
        asked = time.monotonic()
        assert requests.get(f"{plane.address}/healthz", timeout=30).ok
        plane.post("/v1/jobs", {"id": f"good-{number}", "entrypoint": "true"}, headers=proof)
        assert time.monotonic() - asked < PROMPTLY
        time.sleep(0.2)

    wait_until(lambda: 429 in flood.statuses(), "the flood is over its rate", 60)
    flood.over.set()
    flood.join(60 * PATIENCE)
    assert flood.statuses() == {200, 429}
    # Ten seconds' worth at once, then this many a second; and the last batch may be too much.
    most = 20 * (10 + time.monotonic() - began) + flood.AT_A_TIME
    assert flood.AT_A_TIME * sum(answer.ok for answer in flood.answers) <= most
    refused = next(answer for answer in flood.answers if answer.status_code == 429)
    assert int(refused.headers["Retry-After"]) >= 1
    assert "of diego submits more than 20 a second" in refused.json()["message"]

    # Clients that follow a log that is not written yet count as waiting clients.
    for connection in hostile[followers:]:
        connection.close()
    # All others are dropped, although none of them has closed its end: those that read nothing
    # after a minute. The store opens some files of its own as it is read.
    wait_until(lambda: descriptors(plane) <= before[0] + 20, "the descriptors are free", 150)
    assert all(raw.is_closed_within(one, 5) for one in hostile[:followers:100])
    wait_until(lambda: threads(plane) <= before[1] + 4, "blocking work is over", 30)
    assert plane.resident_bytes() < before[2] + 100 * 2**20
    assert shed(plane, "submit_rate", proof) > 0
    for connection in hostile:
        connection.close()
    plane.post("/v1/jobs", {"id": "afterwards", "entrypoint": "true"}, headers=proof)


def test_what_is_begun_and_never_ended_takes_its_owners_share_of_the_memory(limited: Plane) -> None:
    plane = limited
    good, bad = (tokens.create(plane, owner, "submit") for owner in ("zorro", "diego"))
    size = 4 * 2**20
    begun = head("POST", "/v1/placements/heartbeat", bad, f"Content-Length: {size}") + b" " * (
        size - 1
    )
    before = plane.resident_bytes()
    most = 0
    hostile = [raw.connect(plane.port) for _ in range(100)]
    for connection in hostile:
        with contextlib.suppress(OSError):
            connection.sendall(begun)
        most = max(most, plane.resident_bytes() - before)
    assert shed(plane, "bodies", tokens.headers(good)) > 0
    # 128 MiB of bodies, and the buffers of the connections; all of it would be 400 MiB.
    assert most < 250 * 2**20, most
    job = {"entrypoint": "true", "metadata": {"x": "x" * 15_000, "y": "y" * 15_000}}
    plane.post("/v1/jobs", job, headers=tokens.headers(good))
    for connection in hostile:
        connection.close()


def test_whoever_reads_slowly_gets_all_of_it(tmp_path: Path) -> None:
    """For longer than an idle connection may last."""
    plane = lonely(tmp_path).start()
    try:
        jobs = [
            {"id": f"j{n}", "entrypoint": "x", "metadata": {"x": "x" * 15_000}} for n in range(500)
        ]
        assert plane.post("/v1/jobs/batch", {"jobs": jobs})["accepted"] == 500
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(30)
        connection.connect(("127.0.0.1", plane.port))
        connection.sendall(b"GET /v1/jobs?limit=1000 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        begun = connection.recv(16384)
        head, _, body = begun.partition(b"\r\n\r\n")
        lengths = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-len")]
        left = int(lengths[0].split()[1]) - len(body)
        assert left > 4 * 2**20, "more than the kernel takes at once"
        until = time.monotonic() + 25
        while left:
            is_slow = time.monotonic() < until
            piece = connection.recv(4096 if is_slow else 1 << 20)
            assert piece, f"cut off, {left} bytes are missing"
            left -= len(piece)
            if is_slow:
                time.sleep(0.2)
    finally:
        plane.close()


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plane]:
    """With so few file descriptors that only 64 connections are possible."""
    few = tmp_path / "few-descriptors"
    few.write_text(f'#!/bin/sh\nulimit -n 640\nexec {binary()} "$@"\n')
    few.chmod(0o755)
    monkeypatch.setenv("RAY_MULTICLUSTER_BIN", str(few))
    plane = lonely(tmp_path).start()
    assert "the limit of file descriptors allows few connections" in plane.output()
    yield plane
    plane.close()


def shed(plane: Plane, reason: str, proof: dict[str, str] | None = None) -> float:
    answer = requests.get(f"{plane.address}/metrics", headers=proof, timeout=30)
    lines = answer.text.splitlines()
    return float(next(line for line in lines if f'"{reason}"' in line).split()[-1])


def test_idle_connections_make_room_for_new_ones(small: Plane) -> None:
    with contextlib.ExitStack() as open_ones:
        for _ in range(300):
            open_ones.enter_context(raw.connect(small.port))
        for number in range(20):
            began = time.monotonic()
            small.post("/v1/jobs", {"id": f"good-{number}", "entrypoint": "true"})
            assert time.monotonic() - began < PROMPTLY
        assert descriptors(small) < 300
        assert shed(small, "idle_connection") >= 200


def test_out_of_descriptors_it_goes_on_and_does_not_spin(tmp_path: Path) -> None:
    plane = lonely(tmp_path).start()
    try:
        most = descriptors(plane) + 30
        resource.prlimit(plane.pid, resource.RLIMIT_NOFILE, (most, most))
        with contextlib.ExitStack() as open_ones:
            for _ in range(200):
                open_ones.enter_context(raw.connect(plane.port))
            used, began = cpu_seconds(plane), time.monotonic()
            for _ in range(5):
                assert plane.request("GET", "/healthz").ok
                time.sleep(0.5)
            spent = (cpu_seconds(plane) - used) / (time.monotonic() - began)
            assert spent < 0.5, f"{spent:.0%} of a processor"
        assert 1 <= plane.output().count("cannot accept a connection") < 20
        assert plane.request("GET", "/healthz").ok
    finally:
        plane.close()
