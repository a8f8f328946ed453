"""deploy/ fits the program it deploys and the metrics it watches."""

from __future__ import annotations

import configparser
import contextlib
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from support import markdown, ports, promql, usage
from support.collector import Collector
from support.plane import REPOSITORY, MakePlane, Plane, binary
from support.ray_cluster import clean_environment
from support.waiting import PATIENCE, wait_until

DEPLOY = REPOSITORY / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
DASHBOARD = DEPLOY / "grafana" / "ray-multicluster.json"
RULES = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
PORT = 8700
CONFIG, STATE = "/etc/ray_scheduler/cluster.yaml", "/var/lib/ray-multicluster"
ACCESS = "/etc/ray-multicluster"
# Each occurrence is a bug, so the count stays zero.
BUGS = "multicluster_impossible_transitions_total"


# --- metrics, alerts, dashboard ---


def test_every_documented_metric_is_there_under_load(make_plane: MakePlane) -> None:
    documented = promql.documented()
    assert documented.pop(BUGS) == set()
    seen: dict[str, set[str]] = {}
    with (
        Collector() as collector,
        work_of_every_kind(plane := make_plane(traces=collector.address)),
    ):

        def all_seen() -> bool:
            plane.post("/v1/jobs", {"entrypoint": "true", "entrypoint_num_cpus": 1})
            seen.update(measured(plane))
            return seen.keys() >= documented.keys()

        with contextlib.suppress(AssertionError):  # what is missing says more
            wait_until(all_seen, "every metric has something to say", timeout=60, every=1)
    assert documented.keys() - seen.keys() == set(), "documented, and never seen above 0"
    assert seen.keys() - documented.keys() == set(), "not in docs/metrics.md"
    assert {name: seen[name] for name in documented} == documented, "other labels than documented"


def test_the_dashboard_asks_only_for_what_there_is() -> None:
    metrics = promql.documented()
    panels = [panel for panel in dashboard()["panels"] if panel["type"] != "row"]
    asked = [(panel["title"], target) for panel in panels for target in panel["targets"]]
    assert asked
    for title, target in asked:
        expression = target["expr"]
        assert promql.mistakes(expression, metrics) == [], title
        shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        assert shown <= labels_in(expression, metrics), title


def test_every_metric_is_on_the_dashboard() -> None:
    text = DASHBOARD.read_text()
    of_a_histogram = re.compile(r"_(count|sum|bucket)$")
    names = {of_a_histogram.sub("", name) for name in promql.documented()}
    assert {name for name in names if name not in text} == set()


def test_the_dashboard_can_be_imported_anywhere() -> None:
    board = dashboard()
    variables = {variable["name"]: variable for variable in board["templating"]["list"]}
    assert variables["DS_PROMETHEUS"]["type"] == "datasource"
    assert "cluster" in variables
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    assert board["id"] is None, "the id is the Grafana's own"
    assert board["schemaVersion"] >= 39, "Grafana 11"
    used = set(re.findall(r"\$\{?(\w+)", DASHBOARD.read_text())) - {"__all"}
    assert used <= set(variables)
    sources = {panel["datasource"]["uid"] for panel in board["panels"] if "datasource" in panel}
    assert sources == {"${DS_PROMETHEUS}"}
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_an_alert_can_fire_and_says_what_to_do(rule: dict[str, Any]) -> None:
    metrics = promql.documented()
    assert promql.mistakes(rule["expr"], metrics) == []
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    notes = rule["annotations"]
    assert notes.keys() == {"summary", "description", "runbook"}
    assert markdown.broken_link(REPOSITORY / "README.md", notes["runbook"]) is None
    # A label that the expression does not have would be shown as empty.
    shown = set(re.findall(r"\$labels\.(\w+)", " ".join(notes.values())))
    assert shown <= labels_in(rule["expr"], metrics)


def test_the_commands_that_alerts_name_exist() -> None:
    notes = " ".join(rule["annotations"]["description"] for rule in RULES)
    notes = re.sub(r"\{\{.*?\}\}", "NAME", notes)
    named = [line for line in markdown.inline_code(notes) if line.startswith(usage.PROGRAM)]
    assert named
    assert [what for line in named for what in usage.mistakes(line)] == []


