"""deploy/kuberay: files for `cluster_files` from RayCluster objects. No Kubernetes is needed: the
objects in tests/kuberay/ have the shape that KubeRay gives them.
"""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import io
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.plane import REPOSITORY, binary

PROGRAM = REPOSITORY / "deploy" / "kuberay" / "kuberay_clusters.py"
RECORDED = REPOSITORY / "tests" / "kuberay" / "rayclusters.json"

_spec = importlib.util.spec_from_file_location("kuberay_clusters", PROGRAM)
assert _spec is not None
assert _spec.loader is not None
kuberay: Any = importlib.util.module_from_spec(_spec)
sys.modules["kuberay_clusters"] = kuberay
_spec.loader.exec_module(kuberay)


def recorded(*names: str) -> list[dict[str, Any]]:
    """Copies of these objects; of all without a name."""
    items = json.loads(RECORDED.read_text())["items"]
    return [item for item in items if not names or item["metadata"]["name"] in names]


def run(folder: Path, items: Any, *options: str) -> subprocess.CompletedProcess[str]:
    """As a program would run it, but in this process, which saves seconds."""
    text = items if isinstance(items, str) else json.dumps({"items": items, "metadata": {}})
    listed = folder.parent / "listed.json"
    listed.write_text(text)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = kuberay.main(["--from", str(listed), *options, str(folder)])
    listed.unlink()
    return subprocess.CompletedProcess([], code, out.getvalue(), err.getvalue())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "clusters.d"
    folder.mkdir()
    return folder


def cluster(file: Path) -> dict[str, Any]:
    content = yaml.safe_load(file.read_text())
    assert list(content) == ["clusters"]
    [only] = content["clusters"]
    return only


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


GiB = 1 << 30


def test_each_ray_cluster_that_is_ready_has_a_file(folder: Path) -> None:
    done = run(folder, recorded())
    assert done.returncode == 0, done.stderr
    names = ["research.autoscaled", "research.fixed", "research.old", "vision.slices"]
    assert files(folder) == [f"{name}.yaml" for name in names]
    assert done.stdout.splitlines() == [
        f"wrote {name}.yaml"
        for name in ("research.fixed", "research.autoscaled", "vision.slices", "research.old")
    ]
    assert cluster(folder / "research.fixed.yaml") == {
        "name": "research.fixed",
        "head_address": "fixed-head-svc.research.svc.cluster.local:10001",
        "dashboard": "http://fixed-head-svc.research.svc.cluster.local:8265",
    }
    for why in (
        "research/new: not written: its head has no service yet",
        "research/starting: not written: its head is not ready yet",
        "research/suspended: left out: it is suspended",
        "research/nightly-k7x2p: left out: it belongs to a RayJob",
        "research/going: left out: it is being deleted",
    ):
        assert why in done.stderr
    assert stat.S_IMODE((folder / "research.fixed.yaml").stat().st_mode) == 0o644


