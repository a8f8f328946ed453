"""Both wheels and the source distribution, installed into fresh environments, and used.

They are built from these sources; with `RELEASED`, they are those of `make release`.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
import requests
from packaging.requirements import Requirement

from ray_multicluster_scheduler import __version__
from support import packages
from support.jobs import unique_id, wait_for
from support.packages import Environment
from support.plane import REPOSITORY, MakePlane, Plane
from support.pool import Pool
from support.ray_cluster import Clusters, where
from support.user import User

# If it was not built before, the program is compiled first.
pytestmark = pytest.mark.timeout(1900 if packages.RELEASED else 900)

PACKAGE = "ray_multicluster_scheduler"
CONSOLE = "console/dist"

# A user's program. There is no Ray in these environments: jobs need none.
SUBMITS_A_JOB = """
import sys
from ray_multicluster_scheduler.app.client_api import (
    get_job_status, initialize_scheduler_environment, submit_job, wait_for_all_jobs,
)

with initialize_scheduler_environment(*sys.argv[2:]):
    job = submit_job(entrypoint="echo hello", submission_id=sys.argv[1])
    wait_for_all_jobs([job], timeout=120)
    print(job, get_job_status(job))
assert "ray" not in sys.modules
"""

ATTACHES = f"import sys, {PACKAGE}.app.client_api as a; a.initialize_scheduler_environment()"

# Every module that needs neither Ray nor Airflow, and a job that stays queued.
IMPORTS_EVERYTHING = f"""
import importlib, pkgutil, sys
import {PACKAGE} as sdk
for module in pkgutil.walk_packages(sdk.__path__, sdk.__name__ + "."):
    if "._ray." not in module.name and ".airflow." not in module.name:
        importlib.import_module(module.name)
with sdk.initialize_scheduler_environment(sys.argv[1]) as scheduler:
    print(scheduler.get_job_status(scheduler.submit_job("true")))
"""

# A job that was given the SDK.
INSIDE_A_JOB = f"""
import {PACKAGE} as sdk
context = sdk.current_context()
print("context", context.cluster, context.job_id, context.attempt, context.address)
print("version", sdk.__version__)
with sdk.initialize_scheduler_environment() as scheduler:
    print("status", scheduler.get_job_status(context.job_id))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("wheels")


@pytest.fixture(scope="module")
def platform_wheel(folder: Path) -> Path:
    return packages.platform_wheel(folder / "platform")


@pytest.fixture(scope="module")
def client_wheel(folder: Path) -> Path:
    return packages.client_wheel(folder / "client")


@pytest.fixture(scope="module")
def sdist(folder: Path) -> Path:
    return packages.sdist(folder / "sdist")


@pytest.fixture(scope="module", params=["wheel", "sdist"])
def with_program(request: pytest.FixtureRequest, folder: Path) -> Environment:
    """From the wheel, and built from source as on a Mac: with Rust and without Node."""
    if request.param == "wheel":
        return Environment(folder / "with_program", request.getfixturevalue("platform_wheel"))
    if packages.RELEASED is None:
        pytest.skip("compiles for minutes: `make release` installs from source")
    homes = {
        name: os.environ.get(name, str(Path.home() / folder))
        for name, folder in (("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup"))
    }
    kept = {name: value for name, value in os.environ.items() if name != "CARGO_TARGET_DIR"}
    rust = str(packages.only(folder / "rust", *packages.RUST))
    # pip would take what it built from an earlier file of that name.
    env = {**kept, **homes, "PATH": rust, "PIP_NO_CACHE_DIR": "1"}
    source = request.getfixturevalue("sdist")
    return Environment(folder / "built", source, env=env)


@pytest.fixture(scope="module")
def client_only(folder: Path, client_wheel: Path) -> Environment:
    """With the oldest supported line of urllib3: some environments pin it."""
    return Environment(folder / "client_only", client_wheel, "urllib3<2")


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    user = User(tmp_path)
    yield user
    user.leave()


def test_both_wheels_are_one_package_of_one_version(
    platform_wheel: Path, client_wheel: Path
) -> None:
    name, _, tag = client_wheel.stem.partition(f"-{__version__}-")
    assert (name, tag) == (PACKAGE, "py3-none-any")
    name, _, tag = platform_wheel.stem.partition(f"-{__version__}-")
    assert name == PACKAGE
    assert tag.startswith("py3-none-")
    assert not tag.endswith("any")
    cargo = (REPOSITORY / "Cargo.toml").read_text()
    assert f'[workspace.package]\nversion = "{__version__}"\n' in cargo

    assert sources(platform_wheel) == sources(client_wheel)
    assert f"{PACKAGE}/py.typed" in sources(client_wheel)
    assert described(platform_wheel) == described(client_wheel)
    for wheel in (platform_wheel, client_wheel):
        assert f"{PACKAGE}.airflow:get_provider_info" in entry_points(wheel)


