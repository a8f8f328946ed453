"""The SDK is sent with the jobs it submits, and warns of other copies of itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from ray_multicluster_scheduler import __version__
from ray_multicluster_scheduler._jobs import own_package
from ray_multicluster_scheduler._jobs.jobs import Jobs
from support.fake_plane import FakePlane
from support.plane import REPOSITORY

PACKAGE = REPOSITORY / "python" / "ray_multicluster_scheduler"


def test_a_job_names_the_package_of_the_sdk_which_is_uploaded_once(
    fake: FakePlane, jobs: Jobs
) -> None:
    for _ in range(3):
        jobs.submit("python x.py")
    sent = [json.loads(body) for verb, _, body in fake.requests if verb == "POST"]
    (uri,) = {job["sdk"] for job in sent}
    assert len(fake.asked("PUT", "/api/packages/")) == 1
    with zipfile.ZipFile(BytesIO(fake.packages[uri[len("gcs://") :]])) as package:
        names = set(package.namelist())
        version = package.read("ray_multicluster_scheduler/_version.py").decode()
    sources = {str(file.relative_to(PACKAGE.parent)) for file in PACKAGE.rglob("*.py")}
    assert names == sources | {"ray_multicluster_scheduler/py.typed"}
    assert f'__version__ = "{__version__}"' in version


def test_entries_of_a_pythonpath_that_hold_another_copy_are_found(tmp_path: Path) -> None:
    (tmp_path / "libs" / "ray_multicluster_scheduler").mkdir(parents=True)
    (tmp_path / "libs" / "ray_multicluster_scheduler" / "__init__.py").touch()
    (tmp_path / "empty").mkdir()

    def found(path: str) -> list[str]:
        return [*own_package.other_copies({"env_vars": {"PYTHONPATH": path}})]

    checkout = "/home/zorro/pycharm/ray_multicluster_scheduler"
    assert found(f"/home/zorro/quant:{checkout}:${{PYTHONPATH}}") == [checkout]
    assert found(f"{tmp_path}/empty:{tmp_path}/libs/") == [f"{tmp_path}/libs"]
    assert found(f"{PACKAGE.parent}:/home/zorro/quant::.") == [], "itself is no other copy"
    for env in ({}, None, {"env_vars": None}, {"env_vars": {"PYTHONPATH": 1}}):
        assert [*own_package.other_copies(env)] == []


def test_other_copies_are_told_once_with_what_comes_of_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = {"env_vars": {"PYTHONPATH": "/once/ray_multicluster_scheduler"}}
    clusters = [
        {"name": "centos", "runtime_env": path},
        {"name": "mac", "runtime_env": path, "inject_sdk": False},
    ]
    for _ in range(2):
        own_package.warn_of_other_copies(clusters)
    where = "on its PYTHONPATH, /once/ray_multicluster_scheduler: jobs"
    names = f"has another copy of this package {where}"
    hint = "  hint: remove it from the cluster's runtime_env"
    assert capsys.readouterr().err.splitlines() == [
        f"ray-multicluster: cluster centos {names} of this program use their own copy",
        hint,
        "ray-multicluster: cluster mac "
        f"{names} there use that copy, because of `inject_sdk: false`",
        hint,
    ]


@pytest.mark.parametrize("version", [__version__, "9.9.9", None])
def test_a_job_with_another_version_than_its_control_plane_says_so_in_one_line(
    version: str | None,
) -> None:
    program = "import ray_multicluster_scheduler as rms\n" * 2
    program += "for _ in range(2): rms.initialize_scheduler_environment('/nowhere').stop()"
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(PACKAGE.parent),
        "RAY_MULTICLUSTER_CURRENT_CLUSTER": "mac",
        "RAY_MULTICLUSTER_JOB_ID": "job",
        **({"RAY_MULTICLUSTER_VERSION": version} if version else {}),
    }
    ran = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
    told = (
        f"ray-multicluster: this job imports ray_multicluster_scheduler {__version__} from "
        f"{PACKAGE}, and its control plane is 9.9.9: use the same version on both sides\n"
    )
    assert (ran.returncode, ran.stderr) == (0, told if version == "9.9.9" else "")