def test_a_misspelt_metric_or_label_is_found() -> None:
    metrics = {"a_total": {"cluster"}, "b_seconds_bucket": {"kind", "le"}}
    good = 'histogram_quantile(0.9, sum by (le, kind) (rate(b_seconds_bucket{kind="x"}[5m]))) > 1'
    assert promql.mistakes(good, metrics) == []
    assert promql.mistakes("rate(a_totl[5m] offset 1h) and a_total", metrics) == [
        "there is no metric a_totl"
    ]
    assert promql.mistakes('a_total{clutser=~"x"}', metrics) == ["a_total has no clutser"]
    assert promql.mistakes("sum by (kind) (a_total)", metrics) == ["nothing here has kind"]


@pytest.fixture(scope="module")
def promtool() -> str:
    found = subprocess.run(
        [REPOSITORY / "scripts/promtool"], check=True, stdout=subprocess.PIPE, text=True
    )
    return found.stdout.strip()


@pytest.mark.parametrize(
    "what", [["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]]
)
def test_promtool_agrees(promtool: str, what: list[str]) -> None:
    answer = subprocess.run(
        [promtool, *what], cwd=ALERTS.parent, capture_output=True, text=True, timeout=60
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr


# --- the ways to run it ---


def test_the_systemd_unit_starts_what_there_is() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(DEPLOY / "systemd" / "ray-multicluster.service")
    service = unit["Service"]
    program, *arguments = shlex.split(service["ExecStart"])
    assert program == "/usr/local/bin/ray-multicluster"
    assert_takes(arguments)
    # Where systemd creates the directory, and where the program looks for it.
    assert service["StateDirectory"] == Path(STATE).name
    assert "${STATE_DIRECTORY}" in arguments
    assert CONFIG in arguments


def test_the_image_starts_what_there_is() -> None:
    steps = dockerfile()
    assert steps["ENTRYPOINT"] == ["ray-multicluster"]
    assert_takes(steps["CMD"])
    assert steps["EXPOSE"] == str(PORT)
    assert steps["VOLUME"] == STATE
    for line in (f"RAY_MULTICLUSTER_STATE_DIR={STATE}", f"CLUSTER_CONFIG_FILE={CONFIG}"):
        assert line in steps["ENV"]
    assert steps["USER"] == "10001:10001"
    ignore = (DEPLOY / "docker" / "Dockerfile.dockerignore").read_text().splitlines()
    for source in ("Cargo.toml", "Cargo.lock", "crates", "python", "console"):
        assert f"!{source}" in ignore, "it is copied into the image"


def test_the_manifest_fits_together() -> None:
    listed = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
    objects = {
        found["kind"]: found
        for name in listed["resources"]
        for found in yaml.safe_load_all((KUBERNETES / name).read_text())
    }
    spec = objects["Deployment"]["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == labels
    assert objects["Service"]["spec"]["selector"] == labels
    assert objects["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"] == labels

    container = deployed()
    assert_takes(container["args"])
    assert container["ports"] == [{"name": "http", "containerPort": PORT}]
    assert objects["Service"]["spec"]["ports"] == [
        {"name": "http", "port": PORT, "targetPort": "http"}
    ]
    probes = {
        kind: container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "readiness", "liveness")
    }
    # The one route that needs no token, under a name that is always accepted.
    host = [{"name": "Host", "value": "localhost"}]
    alive = {"path": "/healthz", "port": "http", "httpHeaders": host}
    assert probes == {"startup": alive, "readiness": alive, "liveness": alive}
    volumes = {volume["name"]: volume for volume in spec["template"]["spec"]["volumes"]}
    mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"]}
    claim = objects["PersistentVolumeClaim"]["metadata"]["name"]
    assert mounts[STATE]["persistentVolumeClaim"] == {"claimName": claim}
    assert (
        mounts[str(Path(CONFIG).parent)]["configMap"]["name"]
        == listed["configMapGenerator"][0]["name"]
    )
    assert dockerfile()["USER"] == "{runAsUser}:{runAsGroup}".format(
        **spec["template"]["spec"]["securityContext"]
    )


def test_what_the_manifest_runs_gets_ready_and_the_images_check_sees_it(tmp_path: Path) -> None:
    """The Deployment's arguments and cluster.yaml, on paths and addresses of this machine."""
    port = ports.a_port()
    pool = yaml.safe_load((KUBERNETES / "cluster.yaml").read_text())
    for cluster in pool["clusters"]:
        cluster["dashboard"] = f"http://127.0.0.1:{ports.a_port()}"  # no server there
    config = tmp_path / "cluster.yaml"
    config.write_text(yaml.safe_dump(pool))
    here = {
        CONFIG: str(config),
        STATE: str(tmp_path / "state"),
        ACCESS: str(tmp_path),
        f"0.0.0.0:{PORT}": f"127.0.0.1:{port}",
    }
    create = ["token", "create", "--tokens", str(tmp_path / "tokens.json"), "--owner", "zorro"]
    subprocess.run([str(binary()), *create], check=True, capture_output=True)
    arguments = [replaced(word, here) for word in deployed()["args"]]

    check = dockerfile()["HEALTHCHECK"]
    asked = [word.replace(f"/{PORT}", f"/{port}") for word in check]
    assert asked != check
    assert subprocess.run(asked, capture_output=True).returncode != 0, "nobody is there yet"
    with serving(arguments, tmp_path):
        for probe in ("startup", "readiness", "liveness"):
            path = deployed()[f"{probe}Probe"]["httpGet"]["path"]
            assert requests.get(f"http://127.0.0.1:{port}{path}", timeout=10).status_code == 200
        told = requests.get(f"http://127.0.0.1:{port}/v1/jobs", timeout=10)
        assert told.status_code == 401, "the tokens of the Secret are in force"
        found = subprocess.run(asked, capture_output=True, text=True, timeout=10)
        assert found.returncode == 0, found.stderr


# --- helpers ---


@contextlib.contextmanager
def work_of_every_kind(plane: Plane) -> Iterator[None]:
    """Jobs that run, fail and wait; a task; a log with too many readers; a cordon."""
    plane.post("/v1/jobs", {"id": "long", "entrypoint": "sleep 600", "needs": {"CPU": 3}})
    plane.post("/v1/jobs", {"entrypoint": "exit 1"})
    plane.post("/v1/jobs", {"id": "large", "entrypoint": "true", "entrypoint_num_cpus": 10_000})
    plane.post("/v1/placements?wait=30s", {"id": "task", "kind": "task", "demand": {"CPU": 1}})
    lease = {"id": "task", "attempt": 1}
    plane.post("/v1/placements/heartbeat", {"leases": [lease]})
    plane.post("/v1/placements/release", {"leases": [{**lease, "outcome": "succeeded"}]})
    wait_until(lambda: plane.native_job("long")["state"] == "running", "long runs", timeout=90)
    away = next(
        c["name"] for c in plane.clusters() if c["name"] != plane.native_job("long")["cluster"]
    )
    plane.post(f"/v1/clusters/{away}/cordon", {"note": "a test"})
    with contextlib.ExitStack() as followers:
        for _ in range(33):
            followers.enter_context(
                requests.get(f"{plane.address}/v1/jobs/long/logs/follow", stream=True, timeout=60)
            )
        yield
    plane.post("/v1/jobs/long/stop")
    wait_until(lambda: plane.native_job("long")["state"] == "stopped", "long has ended")


def measured(plane: Plane) -> dict[str, set[str]]:
    """The metrics that are above zero, with their labels."""
    page = plane.request("GET", "/metrics").text
    return {
        sample.name: set(sample.labels)
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.value > 0
    }


def labels_in(expression: str, metrics: dict[str, set[str]]) -> set[str]:
    return promql.TARGET.union(*(metrics[name] for name in metrics if name in expression))


def dashboard() -> dict[str, Any]:
    return json.loads(DASHBOARD.read_text())


def deployed() -> dict[str, Any]:
    """The container of the Deployment."""
    spec = yaml.safe_load((KUBERNETES / "deployment.yaml").read_text())["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    return container


def dockerfile() -> dict[str, Any]:
    """The instructions of the last stage by name; lists where they are lists."""
    text = (DEPLOY / "docker" / "Dockerfile").read_text()
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    found: dict[str, Any] = {}
    for line in text.rpartition("FROM ")[2].splitlines()[1:]:
        name, _, rest = line.partition(" ")
        listed = re.search(r"\[\".*\]$", rest)
        found[name] = json.loads(listed[0]) if listed else rest.strip()
    return found


def assert_takes(arguments: list[str]) -> None:
    assert arguments[0] == "serve"
    assert usage.mistakes(shlex.join([usage.PROGRAM, *arguments])) == []


def replaced(word: str, by: dict[str, str]) -> str:
    for old, new in by.items():
        word = word.replace(old, new)
    return word


@contextlib.contextmanager
def serving(arguments: list[str], home: Path) -> Iterator[None]:
    """The program with these arguments, from its ready line on."""
    process = subprocess.Popen(
        [str(binary()), *arguments],
        env=clean_environment(home),
        stdout=subprocess.PIPE,
        stderr=(home / "log").open("w"),
        text=True,
    )
    try:
        assert process.stdout is not None
        assert "is ready at" in process.stdout.readline(), (home / "log").read_text()
        yield
    finally:
        process.terminate()
        process.wait(20 * PATIENCE)
