"""deploy/ fits the program it deploys and the metrics it watches."""

from __future__ import annotations

import configparser
import contextlib
import json
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
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
REPLICAS = KUBERNETES / "replicas"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
DASHBOARD = DEPLOY / "grafana" / "ray-multicluster.json"
RULES = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
PORT = 8700
CONFIG, STATE = "/etc/ray_scheduler/cluster.yaml", "/var/lib/ray-multicluster"
ACCESS = "/etc/ray-multicluster"
PROBES = ("startup", "readiness", "liveness")
# The one route that needs no token, under a name that is always accepted.
ALIVE = {
    "path": "/healthz",
    "port": "http",
    "httpHeaders": [{"name": "Host", "value": "localhost"}],
}
# Each occurrence is a bug, so the count stays zero.
BUGS = "multicluster_impossible_transitions_total"
# Above zero only where there are several replicas.
OF_REPLICAS = {
    "multicluster_leader_epoch",
    "multicluster_leadership_changes_total",
    "multicluster_store_behind_seconds",
    "multicluster_forwarded_requests_total",
    "multicluster_held_requests",
}
# Above zero only where a cluster is elastic: tests/elastic.
OF_ELASTIC = {
    "multicluster_cluster_can_add_nodes",
    "multicluster_cluster_nodes_pending",
    "multicluster_cluster_waiting_for_nodes",
    "multicluster_cluster_stuck",
}


# --- metrics, alerts, dashboard ---


def test_every_documented_metric_is_there_under_load(make_plane: MakePlane) -> None:
    documented = promql.documented()
    assert documented.pop(BUGS) == set()
    for name in OF_REPLICAS | OF_ELASTIC:
        del documented[name]
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


def test_the_systemd_unit_of_a_replica_starts_what_there_is() -> None:
    text = (DEPLOY / "systemd" / "replica.conf").read_text()
    assert "ExecStart=\nExecStart=/usr" in text, "it replaces the command of the unit"
    drop_in = configparser.ConfigParser(strict=False, interpolation=None)
    drop_in.optionxform = str  # type: ignore[assignment, method-assign]
    drop_in.read_string(text)
    program, *arguments = shlex.split(drop_in["Service"]["ExecStart"])
    assert program == "/usr/local/bin/ray-multicluster"
    assert_takes([replaced(word, {"${LISTEN}": "10.0.0.1:8700"}) for word in arguments])
    assert "http://${LISTEN}" in arguments, "where the other replica reaches it"
    loaded = set(re.findall(r"^LoadCredential=([\w.]+):", text, re.MULTILINE))
    used = set(re.findall(r"\$\{CREDENTIALS_DIRECTORY\}/([\w.]+)", text))
    assert loaded == used == {"tokens.json", "keys"}
    # The URL has a password: it comes from the file, not from the command line.
    assert not any(word.startswith("--store") for word in arguments)


