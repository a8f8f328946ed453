"""Every benchmark in Python runs, for seconds; `cargo test --benches` runs those in Rust."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import hyperqueue, job_start, report, routing, tasks
from support.plane import Plane
from support.ray_cluster import Clusters, RayCluster

pytestmark = pytest.mark.ray_client


def test_a_job_is_measured_from_its_submit_to_its_first_line(
    plane: Plane, centos: RayCluster
) -> None:
    figures = job_start.measure(centos.dashboard, plane.address, rounds=1)
    for side in ("direct", "plane"):
        assert 0 < figures["accepted"][f"{side}_p50_s"] < figures["first_line"][f"{side}_p50_s"]
    assert figures["first_line"]["ratio"] > 0


def test_tasks_are_measured_beside_plain_ray_client(
    plane: Plane, clusters: Clusters, tmp_path: Path
) -> None:
    figures = tasks.measure(clusters["centos"], plane, tmp_path, rounds=1, calls=3, batch=20)
    assert figures["one"]["ratio"] > 0
    assert figures["many"]["ratio"] > 0


def test_routing_is_measured_beside_plain_ray_client(clusters: Clusters, tmp_path: Path) -> None:
    figures = routing.measure(clusters["centos"], clusters["mac"], tmp_path, rounds=1, calls=3)
    assert figures["task"]["ratio"] > 0
    assert figures["actor_call"]["ratio"] > 0


def test_batches_are_measured_beside_hyperqueue() -> None:
    figures = hyperqueue.measure(rounds=1, batch=50)
    assert figures["plane_per_s"] > 0
    assert figures["hyperqueue_per_s"] > 0


def test_the_page_has_a_row_for_each_figure_and_none_for_what_was_not_run(tmp_path: Path) -> None:
    sides = {"plane_p50_s": 1.2, "direct_p50_s": 1.0, "ratio": 1.2}
    lag = {f"{side}_seen_after_first_line_p50_s": 0.05 for side in ("plane", "direct")}
    measured = {"accepted": sides, "first_line": sides, "seen": sides, **lag}
    (tmp_path / "job_start.json").write_text(json.dumps(measured))
    report.stamp(tmp_path, "job_start")
    page = report.render(tmp_path)
    assert "1.20 s; direct 1.00 s: **1.20 ×**" in page
    assert "50.0 ms; direct 50.0 ms" in page
    assert report.commit() in page
    assert "The core" not in page
