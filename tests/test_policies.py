"""Policies of the users' configuration and registered ones, with the real program.

The clusters are fakes: their reports decide, and a test can set them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest

import ray_multicluster_scheduler as rms
from performance.fakes import fake_clusters
from support.plane import REPOSITORY, Plane
from support.pool import Pool
from support.waiting import wait_until

#: As the users' cluster.yaml has them.
USERS = {
    "centos": {"prefer": False, "weight": 1.0, "tags": ["linux", "x86_64"]},
    "mac": {"prefer": True, "weight": 1.2, "tags": ["macos", "arm64"]},
}
SMALL = {"entrypoint": "true", "entrypoint_num_cpus": 1}
TO_CENTOS = "cluster == 'centos' ? 1.0 : 0.0"

MakeUsersPlane = Callable[..., Plane]


@pytest.fixture
def make_users_plane(tmp_path: Path) -> Iterator[MakeUsersPlane]:
    """Two clusters of 10 CPUs under the users' names, idle."""
    with fake_clusters(2, cpus=10) as fakes:
        planes: list[Plane] = []

        def make(own: dict[str, dict[str, Any]] = USERS, **settings: Any) -> Plane:
            pool = Pool([], settings)
            for fake, (name, keys) in zip(fakes, own.items()):
                pool.clusters.append({**fake, "name": name, **keys})
            planes.append(Plane(tmp_path / "plane", pool).start())
            planes[0].wait_healthy()
            return planes[0]

        yield make
        for plane in planes:
            plane.close()


@pytest.fixture
def sdk(make_users_plane: MakeUsersPlane, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plane]:
    """The users' plane, as this program's."""
    plane = make_users_plane()
    monkeypatch.setenv("RAY_MULTICLUSTER_ADDRESS", plane.address)
    with rms.initialize_scheduler_environment():
        yield plane


def occupy(plane: Plane, cluster: str, share: float, *resources: str) -> None:
    """Gives this share of a cluster to a job that stays."""
    total = plane.cluster(cluster)["total"]
    field = {"CPU": "entrypoint_num_cpus", "memory": "entrypoint_memory"}
    asked = {field[name]: int(total[name] * share) for name in resources}
    job = {"entrypoint": "forever", "preferred_cluster": cluster, "required": True, **asked}
    job_id = plane.post("/v1/jobs", job)["id"]
    wait_until(lambda: plane.native_job(job_id).get("cluster"), f"{job_id} is on {cluster}")


def what_if(plane: Plane) -> tuple[str, dict[str, float]]:
    """Where a small job would go, and the scores."""
    found = plane.post("/v1/what-if", SMALL)
    return found["chosen"], {each["cluster"]: each["score"] for each in found["clusters"]}


def placed(plane: Plane, **job: Any) -> str:
    """The cluster of a job that is submitted now."""
    job_id = plane.post("/v1/jobs", {**SMALL, **job})["id"]
    return wait_until(lambda: plane.native_job(job_id).get("cluster"), f"{job_id} is placed")


@pytest.mark.parametrize(
    ("said", "share", "resources", "wins"),
    [
        ("idle", 0.0, (), "mac"),
        ("30 % of the CPUs", 0.3, ("CPU",), "mac"),
        ("60 % of the CPUs", 0.6, ("CPU",), "centos"),
        ("30 % of CPUs and memory", 0.3, ("CPU", "memory"), "centos"),
        ("60 % of CPUs and memory", 0.6, ("CPU", "memory"), "centos"),
    ],
)
def test_what_wins_with_the_users_weights_is_what_the_docs_say(
    make_users_plane: MakeUsersPlane,
    said: str,
    share: float,
    resources: tuple[str, ...],
    wins: str,
) -> None:
    plane = make_users_plane()
    if resources:
        occupy(plane, "mac", share, *resources)
    chosen, scores = what_if(plane)
    assert chosen == wins, scores
    assert placed(plane) == wins
    row = f"| {said} | {scores['centos']:.3f} | {scores['mac']:.3f} | `{wins}` |"
    page = (REPOSITORY / "docs" / "scheduling.md").read_text()
    assert row in page, row