@pytest.mark.skipif(packages.RELEASED is None, reason="`make release` writes them")
def test_the_checksums_are_those_of_the_files(
    platform_wheel: Path, client_wheel: Path, sdist: Path
) -> None:
    lines = (sdist.parent / "SHA256SUMS").read_text().splitlines()
    files = (platform_wheel, client_wheel, sdist)
    wanted = {f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}" for file in files}
    assert set(lines) == wanted


def test_the_metadata_says_what_is_needed(client_wheel: Path) -> None:
    said = described(client_wheel)
    assert said["Name"] == [PACKAGE]
    assert said["Requires-Python"] == [">=3.9"]
    assert said["License-Expression"] == ["Apache-2.0"]
    for minor in range(9, 14):
        assert f"Programming Language :: Python :: 3.{minor}" in said["Classifier"]
    assert "Typing :: Typed" in said["Classifier"]
    needs = {Requirement(text).name: Requirement(text) for text in said["Requires-Dist"]}
    assert set(needs) == {"urllib3", "pathspec", "ray", "apache-airflow"}
    assert str(needs["ray"].marker) == 'extra == "ray"', "Ray is optional"
    assert str(needs["apache-airflow"].marker) == 'extra == "airflow"'
    assert needs["ray"].specifier.contains("2.60.0"), "the version of tests/requirements.txt"
    assert needs["urllib3"].specifier.contains("1.26.20")


def test_the_source_distribution_has_all_that_the_build_reads(
    sdist: Path, client_wheel: Path, tmp_path: Path
) -> None:
    """The console as Node built it, the SDK, every crate; nothing outside of it is needed."""
    with tarfile.open(sdist) as file:
        names = file.getnames()
        file.extractall(tmp_path, filter="data")
    root = tmp_path / f"{PACKAGE}-{__version__}"
    assert {name.partition("/")[0] for name in names} == {root.name}
    python = {name.partition("/python/")[2] for name in names}
    assert set(sources(client_wheel)) <= python
    assert f"{PACKAGE}.data/scripts/ray-multicluster-scheduler" in python
    if packages.RELEASED:
        (script,) = root.glob("python/*.data/scripts/*")
        assert script.stat().st_mode & 0o111, "pip installs it as it is"
    console = root / CONSOLE
    if packages.RELEASED or (REPOSITORY / CONSOLE / "index.html").exists():
        page = (console / "index.html").read_text()
        assets = re.findall(r'"/(assets/[^"]+)"', page)
        assert assets
        assert all((console / asset).is_file() for asset in assets), assets
    assert not list(root.rglob("node_modules"))
    # Manifests and lock file fit together, without the network.
    command = ["cargo", "metadata", "--locked", "--offline", "--no-deps", "--format-version=1"]
    said = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    # Files that the build reads besides sources.
    read = r'(?:include_\w+!\(|const \w+: &str = )"(\.\./[^"]+)"'
    for source in [*root.glob("crates/*/build.rs"), *root.glob("crates/*/src/**/*.rs")]:
        for path in re.findall(read, source.read_text()):
            if not {"tests", "tests.rs"} & set(source.relative_to(root).parts):
                found = (source.parent / path).resolve()
                assert found.is_relative_to(root.resolve()), f"{source}: {path}"
                assert found.exists() or path.endswith(CONSOLE), f"{source}: {path}"


def test_the_platform_wheel_brings_the_program(with_program: Environment, user: User) -> None:
    for script in ("ray-multicluster", "ray-multicluster-scheduler"):
        ran = with_program.run(user, script, "--version")
        assert (ran.stdout, ran.stderr) == (f"ray-multicluster {__version__}\n", "")
        ran = with_program.run(user, script, "serve", "--no-such-flag")
        assert ran.returncode == 2, "exit codes are the program's"
    ran = with_program.run(user, "python", "-m", PACKAGE, "--version")
    assert (ran.stdout, ran.stderr) == (f"ray-multicluster {__version__}\n", "")