def test_the_control_plane_reads_what_is_written(folder: Path) -> None:
    run(folder, recorded())
    config = folder.parent / "cluster.yaml"
    config.write_text("cluster_files: [clusters.d/*.yaml]\n")
    command = [str(binary()), "config", "check", "--offline", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_autoscaler_says_how_far_the_cluster_can_grow(folder: Path) -> None:
    run(folder, recorded())
    found = cluster(folder / "research.autoscaled.yaml")
    assert (found["tags"], found["weight"]) == (["linux", "gpu"], 1.5)
    # Half a core is one CPU; the head has none for jobs; the suspended group does not count.
    assert found["elastic"] == {
        "max": {
            "CPU": 4 * 16 + 8 * 8,
            "GPU": 8,
            "licence": 16,
            "memory": (8 + 4 * 60 + 8 * 64) * GiB,
        },
        "node": {"CPU": 16, "GPU": 1, "licence": 2, "memory": 64 * GiB},
        "within": "15m",
    }
    found = cluster(folder / "vision.slices.yaml")
    # Two replicas of four hosts, a group without a bound as it is now, and one with `resources`.
    assert found["elastic"] == {
        "max": {
            "CPU": 2 + 2 * 4 * 4 + 3 + 2 * 32,
            "GPU": 8,
            "memory": (8 + 8 * 16 + 3) * GiB,
        },
        "node": {"CPU": 32, "GPU": 4, "memory": 16 * GiB},
        "within": "10m",
    }


def test_ports_come_from_the_container_if_the_status_has_none(folder: Path) -> None:
    run(folder, recorded("old"))
    found = cluster(folder / "research.old.yaml")
    assert found["dashboard"].endswith(":9265")
    assert found["head_address"].endswith(":20001")


def test_files_follow_their_objects_and_are_otherwise_not_touched(folder: Path) -> None:
    (folder / "mine.yaml").write_text("clusters: []\n")
    run(folder, recorded("fixed", "old"))
    before = {path.name: path.stat() for path in folder.iterdir()}
    done = run(folder, recorded("fixed", "old"))
    assert done.stdout == ""
    assert {path.name: path.stat().st_ino for path in folder.iterdir()} == {
        name: seen.st_ino for name, seen in before.items()
    }

    items = recorded("fixed")
    items[0]["metadata"]["annotations"] = {"ray-multicluster/weight": "2"}
    done = run(folder, items)
    assert done.stdout.splitlines() == [
        "wrote research.fixed.yaml",
        "removed research.old.yaml",
    ]
    assert cluster(folder / "research.fixed.yaml")["weight"] == 2
    assert files(folder) == ["mine.yaml", "research.fixed.yaml"]
    # Replaced, not written over: nobody reads half of it.
    now = (folder / "research.fixed.yaml").stat()
    assert now.st_ino != before["research.fixed.yaml"].st_ino


def test_a_cluster_that_is_not_ready_any_more_keeps_its_file(folder: Path) -> None:
    """The control plane sees that it does not answer; without the file its jobs would be lost."""
    run(folder, recorded("fixed"))
    items = recorded("fixed")
    items[0]["status"]["conditions"][0]["status"] = "False"
    items[0]["status"]["head"] = {}
    done = run(folder, items)
    assert done.stdout == ""
    assert files(folder) == ["research.fixed.yaml"]
    items[0]["spec"]["suspend"] = True
    assert run(folder, items).stdout == "removed research.fixed.yaml\n"


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"items": {}}', '{"items": [], "metadata": {"continue": "abc"}}'],
)
def test_without_a_whole_list_nothing_changes(folder: Path, text: str) -> None:
    run(folder, recorded("fixed"))
    done = run(folder, text)
    assert done.returncode == 1
    assert "nothing was changed" in done.stderr
    assert files(folder) == ["research.fixed.yaml"]


def test_a_failing_kubectl_changes_nothing(tmp_path: Path) -> None:
    folder, tools = tmp_path / "clusters.d", tmp_path / "bin"
    folder.mkdir()
    tools.mkdir()
    kubectl = tools / "kubectl"
    kubectl.write_text(f'#!/bin/sh\necho "$@" >"{tmp_path}/asked"\nexec cat "{RECORDED}"\n')
    kubectl.chmod(0o755)
    command = [sys.executable, str(PROGRAM), "--context", "lab", str(folder)]
    env = {**os.environ, "PATH": f"{tools}:/usr/bin:/bin"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=60, check=False)
    assert (done.returncode, len(files(folder))) == (0, 4), done.stderr
    asked = (tmp_path / "asked").read_text().split()
    assert asked[:4] == ["get", "rayclusters.ray.io", "-o", "json"]
    assert asked[-3:] == ["--all-namespaces", "--context", "lab"]
    kubectl.write_text("#!/bin/sh\necho connection refused >&2\nexit 1\n")
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=60, check=False)
    assert (done.returncode, len(files(folder))) == (1, 4)
    assert "kubectl: connection refused" in done.stderr


def test_namespaces_and_prefixes_do_not_touch_the_files_of_each_other(folder: Path) -> None:
    run(folder, recorded("fixed", "old"), "--namespace", "research")
    run(folder, recorded("slices"), "--namespace", "vision")
    run(folder, recorded("fixed"), "--prefix", "eu")
    assert files(folder) == [
        "eu.research.fixed.yaml",
        "research.fixed.yaml",
        "research.old.yaml",
        "vision.slices.yaml",
    ]
    assert cluster(folder / "eu.research.fixed.yaml")["name"] == "eu.research.fixed"
    run(folder, [], "--namespace", "research")
    assert files(folder) == ["eu.research.fixed.yaml", "vision.slices.yaml"]
    run(folder, [])
    assert files(folder) == ["eu.research.fixed.yaml"]


HOSTILE = ["../../x", "..", ".", "", "a/b", "a\nb", "\x1b[2J", "a b", "A", ".hidden", "x" * 300]