def test_the_load_balancer_waits_longer_than_requests_are_held() -> None:
    lines = (DEPLOY / "systemd" / "haproxy.cfg").read_text().splitlines()
    words = [line.split() for line in lines if not line.lstrip().startswith("#")]
    timeouts = {line[1]: line[2] for line in words if line[:1] == ["timeout"]}
    assert timeouts["server"] == timeouts["client"] == "10m"
    servers = [line[2] for line in words if line[:1] == ["server"]]
    assert servers == [f"10.0.0.{host}:{PORT}" for host in (1, 2)]
    assert any("/readyz" in line for line in words)


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
    listed, objects = manifest(KUBERNETES)
    spec = objects["Deployment"]["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    container = assert_wired(objects, deployed())
    probes = {kind: container[f"{kind}Probe"]["httpGet"] for kind in PROBES}
    assert probes == dict.fromkeys(PROBES, ALIVE)
    mounts = mounted(spec, container)
    claim = objects["PersistentVolumeClaim"]["metadata"]["name"]
    assert mounts[STATE]["persistentVolumeClaim"] == {"claimName": claim}
    assert (
        mounts[str(Path(CONFIG).parent)]["configMap"]["name"]
        == listed["configMapGenerator"][0]["name"]
    )


def test_the_manifest_of_replicas_fits_together() -> None:
    listed, objects = manifest(REPLICAS)
    spec = objects["Deployment"]["spec"]
    pod = spec["template"]["spec"]
    assert spec["replicas"] == 2
    assert spec["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    container = assert_wired(objects, deployed(REPLICAS))
    labels = spec["selector"]["matchLabels"]
    assert objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    (term,) = pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert term["podAffinityTerm"]["labelSelector"]["matchLabels"] == labels
    callers = objects["NetworkPolicy"]["spec"]["ingress"][0]["from"]
    assert {"podSelector": {"matchLabels": labels}} in callers, "followers reach the leader"

    arguments = container["args"]
    assert f"--advertise=http://$(POD_IP):{PORT}" in arguments
    assert "--host=$(POD_IP)" in arguments, "the name by which a follower asks the leader"
    env = {variable["name"]: variable for variable in container["env"]}
    assert env["POD_IP"]["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"
    assert "secretKeyRef" in env["RAY_MULTICLUSTER_STORE"]["valueFrom"]
    assert container["startupProbe"]["httpGet"] == container["livenessProbe"]["httpGet"] == ALIVE
    assert "GET /readyz " in container["readinessProbe"]["exec"]["command"][-1]
    # A hand-over, and the time until no new connection arrives.
    assert pod["terminationGracePeriodSeconds"] > 5 + 2 + 5
    mounts = mounted(spec, container)
    assert "emptyDir" in mounts[STATE], "the state is in the database"
    key_file = Path(env["RAY_MULTICLUSTER_KEY_FILE"]["value"])
    assert mounts[str(key_file.parent)]["secret"]["defaultMode"] == 0o440, "closed to others"
    assert (
        mounts[str(Path(CONFIG).parent)]["configMap"]["name"]
        == listed["configMapGenerator"][0]["name"]
    )


def test_the_manifests_of_one_and_of_two_agree_on_the_rest() -> None:
    (_, one), (_, two) = manifest(KUBERNETES), manifest(REPLICAS)
    for kind in ("Namespace", "Service"):
        assert one[kind] == two[kind]
    assert (KUBERNETES / "cluster.yaml").read_text() == (REPLICAS / "cluster.yaml").read_text()
    only_one, only_two = (set(deployed(folder)["args"]) for folder in (KUBERNETES, REPLICAS))
    assert only_one - only_two == set()
    assert {word.partition("=")[0] for word in only_two - only_one} == {"--advertise", "--host"}


def test_the_database_to_try_replicas_with_fits_together() -> None:
    _, objects = manifest(KUBERNETES / "postgres")
    spec = objects["StatefulSet"]["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == labels
    assert objects["Service"]["spec"]["selector"] == labels
    policy = objects["NetworkPolicy"]["spec"]
    assert policy["podSelector"]["matchLabels"] == labels
    (caller,) = policy["ingress"][0]["from"]
    _, replicas = manifest(REPLICAS)
    replica = replicas["Deployment"]["spec"]["selector"]["matchLabels"]
    assert caller["podSelector"]["matchLabels"] == replica
    (container,) = spec["template"]["spec"]["containers"]
    assert objects["Service"]["spec"]["ports"][0]["targetPort"] == container["ports"][0]["name"]
    data = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}["data"]
    env = {variable["name"]: variable.get("value", "") for variable in container["env"]}
    assert env["PGDATA"].startswith(f"{data}/")
    assert spec["volumeClaimTemplates"][0]["metadata"]["name"] == "data"


def test_the_probe_of_a_replica_sees_whether_it_is_ready(tmp_path: Path) -> None:
    """With a token, and refused without."""
    port = ports.a_port()
    config, tokens = tmp_path / "cluster.yaml", tmp_path / "tokens.json"
    pool = {"name": "a", "head_address": "127.0.0.1:1", "dashboard": "http://127.0.0.1:1"}
    config.write_text(yaml.safe_dump({"clusters": [pool]}))
    create = ["token", "create", "--tokens", str(tokens), "--owner", "probe", "--role", "read"]
    made = subprocess.run([str(binary()), *create], check=True, capture_output=True, text=True)
    arguments = ["serve", f"--config={config}", f"--state-dir={tmp_path / 'state'}"]
    arguments += [f"--listen=127.0.0.1:{port}", f"--tokens={tokens}"]

    here = {f"/{PORT}": f"/{port}", ACCESS: str(tmp_path)}
    probe = deployed(REPLICAS)["readinessProbe"]["exec"]["command"]
    probe = [replaced(word, here) for word in probe]
    with serving(arguments, tmp_path):
        for token, is_ready in ((made.stdout, True), ("no token", False)):
            (tmp_path / "probe-token").write_text(token)
            answer = subprocess.run(probe, capture_output=True, text=True, timeout=20)
            assert (answer.returncode == 0) == is_ready, answer.stderr
    assert subprocess.run(probe, capture_output=True).returncode != 0, "it has ended"


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
        for probe in PROBES:
            path = deployed()[f"{probe}Probe"]["httpGet"]["path"]
            assert requests.get(f"http://127.0.0.1:{port}{path}", timeout=10).status_code == 200
        told = requests.get(f"http://127.0.0.1:{port}/v1/jobs", timeout=10)
        assert told.status_code == 401, "the tokens of the Secret are in force"
        found = subprocess.run(asked, capture_output=True, text=True, timeout=10)
        assert found.returncode == 0, found.stderr


def test_what_the_manifest_of_replicas_runs_takes_over_and_every_metric_tells(
    tmp_path: Path,
) -> None:
    """The Deployment's arguments twice, on one database, which then is away for a moment."""
    documented = promql.documented()
    config, tokens = tmp_path / "cluster.yaml", tmp_path / "tokens.json"
    pool = {"name": "a", "head_address": "127.0.0.1:1", "dashboard": "http://127.0.0.1:1"}
    config.write_text(yaml.safe_dump({"clusters": [pool]}))
    create = ["token", "create", "--tokens", str(tokens), "--owner", "o", "--role", "admin"]
    made = subprocess.run([str(binary()), *create], check=True, capture_output=True, text=True)
    headers = {"Authorization": f"Bearer {made.stdout.strip()}"}
    seen: dict[str, set[str]] = {}

    def ask(place: str, path: str) -> str:
        return requests.get(f"http://{place}{path}", headers=headers, timeout=30).text

    def see(place: str, *names: str) -> bool:
        seen.update(above_zero(ask(place, "/metrics")))
        return seen.keys() >= set(names)

    def submit(place: str, job: str) -> int:
        request = {"id": job, "entrypoint": "true"}
        url = f"http://{place}/v1/jobs"
        return requests.post(url, json=request, headers=headers, timeout=60).status_code

    def role(place: str) -> str:
        return ask(place, "/readyz").split()[1]

    with a_database() as database, contextlib.ExitStack() as replicas:
        processes = {}
        for _ in range(2):
            place = f"127.0.0.1:{ports.a_port()}"
            (home := tmp_path / place).mkdir()
            here = {
                CONFIG: str(config),
                STATE: str(home / "state"),
                ACCESS: str(tmp_path),
                f"0.0.0.0:{PORT}": place,
                f"$(POD_IP):{PORT}": place,
                "$(POD_IP)": "127.0.0.1",
            }
            arguments = [replaced(word, here) for word in deployed(REPLICAS)["args"]]
            env = {"RAY_MULTICLUSTER_STORE": database.url}
            processes[place] = replicas.enter_context(serving(arguments, home, env))
        roles = {role(place): place for place in processes}
        leader, follower = roles["leader"], roles["follower"]
        assert [submit(leader, "a"), submit(follower, "b")] == [201, 201]
        see(leader)
        with ThreadPoolExecutor() as callers:
            processes[leader].kill()
            answer = callers.submit(submit, follower, "c")
            held = "multicluster_held_requests"
            wait_until(lambda: see(follower, held), "it holds the request", timeout=10, every=0.05)
            assert answer.result() == 201, "the next leader has it"
        assert role(follower) == "leader"
        database.stop()
        wait_until(lambda: see(follower, *OF_REPLICAS), "every metric has something to say")
        database.start()
    assert {name: seen[name] for name in OF_REPLICAS} == {
        name: documented[name] for name in OF_REPLICAS
    }


# --- helpers ---


class Database:
    """A PostgreSQL of this test's own."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.port = ports.a_port()
        self.url = f"postgres://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        self._run("start", self.directory, str(self.port))

    def stop(self) -> None:
        self._run("stop", self.directory)

    @staticmethod
    def _run(*what: str) -> None:
        # The server keeps what it inherits, so it gets no pipe.
        command = [str(REPOSITORY / "scripts/postgres"), *what]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=300)


@contextlib.contextmanager
def a_database() -> Iterator[Database]:
    # Short, for the path of a socket, and where the user `postgres` may enter.
    database = Database(tempfile.mkdtemp(prefix="rmc-pg-", dir="/tmp"))
    try:
        database.start()
        yield database
    finally:
        database.stop()
        shutil.rmtree(database.directory, ignore_errors=True)


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
    return above_zero(plane.request("GET", "/metrics").text)


def above_zero(page: str) -> dict[str, set[str]]:
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


def manifest(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The kustomization, and the objects that it lists by kind."""
    listed = yaml.safe_load((folder / "kustomization.yaml").read_text())
    objects = {
        found["kind"]: found
        for name in listed["resources"]
        for found in yaml.safe_load_all((folder / name).read_text())
    }
    return listed, objects


def deployed(folder: Path = KUBERNETES) -> dict[str, Any]:
    """The container of the Deployment."""
    spec = yaml.safe_load((folder / "deployment.yaml").read_text())["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    return container


def mounted(spec: dict[str, Any], container: dict[str, Any]) -> dict[str, Any]:
    """The volumes by the paths at which the container has them."""
    volumes = {volume["name"]: volume for volume in spec["template"]["spec"]["volumes"]}
    return {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"]}


def assert_wired(objects: dict[str, Any], container: dict[str, Any]) -> dict[str, Any]:
    """Labels, ports and the user agree, and the program takes the arguments."""
    spec = objects["Deployment"]["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == labels
    assert objects["Service"]["spec"]["selector"] == labels
    assert objects["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"] == labels
    assert_takes(container["args"])
    assert container["ports"] == [{"name": "http", "containerPort": PORT}]
    assert objects["Service"]["spec"]["ports"] == [
        {"name": "http", "port": PORT, "targetPort": "http"}
    ]
    assert dockerfile()["USER"] == "{runAsUser}:{runAsGroup}".format(
        **spec["template"]["spec"]["securityContext"]
    )
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
def serving(
    arguments: list[str], home: Path, env: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """The program with these arguments, from its ready line on."""
    process = subprocess.Popen(
        [str(binary()), *arguments],
        env={**clean_environment(home), **(env or {})},
        stdout=subprocess.PIPE,
        stderr=(home / "log").open("w"),
        text=True,
    )
    try:
        assert process.stdout is not None
        assert "is ready at" in process.stdout.readline(), (home / "log").read_text()
        yield process
    finally:
        process.terminate()
        process.wait(20 * PATIENCE)
