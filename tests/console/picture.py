"""Makes docs/images/overview.png, the console's overview for the README, and elastic.png.

    cargo build -p multicluster-cli && cargo build -p multicluster-testkit --example fake_ray
    PYTHONPATH=tests:python scripts/python-env python -m console.picture [overview] [elastic]

A real control plane on fake Ray clusters. It is a minute old, so the hour in the charts is made up;
everything else on the page comes from the control plane.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from playwright.sync_api import Route, sync_playwright

from support.fake_ray import fake_cluster
from support.plane import REPOSITORY, Plane
from support.pool import Pool
from support.waiting import wait_until

IMAGES = REPOSITORY / "docs/images"
MOST_BYTES = 150_000
GIB = 2**30
STEPS = 240  # of 15 seconds: one hour


def submit(plane: Plane, job_id: str, seconds: int, then: str = "true", **more: Any) -> None:
    needs = {"entrypoint_num_cpus": 16, "entrypoint_memory": 12 * GIB}
    command = f"sleep {seconds}; {then}"
    plane.post("/v1/jobs", {"id": job_id, "entrypoint": command, **needs, **more})


def wait_for(plane: Plane, job_id: str, state: str) -> None:
    wait_until(lambda: plane.native_job(job_id)["state"] == state, f"{job_id} is {state}", 60)


def wait_until_settled(plane: Plane) -> None:
    """A promise ends when Ray shows the usage."""
    wait_until(
        lambda: not any(cluster["promised"] for cluster in plane.clusters()),
        "the clusters show what runs on them",
        60,
    )


def make_busy(plane: Plane) -> None:
    ended = {
        "fund_prediction-20261117-081502": "succeeded",
        "graph_prediction-20261117-081502": "succeeded",
        "graph_prediction-20261117-083010": "failed",
    }
    for job_id, state in ended.items():
        submit(plane, job_id, 1, "true" if state == "succeeded" else "exit 1")
        wait_for(plane, job_id, state)
    running = [
        ("graph_prediction-20261117-084230", "centos", 1),
        ("fund_prediction-20261117-084531", "mac", 0),
        ("graph_prediction-20261117-084531", "centos", 1),
    ]
    for job_id, cluster, gpus in running:
        more = {"entrypoint_num_gpus": gpus, "preferred_cluster": cluster}
        submit(plane, job_id, 3600, **more)
        wait_for(plane, job_id, "running")

    # From here on as in production.
    plane.pool["centos"]["submission_interval"] = "40s"
    plane.pool.write(plane.config)
    wait_until(
        lambda: plane.cluster("centos")["limits"]["submission_interval_seconds"] == 40,
        "the interval is in force",
        30,
    )
    for name in ("graph", "fund"):
        submit(plane, f"{name}_prediction-20261117-084612", 3600)
    submit(plane, "fund_prediction-20261117-084640", 3600, preferred_cluster="mac")
    submit(plane, "graph_prediction-20261117-084702", 3600, entrypoint_num_gpus=4)
    wait_until_settled(plane)


def made_up_hour(route: Route) -> None:
    """The hour before: both clusters fill up over the morning, and jobs finish."""
    past = route.fetch().json()
    last = past["moments"][-1]
    past["moments"] = [last - (STEPS - 1 - step) * 15_000 for step in range(STEPS)]
    levels = {"centos": [1, 2, 2, 1, 0, 1, 1, 2, 1, 2], "mac": [0, 1, 1, 1, 0, 1, 0, 0, 1, 1]}
    for name, cluster in past["clusters"].items():
        share = {"centos": 16 / 48, "mac": 16 / 20}.get(name, 0.25)
        level = levels.get(name, levels["mac"])
        shares = [share * level[step * 10 // STEPS] for step in range(STEPS)]
        cluster.update({series: [None] * STEPS for series in cluster}, cpu=shares)
    zeros = [0] * STEPS
    succeeded = [int(step % 13 == 2 or step % 17 == 5) for step in range(STEPS)]
    failed = [int(step == 226) for step in range(STEPS)]
    pool = {**dict.fromkeys(past["pool"], zeros), "succeeded": succeeded, "failed": failed}
    route.fulfill(body=json.dumps({**past, "pool": pool}), content_type="application/json")


def take(plane: Plane, name: str, of: str = "", signs: Sequence[str] = ()) -> None:
    """Of one part of the page, or of all of it, when the signs are there."""
    found = subprocess.run(
        [REPOSITORY / "scripts/chromium"], check=True, stdout=subprocess.PIPE, text=True
    )
    flags = ["--no-sandbox", "--disable-gpu"]
    picture = IMAGES / name
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found.stdout.strip(), args=flags)
        size = {"width": 1280, "height": 800}
        page = browser.new_page(viewport=size, color_scheme="light", locale="en-GB")
        page.route("**/v1/history*", made_up_hour)
        page.goto(plane.address)
        page.locator("[data-connection=live]").wait_for(state="attached")
        page.locator(".spark").first.wait_for()
        for sign in signs:
            page.locator(sign).wait_for()
        page.wait_for_timeout(1500)
        page.locator(of).screenshot(path=picture) if of else page.screenshot(path=picture)
        browser.close()
    bytes_ = picture.stat().st_size
    assert bytes_ < MOST_BYTES, f"{picture} has {bytes_} bytes, at most {MOST_BYTES} are wanted"
    print(f"{picture}: {bytes_} bytes")


def take_overview() -> None:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="picture-")))
        clusters = [
            stack.enter_context(
                fake_cluster("centos", "--cpus", "48", "--gpus", "4", "--memory", "128")
            ),
            stack.enter_context(fake_cluster("mac", "--cpus", "20", "--memory", "64")),
        ]
        pool = Pool(clusters, {"resource_threshold": 0.7})
        pool["mac"].update(weight=1.2, prefer=True, resource_threshold=0.8)
        plane = Plane(directory, pool)
        stack.callback(plane.close)
        plane.start()
        plane.wait_healthy()
        make_busy(plane)
        take(plane, "overview.png")


def take_elastic() -> None:
    """One cluster of a fixed size, one that is growing, and one that was asked to and did not."""
    clusters = {
        "centos": ["--cpus", "64", "--memory", "128"],
        "cloud": ["--cpus", "0", "--memory", "16", "--grow", "16,4,10,900"],
        "spot": ["--cpus", "4", "--memory", "16", "--grow", "16,0,10,900"],
    }
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="picture-")))
        fakes = [
            stack.enter_context(fake_cluster(name, *options)) for name, options in clusters.items()
        ]
        pool = Pool(fakes, {"resource_threshold": 0.9})
        for name, most, within in [("cloud", 64, "10m"), ("spot", 68, "30s")]:
            pool[name]["elastic"] = {"max": {"CPU": most}, "node": {"CPU": 16}, "within": within}
        plane = Plane(directory, pool)
        stack.callback(plane.close)
        plane.start()
        plane.wait_healthy()

        def submit_to(cluster: str, job_id: str) -> None:
            more = {"preferred_cluster": cluster, "entrypoint_num_cpus": 16}
            plane.post("/v1/jobs", {"id": job_id, "entrypoint": "sleep 3600", **more})

        submit_to("spot", "sweep-1")
        submit_to("centos", "graph_prediction-20261117-084230")
        wait_for(plane, "graph_prediction-20261117-084230", "running")
        for job_id in ("fund_prediction-20261117-084531", "sweep-2"):
            submit_to("cloud", job_id)
            wait_for(plane, job_id, "running")
        wait_until_settled(plane)
        submit_to("cloud", "sweep-3")
        signs = ("[data-cluster=spot] .growth .warn", "[data-cluster=cloud] .meter-coming")
        take(plane, "elastic.png", ".cards", signs)


def main() -> None:
    subprocess.run([REPOSITORY / "scripts/console"], check=True)
    names = sys.argv[1:] or ["overview", "elastic"]
    makers = {"overview": take_overview, "elastic": take_elastic}
    for name in names:
        makers[name]()


if __name__ == "__main__":
    main()
