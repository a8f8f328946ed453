"""Clusters that can grow: how far, whether they do, and what their jobs wait for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Callable

import pytest
from playwright.sync_api import Page, expect

from support.console import OpenConsole
from support.fake_ray import fake_cluster
from support.made_up import GIB, HOUR, MadeUp, cluster, head, job, now, verdict
from support.plane import Plane
from support.pool import Pool
from support.waiting import PATIENCE

LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "has_touch": True},
    "chinese": {"locale": "zh-CN"},
}
MINUTE = HOUR // 60
#: For what a cluster does, in milliseconds.
SOON = 30_000 * PATIENCE
Start = Callable[..., Plane]


def growing(name: str, **elastic: Any) -> dict[str, Any]:
    """A head without CPUs and two nodes of 16, one of them full; two more can be added."""
    return cluster(
        name,
        nodes=3,
        total={"CPU": 32, "memory": 128 * GIB},
        used={"CPU": 16, "memory": 32 * GIB},
        promised={},
        logical={"cpu": 0.25, "gpu": 0, "memory": 0.25},
        elastic={
            "max": {"CPU": 64, "GPU": 8},
            "node": {"CPU": 16, "GPU": 1},
            "within_seconds": 600,
            "can_add": 2,
            "grown": {"CPU": 64, "GPU": 2, "memory": 128 * GIB},
            "waiting": 0,
            "pending": 0,
            "failed": 0,
            **elastic,
        },
    )


def fill(plane: MadeUp) -> None:
    asked = growing("cloud", pending=1, waiting=2)
    asked.update(promised={"CPU": 32}, logical={"cpu": 0.75, "gpu": 0, "memory": 0.25})
    quota = "worker: InsufficientInstanceCapacity: quota exceeded for instance type m5.4xlarge"
    stuck = growing(
        "spot",
        can_add=0,
        grown={"CPU": 32, "memory": 128 * GIB},
        failed=3,
        failure=quota,
        stuck_since_at=now() - 12 * MINUTE,
        asked_again_at=now() + 8 * MINUTE,
    )
    stuck["logical"] = {"cpu": 0.5, "memory": 0.25}
    wrong = growing("lab", can_add=0, problem="it has CPU 96, more than elastic.max says: 64")
    wrong.update(total={"CPU": 96, "memory": 128 * GIB}, logical={"cpu": 0.17, "memory": 0.25})
    wrong["elastic"]["grown"] = wrong["total"]
    plane.clusters = [cluster("centos"), asked, stuck, wrong]
    waits = job("large", "queued", demand={"CPU": 48}, submitted_at=now() - 9 * MINUTE)
    plane.jobs = [waits, job("night", "pending", cluster="cloud")]
    why = f"was asked to grow 12 min ago and did not: CPU 48 requested, 32 reached; {quota}"
    room = verdict("cloud", "no_room", "no room: CPU 48 requested, 16 free")
    plane.heads = [head(waits, 1, room, verdict("spot", "not_grown", why))]
    text = "pending on cloud (attempt 1), waiting for 1 more node (1 on the way)"
    plane.details["night"] = {"why": {"clusters": [], "summary": text}}
    change = {"type": "cluster", "cluster": "spot", "change": "not_grown"}
    plane.events = [
        {**change, "seq": 1, "at": now() - 2 * MINUTE, "message": f"it did not grow: {quota}"}
    ]


@pytest.mark.parametrize("look", LOOKS)
def test_growth_fits_in_every_look(made_up: MadeUp, open_console: OpenConsole, look: str) -> None:
    fill(made_up)
    console = open_console(made_up, **LOOKS[look])
    page = console.open()
    for name, route, sign in [
        ("cards", "#/", ".card .growth .warn"),
        ("cluster", "#/clusters/cloud", ".panel > .growth"),
        ("stuck", "#/clusters/spot", ".panel > .growth .warn"),
        ("queue", "#/queue", "[data-reason=not_grown]"),
        ("job", "#/jobs/night", ".message-calm"),
        ("events", "#/events", ".events .chip-warn"),
    ]:
        console.go(route)
        expect(page.locator(sign).first).to_be_visible()
        console.fits(f"elastic-{name}-{look}")


def test_a_bar_tells_what_is_used_there_and_possible(
    made_up: MadeUp, open_console: OpenConsole
) -> None:
    fill(made_up)
    page = open_console(made_up).open()
    cpu = page.locator("[data-cluster=cloud]").get_by_role("meter", name="CPU")
    expect(cpu).to_have_attribute(
        "aria-valuetext", "75 %: 48 in use or promised, 32 there now, 64 when it has grown"
    )
    box = cpu.bounding_box()
    assert box
    shares = {
        part: (round((at["x"] - box["x"]) / box["width"], 2), round(at["width"] / box["width"], 2))
        for part in ("fill", "there", "coming", "grown")
        if (at := cpu.locator(f".meter-{part}").bounding_box())
    }
    assert shares == {
        "fill": (0, 0.5),
        "there": (0, 0.5),
        "coming": (0.5, 0.25),
        "grown": (0.5, 0.5),
    }
    ordinary = page.locator("[data-cluster=centos]")
    assert ordinary.locator(".meter-grown, .growth").count() == 0


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Start]:
    """Starts a control plane with one cluster: a head without CPUs that says it can have 64."""
    with ExitStack() as stack:

        def start(max_nodes: int, takes: float, within: str) -> Plane:
            options = ("--cpus", "0", "--grow", f"16,{max_nodes},{takes},600")
            fake = stack.enter_context(fake_cluster("cloud", *options))
            pool = Pool([fake], {"resource_threshold": 1.0})  # type: ignore[list-item]
            pool["cloud"]["elastic"] = {"max": {"CPU": 64}, "node": {"CPU": 16}, "within": within}
            plane = Plane(tmp_path / "plane", pool)
            stack.callback(plane.close)
            plane.start()
            plane.wait_healthy()
            return plane

        yield start


def submit(plane: Plane, job_id: str, cpus: int) -> None:
    needs = {"entrypoint_num_cpus": cpus}
    plane.post("/v1/jobs", {"id": job_id, "entrypoint": "sleep 600", **needs})


def growth_of(page: Page) -> Any:
    return page.locator("[data-cluster=cloud] [data-growth]")


def test_a_cluster_grows_before_your_eyes(cloud: Start, open_console: OpenConsole) -> None:
    plane = cloud(max_nodes=4, takes=3, within="10m")
    console = open_console(plane)
    page = console.open("#/submit")
    page.locator("[name=cpus]").fill("20")
    answer = page.locator(".preview-answer")
    expect(answer).to_have_text("To cloud, now; it would have to grow by 2 nodes")
    expect(page.locator(".preview .verdicts")).to_contain_text("would have to grow by 2 nodes")
    console.screenshot("elastic-preview")
    console.go("#/")
    expect(growth_of(page)).to_have_text("1 node · 4 more can be added")
    submit(plane, "first", 16)
    expect(growth_of(page)).to_contain_text("1 waiting for nodes", timeout=SOON)
    expect(growth_of(page)).to_contain_text("2 nodes · 3 more can be added", timeout=SOON)
    expect(page.get_by_role("region", name="Recent decisions")).to_contain_text(
        "had to grow by 1 node"
    )
    submit(plane, "second", 16)
    console.go("#/jobs/second")
    expect(page.locator(".message-calm")).to_contain_text("waiting for 1 more node")
    console.screenshot("elastic-waiting")
    expect(page.locator(".page-head [data-state=running]")).to_be_visible(timeout=SOON)
    assert page.locator(".message-calm").count() == 0
    assert console.is_same_load()


def test_one_that_does_not_grow_is_found_out(cloud: Start, open_console: OpenConsole) -> None:
    plane = cloud(max_nodes=0, takes=1, within="3s")
    console = open_console(plane)
    page = console.open()
    submit(plane, "first", 16)
    stuck = re.compile("has not grown for .*, will be asked again in")
    expect(growth_of(page)).to_contain_text(stuck, timeout=SOON)
    # Its job comes back and waits in the queue.
    console.go("#/jobs/first")
    expect(page.locator(".page-head [data-state=queued]")).to_be_visible(timeout=SOON)
    expect(page.locator("[data-reason=not_grown]")).to_have_text("did not grow")
    expect(page.locator("[data-why]")).to_contain_text("CPU 16 requested, 0 reached")
    console.go("#/events")
    row = page.locator(".events .virtual-row").filter(has_text="did not grow").first
    expect(row).to_contain_text("it did not grow within 3s")