@pytest.mark.parametrize("name", [*HOSTILE, None, 7, ["x"]])
@pytest.mark.parametrize("where", ["name", "namespace"])
def test_a_hostile_name_is_left_out(tmp_path: Path, name: Any, where: str) -> None:
    folder = tmp_path / "a" / "b" / "clusters.d"
    folder.mkdir(parents=True)
    [bad] = recorded("fixed")
    bad["metadata"][where] = name
    done = run(folder, [bad, *recorded("old")])
    assert done.returncode == 0
    assert files(folder) == ["research.old.yaml"]
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == [
        "research.old.yaml"
    ]
    assert "\x1b" not in done.stderr


def test_hostile_values_stay_values(folder: Path) -> None:
    [item] = recorded("autoscaled")
    item["metadata"]["annotations"] = {
        "ray-multicluster/tags": 'fine, two words, \x1b[2J,a"]\nscheduler: {},{x:y},,',
        "ray-multicluster/weight": "-1",
        "ray-multicluster/within": "10m }\nscheduler: {}",
    }
    item["status"]["endpoints"]["dashboard"] = "8265/../x"
    item["spec"]["workerGroupSpecs"][0]["groupName"] = "\x1b[31m"
    item["spec"]["workerGroupSpecs"][0]["rayStartParams"] = {
        "resources": "no json",
        "num-gpus": "many",
    }
    done = run(folder, [item])
    assert done.returncode == 0
    found = cluster(folder / "research.autoscaled.yaml")
    assert found["tags"] == ["fine", "{x:y}"]
    assert "weight" not in found
    assert found["elastic"]["within"] == "10m"
    assert found["dashboard"] == "http://autoscaled-head-svc.research.svc.cluster.local:8265"
    for why in ("the weight '-1'", "is no length of time", "is not JSON", "is no resource"):
        assert why in done.stderr
    assert "\x1b" not in done.stderr
    item["status"]["head"]["serviceName"] = "evil.example/x"
    assert "no service" in run(folder, [item]).stderr


def test_a_half_filled_object_harms_no_other(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    whole = recorded("autoscaled")[0]

    def without(value: Any) -> list[Any]:
        """The object with each of its parts missing, null, or of another type."""
        if not isinstance(value, dict):
            return []
        found = []
        for key, inner in value.items():
            found.append({k: v for k, v in value.items() if k != key})
            found += [{**value, key: other} for other in (None, [], {}, "x", 7, [None], [7])]
            if isinstance(inner, list) and inner:
                found += [{**value, key: [part, *inner[1:]]} for part in without(inner[0])]
            found += [{**value, key: part} for part in without(inner)]
        return found

    variants = without(whole)
    assert len(variants) > 500
    for item in [*variants, None, 7, [], "x", {}]:
        for path in folder.iterdir():
            path.unlink()
        kuberay.write(folder, [item, *recorded("old")], kuberay.Options(), None)
        assert "research.old.yaml" in files(folder), item
        for path in folder.iterdir():
            assert {"name", "head_address", "dashboard"} <= set(cluster(path)), item


def test_a_long_name_is_cut_and_stays_unique(folder: Path) -> None:
    pair = recorded("fixed", "fixed") + copy.deepcopy(recorded("fixed"))
    for item, end in zip(pair, "ab"):
        item["metadata"]["namespace"] = "n" * 63
        item["metadata"]["name"] = "c" * 62 + end
    run(folder, pair)
    names = {cluster(path)["name"] for path in folder.iterdir()}
    assert len(names) == 2
    assert {len(name) for name in names} == {64}


def test_keys_for_every_cluster_can_be_given(folder: Path) -> None:
    more = ["--set", "token_file=/etc/ray/token", "--set", 'runtime_env={"env_vars": {"A": "1"}}']
    run(folder, recorded("fixed"), *more, "--host", "{service}.{namespace}.example")
    found = cluster(folder / "research.fixed.yaml")
    assert found["token_file"] == "/etc/ray/token"
    assert found["runtime_env"] == {"env_vars": {"A": "1"}}
    assert found["dashboard"] == "http://fixed-head-svc.research.example:8265"


@pytest.mark.parametrize(
    ("text", "value"),
    [("4", 4), ("500m", 0.5), ("16Gi", 16 * GiB), ("2k", 2000), ("1e3", 1000), (1.5, 1.5)]
    + [
        (bad, None) for bad in ("", "-1", "1..2", "Gi", "4 CPU", "1e999", "NaN", None, True, [], {})
    ],
)
def test_quantities_are_those_of_kubernetes(text: Any, value: float | None) -> None:
    found = kuberay.quantity(text)
    assert (None if found is None else float(found)) == value