def test_centos_resident_mac_elastic(make_users_plane: MakeUsersPlane) -> None:
    own = {
        "centos": {**USERS["centos"], "prefer": True},
        "mac": {**USERS["mac"], "prefer": False},
    }
    plane = make_users_plane(own, policies=[{"name": "weighted_preference"}])
    job = {"entrypoint": "forever", "entrypoint_num_cpus": 2}
    # CentOS gets all jobs until it is over its threshold of 70 %; from then on the Mac helps out.
    assert [placed(plane, **job) for _ in range(4)] == ["centos"] * 4
    assert [placed(plane, **job) for _ in range(2)] == ["mac"] * 2
    first = plane.get("/v1/jobs", params={"cluster": "centos"})["items"][-1]["id"]
    plane.post(f"/v1/jobs/{first}/stop")
    wait_until(
        lambda: what_if(plane)[0] == "centos", "work goes to CentOS again as soon as it has room"
    )


def test_mac_opens_only_when_work_has_waited(make_users_plane: MakeUsersPlane) -> None:
    late = {"name": "mac_is_elastic", "filter": "cluster != 'mac' || oldest_wait >= 5.0"}
    plane = make_users_plane(policies=[{"name": "score"}, late])
    occupy(plane, "centos", 0.8, "CPU")
    job_id = plane.post("/v1/jobs", SMALL)["id"]
    assert "excluded by policy mac_is_elastic" in plane.get(f"/v1/jobs/{job_id}/explain")["summary"]
    assert wait_until(lambda: plane.native_job(job_id).get("cluster"), "it is placed") == "mac"


def test_a_registered_policy_decides_survives_a_crash_and_is_removed(sdk: Plane) -> None:
    assert placed(sdk) == "mac"
    policy = rms.register_policy("to_centos", TO_CENTOS, weight=5)
    assert policy == rms.Policy("to_centos", "score", "api", 5.0, TO_CENTOS)
    assert placed(sdk) == "centos"
    sdk.kill()
    sdk.start()
    sdk.wait_healthy()
    assert [(each.name, each.source) for each in rms.policies()] == [
        ("score", "file"),
        ("weighted_preference", "file"),
        ("to_centos", "api"),
    ]
    assert placed(sdk) == "centos"
    rms.unregister_policy("to_centos")
    assert len(rms.policies()) == 2
    assert placed(sdk) == "mac"
    sdk.restart()
    assert len(rms.policies()) == 2


def test_a_policy_is_tried_before_anything_changes(sdk: Plane) -> None:
    for number in range(3):
        assert placed(sdk, id=f"job-{number}") == "mac"
    trial = rms.try_policy("to_centos", TO_CENTOS, weight=5, decisions=2)
    assert (trial.differ, len(trial.items), trial.left_out) == (2, 2, 0)
    item = trial.items[0]
    assert (item.job, item.decided, item.now, item.then) == ("job-2", "mac", "mac", "centos")
    one = rms.try_policy("closed", filter="false", job_id="job-0").items[0]
    assert (one.differs, one.now, one.then) == (True, "mac", None)
    assert one.raw["then"]["clusters"][0]["text"] == "excluded by policy closed"
    # Without the weights the Mac is no better than CentOS, which was idle all the time.
    without = rms.try_policy("weighted_preference", remove=True)
    assert [item.then for item in without.items] == ["centos"] * 3
    assert len(rms.policies()) == 2
    assert placed(sdk) == "mac"


def test_a_bad_policy_raises_policy_evaluation_error_with_text_and_hint(sdk: Plane) -> None:
    for call in (rms.register_policy, rms.try_policy):
        with pytest.raises(rms.PolicyEvaluationError, match="fre_cpu") as raised:
            call("mine", "fre_cpu / total_cpu")
        assert raised.value.code == "bad_policy"
        assert "known names are cluster" in str(raised.value)
    with pytest.raises(rms.PolicyEvaluationError, match="an expression and a filter"):
        rms.register_policy("mine", "1.0", filter="true")
    with pytest.raises(
        rms.ConfigurationError, match="policy score is one of the settings"
    ) as raised:
        rms.unregister_policy("score")
    assert str(sdk.config) in str(raised.value)
    with pytest.raises(rms.ConfigurationError, match="there is no policy none"):
        rms.unregister_policy("none")
    with pytest.raises(rms.ConfigurationError, match="both given"):
        rms.try_policy("mine", "1.0", job_id="x", decisions=1)
