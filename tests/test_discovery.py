"""Clusters in files of their own, which come and go: `cluster_files`."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.jobs import unique_id
from support.plane import MakePlane, Plane, binary, lonely
from support.pool import Pool
from support.ray_cluster import Clusters, clean_environment, where
from support.sse import EventStream
from support.waiting import wait_until

# Two seconds are promised; this machine may be busy.
SOON = 15.0


class Files:
    """The folder of cluster files beside a cluster.yaml."""

    def __init__(self, config: Path):
        self.config = config
        self.folder = config.parent / "clusters.d"
        self.folder.mkdir(exist_ok=True)

    def put(self, file: str, *clusters: str | dict[str, Any]) -> Path:
        entries = [c if isinstance(c, dict) else nowhere(c) for c in clusters]
        return self.write(file, yaml.safe_dump({"clusters": entries}))

    def write(self, file: str, text: str) -> Path:
        """In one step, as a discovery should."""
        fresh = self.folder / f".{file}.tmp"
        fresh.write_text(text)
        return fresh.replace(self.folder / file)


def nowhere(name: str) -> dict[str, Any]:
    """A cluster that does not exist."""
    return {"name": name, "head_address": "127.0.0.1:1", "dashboard": "http://127.0.0.1:1"}


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Plane]:
    """With a cluster `away` of its own and an empty folder for files; not started."""
    plane = lonely(tmp_path)
    plane.pool.cluster_files = ["clusters.d/*.yaml"]
    Files(plane.config)
    yield plane
    plane.close()


def names(plane: Plane) -> list[str]:
    return sorted(cluster["name"] for cluster in plane.clusters())


def problem(plane: Plane) -> str:
    return plane.get("/v1/pool").get("config_problem", {}).get("message", "")


def wait_names(plane: Plane, *wanted: str) -> None:
    wait_until(lambda: names(plane) == sorted(wanted), f"the clusters are {wanted}", SOON)


def check(plane: Plane, *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(binary()), "config", "check", "--offline", *options, str(plane.config)]
    return subprocess.run(
        command,
        env=clean_environment(plane.directory / "home"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def status(plane: Plane) -> str:
    done = subprocess.run(
        [str(binary()), "status", "--address", plane.address],
        env={**clean_environment(plane.directory / "home"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def test_files_come_change_and_go_without_a_restart(plane: Plane) -> None:
    files = Files(plane.config)
    files.put("first.yaml", "first")
    plane.start()
    assert names(plane) == ["away", "first"]
    files.put("b.yaml", "b1", "b2")
    wait_names(plane, "away", "first", "b1", "b2")
    files.put("b.yaml", {**nowhere("b2"), "tags": ["fresh"]}, "b3")
    wait_names(plane, "away", "first", "b2", "b3")
    assert plane.cluster("b2")["tags"] == ["fresh"]
    (files.folder / "b.yaml").unlink()
    wait_names(plane, "away", "first")
    plane.restart()
    assert names(plane) == ["away", "first"]
    assert not problem(plane)


def test_a_wrong_file_harms_only_itself_and_everyone_sees_it(plane: Plane) -> None:
    files = Files(plane.config)
    files.put("a.yaml", "a")
    files.put("b.yaml", "b")
    plane.start()
    with EventStream(f"{plane.address}/v1/events") as events:
        text = yaml.safe_dump({"clusters": [{**nowhere("b"), "wieght": 2}]})
        wrong = files.write("b.yaml", text)
        told = events.wait_for(type="config", change="refused", timeout=SOON)
        assert told["message"].startswith("clusters.d/b.yaml:5:3: unknown key wieght")
        # The others go on, and b is as it was.
        files.put("a.yaml", "a", "a2")
        files.put("c.yaml", "c")
        wait_names(plane, "away", "a", "a2", "b", "c")
        assert "clusters.d/b.yaml: as it last was valid: b" in problem(plane)
        assert str(plane.directory) not in problem(plane)
        line = next(line for line in status(plane).splitlines() if line.startswith("CONFIG"))
        assert "what was last valid stays in force: clusters.d/b.yaml:5:3" in line
        answer = plane.post("/v1/config/reload")
        assert answer["clusters"] == 5
        assert answer["refused"][0].splitlines()[0].endswith("unknown key wieght in a cluster")

        done = check(plane)
        assert done.returncode == 2
        assert f"{wrong}:5:3: unknown key wieght in a cluster" in done.stderr
        done = check(plane, "-o", "json")
        assert json.loads(done.stdout)["errors"][0]["line"] == 5

        files.put("b.yaml", "b")
        events.wait_for(type="config", change="reloaded", timeout=SOON)
        # One event for one error, however often the others changed.
        told_of = [event["change"] for event in events.seen if event["type"] == "config"]
        assert told_of == ["refused", "reloaded"]
    assert not problem(plane)
    assert check(plane).returncode == 0


def test_at_a_start_a_wrong_file_is_said_loudly_and_the_others_are_there(plane: Plane) -> None:
    files = Files(plane.config)
    files.put("a.yaml", "a")
    files.write("b.yaml", "clusters: [{name: b")
    plane.start()
    assert names(plane) == ["a", "away"]
    assert "clusters.d/b.yaml: it adds no cluster until it is valid" in problem(plane)
    assert "b.yaml:1:" in plane.output()
    files.put("b.yaml", "b")
    wait_names(plane, "away", "a", "b")
    wait_until(lambda: not problem(plane), "nothing is wrong any more", SOON)


def test_a_wrong_cluster_yaml_does_not_hold_up_the_files(plane: Plane) -> None:
    files = Files(plane.config)
    files.put("a.yaml", "a")
    plane.start()
    good = plane.config.read_text()
    plane.config.write_text(good.replace("scheduler:", "schedular:"))
    wait_until(lambda: "did you mean scheduler" in problem(plane), "it is refused", SOON)
    (files.folder / "a.yaml").unlink()
    files.put("b.yaml", "b")
    wait_names(plane, "away", "b")
    assert "did you mean scheduler" in problem(plane)
    plane.config.write_text(good)
    wait_until(lambda: not problem(plane), "it is in force", SOON)
    assert names(plane) == ["away", "b"]


def test_hostile_files_are_refused_one_by_one(plane: Plane, tmp_path: Path) -> None:
    files = Files(plane.config)
    files.put("good.yaml", "good")
    plane.start()
    outside = tmp_path / "outside.yaml"
    outside.write_text(yaml.safe_dump({"clusters": [nowhere("outside")]}))
    folder = files.folder
    with (folder / "huge.yaml").open("wb") as huge:
        huge.truncate(100 << 20)
    os.mkfifo(folder / "pipe.yaml")
    (folder / "folder.yaml").mkdir()
    (folder / "link.yaml").symlink_to(outside)
    (folder / "loop.yaml").symlink_to("loop.yaml")
    (folder / "binary.yaml").write_bytes(b"\x7fELF\xff\xfe")
    files.put("twice.yaml", "new", "good")
    files.put("away.yaml", "away")
    files.write("keys.yaml", "clusters: []\nscheduler: {max_queue: 1}\n")
    files.put("late.yaml", "late")
    wait_names(plane, "away", "good", "late")
    told = [
        "huge.yaml: the file is larger than 1 MiB",
        "pipe.yaml: this is neither a file nor a folder, not a file",
        "folder.yaml: this is a folder, not a file",
        "link.yaml: a symbolic link that leads out of its folder",
        "loop.yaml: cannot be read: ",
        "binary.yaml:1:5: this is not UTF-8 text",
        "cluster good is described twice: here, and in clusters.d/good.yaml:4",
        "cluster away is described twice: here, and in cluster.yaml:",
        "keys.yaml:2:1: scheduler does not belong in a file of cluster_files",
    ]
    wait_until(lambda: all(text in problem(plane) for text in told), "all are named", SOON)
    assert problem(plane).count("hint: ") == len(told)
    for path in folder.iterdir():
        if path.name not in ("good.yaml", "late.yaml"):
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            else:
                path.unlink()
    wait_until(lambda: not problem(plane), "nothing is wrong any more", SOON)
    assert names(plane) == ["away", "good", "late"]


def test_a_mounted_config_map_is_followed(plane: Plane) -> None:
    """Kubernetes replaces all files of a mount at once, through a link called `..data`."""
    folder = Files(plane.config).folder

    def publish(version: str, *clusters: str) -> None:
        (folder / version).mkdir()
        content = {"clusters": [nowhere(name) for name in clusters]}
        (folder / version / "a.yaml").write_text(yaml.safe_dump(content))
        (folder / "..data_tmp").symlink_to(version)
        (folder / "..data_tmp").replace(folder / "..data")

    publish("..2026_11_02_1", "a")
    (folder / "a.yaml").symlink_to("..data/a.yaml")
    plane.start()
    assert names(plane) == ["a", "away"]
    publish("..2026_11_02_2", "a", "b")
    wait_names(plane, "away", "a", "b")
    assert not problem(plane)


def test_a_cluster_whose_file_is_gone_leaves_when_its_jobs_have_ended(
    make_plane: MakePlane, clusters: Clusters
) -> None:
    def centos_only(pool: Pool) -> None:
        pool.clusters = [pool["centos"]]
        pool.cluster_files = ["clusters.d/*.yaml"]

    plane = make_plane(centos_only)
    assert "clusters.d/*.yaml: the folder cannot be read" in problem(plane)
    files = Files(plane.config)
    mac = Pool([clusters["mac"]])["mac"]
    job = plane.post(
        "/v1/jobs",
        {
            "entrypoint": "sleep 300",
            "id": unique_id("found"),
            "entrypoint_resources": {"mac_only": 1},
        },
    )["id"]

    def state() -> str:
        return plane.native_job(job)["state"]

    file = files.put("mac.yaml", mac)
    wait_until(lambda: state() == "running", "the waiting job runs on the new cluster", 90)
    assert where(clusters, job) == ["mac"]
    assert not problem(plane)
    file.unlink()
    wait_until(lambda: plane.cluster("mac")["leaving"], "mac leaves", SOON)
    assert state() == "running"
    # It comes back before it has left.
    files.put("mac.yaml", mac)
    wait_until(lambda: not plane.cluster("mac")["leaving"], "mac stays", SOON)
    file.unlink()
    wait_until(lambda: plane.cluster("mac")["leaving"], "mac leaves", SOON)
    plane.post(f"/v1/jobs/{job}/stop")
    wait_names(plane, "centos")
    assert state() == "stopped"