def test_with_the_platform_wheel_a_job_runs_by_a_control_plane_of_the_user_s_own(
    with_program: Environment, user: User, clusters: Clusters
) -> None:
    file = user.home / "cluster.yaml"
    Pool(list(clusters.values())).write(file)
    job = unique_id("wheel")
    ran = with_program.run(user, "python", "-c", SUBMITS_A_JOB, job)
    assert ran.stdout.splitlines()[-1:] == [f"{job} SUCCEEDED"], ran.stderr
    assert len(where(clusters, job)) == 1
    (plane,) = user.planes()
    notice = user.notice(plane)
    assert str(notice["config"]) == str(file)
    # `make build` leaves the console out where there is no Node.
    if packages.RELEASED or (REPOSITORY / CONSOLE / "index.html").exists():
        token = (user.state(plane) / "own-token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        page = requests.get(str(notice["address"]), headers=headers, timeout=20).text
        assert '<div id="app">' in page


def test_the_client_only_wheel_says_that_there_is_no_program(
    client_only: Environment, user: User
) -> None:
    user.config()
    (user.home / "pool/cluster.yaml").rename(user.home / "cluster.yaml")
    for script in ("ray-multicluster", "ray-multicluster-scheduler"):
        ran = client_only.run(user, script, "--version")
        assert ran.returncode == 1
        assert "error: the control plane's program ray-multicluster was not found" in ran.stderr
        assert "install the wheel for this platform" in ran.stderr
    ran = client_only.run(user, "python", "-c", ATTACHES)
    assert f"{PACKAGE}.errors.ControlPlaneError: the control plane's program" in ran.stderr
    assert "RAY_MULTICLUSTER_ADDRESS" in ran.stderr


def test_the_client_only_wheel_runs_a_program_that_is_elsewhere(
    client_only: Environment, user: User
) -> None:
    program = user.environment["RAY_MULTICLUSTER_BIN"]
    for script in ("ray-multicluster", "ray-multicluster-scheduler"):
        ran = client_only.run(user, script, "--version", RAY_MULTICLUSTER_BIN=program)
        assert ran.stdout == f"ray-multicluster {__version__}\n"


@pytest.mark.parametrize("version", ["3.9", "3.13"])
def test_the_oldest_and_the_newest_python_will_do(
    client_wheel: Path, user: User, tmp_path: Path, version: str
) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"there is no Python {version} on this machine")
    environment = Environment(tmp_path / "environment", client_wheel, python=python)
    program = user.environment["RAY_MULTICLUSTER_BIN"]
    ran = environment.run(
        user, "python", "-c", IMPORTS_EVERYTHING, user.config(), RAY_MULTICLUSTER_BIN=program
    )
    assert (ran.stdout, ran.stderr) == ("PENDING\n", "")


def test_with_the_client_only_wheel_a_job_runs_by_a_control_plane_elsewhere(
    client_only: Environment, user: User, plane: Plane, clusters: Clusters
) -> None:
    job = unique_id("wheel")
    ran = client_only.run(
        user, "python", "-c", SUBMITS_A_JOB, job, RAY_MULTICLUSTER_ADDRESS=plane.address
    )
    assert ran.stdout.splitlines()[-1:] == [f"{job} SUCCEEDED"], ran.stderr
    assert len(where(clusters, job)) == 1
    assert user.planes() == []


def test_a_job_is_given_the_package_on_a_cluster_that_has_none(
    make_plane: MakePlane, tmp_path: Path
) -> None:
    def on_mac(pool: Pool) -> None:
        pool["mac"]["inject_sdk"] = True

    plane = make_plane(on_mac)
    script = tmp_path / "inside.py"
    script.write_text(INSIDE_A_JOB)
    job = unique_id("inside")
    request = {"id": job, "entrypoint": f"python {script}", "preferred_cluster": "mac"}
    plane.post("/v1/jobs", {**request, "required": True})
    wait_for(plane.client, job, "SUCCEEDED")
    said = plane.client.get_job_logs(job).splitlines()
    assert f"context mac {job} 1 {plane.address}" in said
    assert f"version {__version__}" in said
    # From the control plane, which may not know yet that the job runs.
    assert {"status PENDING", "status RUNNING"} & set(said)


def interpreter(version: str) -> str | None:
    """A Python of that version: on `PATH`, or one of pyenv's."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    candidates = [shutil.which(f"python{version}"), *versions.glob(f"{version}.*/bin/python")]
    for candidate in filter(None, candidates):
        if subprocess.run([candidate, "-c", "import venv"], capture_output=True).returncode == 0:
            return str(candidate)
    return None


def sources(wheel: Path) -> list[str]:
    """The package itself."""
    with zipfile.ZipFile(wheel) as file:
        return sorted(name for name in file.namelist() if name.startswith(f"{PACKAGE}/"))


def entry_points(wheel: Path) -> str:
    """What other programs, such as Airflow, find in it."""
    with zipfile.ZipFile(wheel) as opened:
        return opened.read(f"{PACKAGE}-{__version__}.dist-info/entry_points.txt").decode()


def described(wheel: Path) -> dict[str, list[str]]:
    """The metadata, in whichever form the builder writes it."""
    with zipfile.ZipFile(wheel) as file:
        name = f"{PACKAGE}-{__version__}.dist-info/METADATA"
        said: Message = Parser().parsestr(file.read(name).decode())
    fields = {key: sorted(said.get_all(key, [])) for key in set(said.keys())}
    fields["Requires-Dist"] = sorted(str(Requirement(text)) for text in fields["Requires-Dist"])
    fields["Keywords"] = sorted(",".join(fields["Keywords"]).split(","))
    fields["Description"] = [str(said.get_payload()).strip()]
    del fields["Description-Content-Type"]
    return fields
