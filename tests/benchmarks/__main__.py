"""`make bench`: runs every benchmark, says which, and writes docs/benchmarks.md.

Names of parts as arguments run only those: core, store, server, job_start, tasks, routing,
growth, hyperqueue. The others keep their latest figures.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

# Before anything imports Ray: a token file in the developer's home must have no effect.
os.environ["RAY_AUTH_MODE"] = "disabled"

from benchmarks import growth, hyperqueue, job_start, report, routing, tasks
from support.plane import REPOSITORY, Plane
from support.pool import Pool
from support.ray_cluster import RayCluster, remove_abandoned

RESULTS = REPOSITORY / "target" / "bench"
CRATES = {"core": "multicluster-core", "store": "multicluster-store", "server": "multicluster-cli"}
PACKAGES = [word for crate in CRATES.values() for word in ("-p", crate)]
ON_RAY = ("job_start", "tasks", "routing")
ALONE = ("growth", "hyperqueue")


def main() -> int:
    wanted = sys.argv[1:] or [*CRATES, *ON_RAY, *ALONE]
    unknown = set(wanted) - {*CRATES, *ON_RAY, *ALONE}
    if unknown:
        print(f"no such part: {', '.join(sorted(unknown))}\n{__doc__}", file=sys.stderr)
        return 2
    started = time.monotonic()
    RESULTS.mkdir(parents=True, exist_ok=True)
    steps = list(plan(wanted))
    for number, (what, step) in enumerate(steps, 1):
        minutes = (time.monotonic() - started) / 60
        print(f"\n[{number}/{len(steps)}, {minutes:.1f} min] {what}", flush=True)
        step()
    page = report.write(RESULTS, REPOSITORY / "docs" / "benchmarks.md")
    print(f"\n{page}\nwritten to docs/benchmarks.md")
    return 0


def plan(wanted: list[str]) -> Iterator[tuple[str, Callable[[], Any]]]:
    yield "build the program and its benchmarks", build
    for name, crate in CRATES.items():
        if name in wanted:
            yield f"{name}: cargo bench -p {crate}", lambda n=name: cargo_bench(n)
    with_ray = [name for name in ON_RAY if name in wanted]
    if with_ray:
        yield f"start two Ray clusters; then {', '.join(with_ray)}", lambda: on_ray(with_ray)
    if "growth" in wanted:
        yield "a Ray cluster that grows", lambda: keep("growth", growth.alone(rounds=7))
    if "hyperqueue" in wanted:
        yield (
            "batches of 2,000 beside HyperQueue",
            lambda: keep("hyperqueue", hyperqueue.measure(20)),
        )


def build() -> None:
    """With cargo's own output: a build from scratch takes minutes."""
    cargo("bench", "--no-run", *PACKAGES, "--benches")
    # Cargo's bench profile puts the program beside the release builds.
    os.environ["RAY_MULTICLUSTER_BIN"] = str(REPOSITORY / "target/release/ray-multicluster")


def cargo_bench(name: str) -> None:
    # All packages are named: with other features, cargo would build everything again.
    cargo("bench", *PACKAGES, "--bench", name)
    report.stamp(RESULTS, name)
    if name == "server":
        report.stamp(RESULTS, "postgres")


def cargo(*arguments: str) -> None:
    subprocess.run([os.environ.get("CARGO", "cargo"), *arguments], cwd=REPOSITORY, check=True)


def on_ray(wanted: list[str]) -> None:
    with on_two_clusters() as (centos, mac, plane, home):
        parts: dict[str, Callable[[], dict[str, Any]]] = {
            "job_start": lambda: job_start.measure(centos.dashboard, plane.address, rounds=15),
            "tasks": lambda: tasks.measure(centos, plane, home, rounds=5),
            "routing": lambda: routing.measure(centos, mac, home, rounds=5),
        }
        for name in wanted:
            print(f"  {name} …", flush=True)
            keep(name, parts[name]())


@contextlib.contextmanager
def on_two_clusters() -> Iterator[tuple[RayCluster, RayCluster, Plane, Path]]:
    remove_abandoned()
    centos, mac = clusters = [RayCluster("centos"), RayCluster("mac")]
    with tempfile.TemporaryDirectory(prefix="multicluster-bench-") as directory:
        plane = Plane(Path(directory), Pool(clusters))
        try:
            with ThreadPoolExecutor() as threads:
                list(threads.map(RayCluster.start, clusters))
            plane.start()
            plane.wait_healthy()
            yield centos, mac, plane, Path(directory)
        finally:
            plane.close()
            for cluster in clusters:
                cluster.remove()


def keep(name: str, figures: dict[str, Any]) -> None:
    print(json.dumps(figures, indent=2))
    (RESULTS / f"{name}.json").write_text(json.dumps(figures, indent=2) + "\n")
    report.stamp(RESULTS, name)


if __name__ == "__main__":
    sys.exit(main())
