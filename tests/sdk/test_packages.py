"""Packages of jobs: the same files as with Ray's own client, uploaded once."""

from __future__ import annotations

import json
import os
import shutil
import types
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, Callable

import pytest
from ray._private.runtime_env import packaging

from ray_multicluster_scheduler import errors
from ray_multicluster_scheduler._jobs import archive, ignores, runtime_env
from ray_multicluster_scheduler._jobs.jobs import Jobs
from ray_multicluster_scheduler._jobs.packages import Packages
from ray_multicluster_scheduler._plane.client import ControlPlane
from ray_multicluster_scheduler._plane.own_folders import OwnFolders
from support.fake_plane import FakePlane
from support.plane import REPOSITORY


@pytest.fixture
def fake() -> Iterator[FakePlane]:
    with FakePlane() as plane:
        yield plane


@pytest.fixture
def packages(fake: FakePlane) -> Packages:
    return Packages(ControlPlane(fake.address))


def lay_out(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


# Shared with the CLI, whose tests read the same file.
VECTORS = json.loads((REPOSITORY / "tests" / "vectors" / "packing.json").read_text())
CASES = VECTORS["cases"]


def lay_out_tree(root: Path, name: str) -> Path:
    root.mkdir()
    for path, content in VECTORS["trees"][name].items():
        target = root / path
        (target if content is None else target.parent).mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            target.write_text(content)
        elif content is not None and "program" in content:
            target.write_text(content["program"])
            target.chmod(0o755)
        elif content is not None and "link" in content:
            target.symlink_to(content["link"])
        elif content is not None:
            with target.open("wb") as file:
                # A sparse file takes no space on disk.
                file.truncate(content["bytes"])
    return root


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c['tree']}-{c['excludes']}")
def test_a_folder_is_packed_as_the_vectors_say(
    case: dict[str, Any], tmp_path: Path, packages: Packages, fake: FakePlane
) -> None:
    tree = str(lay_out_tree(tmp_path / case.get("module", "folder"), case["tree"]))
    pack = packages.py_module if "module" in case else packages.working_dir
    if "refused" in case:
        with pytest.raises(errors.ConfigurationError, match=case["refused"]):
            pack(tree, case["excludes"])
        return
    assert pack(tree, case["excludes"]) == f"gcs://{case['package']}"
    with zipfile.ZipFile(BytesIO(fake.packages[case["package"]])) as package:
        assert package.namelist() == case["packed"]


@pytest.mark.parametrize("excludes", [c["excludes"] for c in CASES if c["tree"] == "traps"])
@pytest.mark.parametrize("gitignore", [True, False])
def test_the_files_are_those_that_ray_packs(
    tmp_path: Path, excludes: list[str], gitignore: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_RUNTIME_ENV_IGNORE_GITIGNORE", "0" if gitignore else "1")
    tree = lay_out_tree(tmp_path / "tree", "traps")
    patterns = [*ignores.default_excludes(), *excludes]
    of_ray = tmp_path / "ray.zip"
    packaging.create_package(str(tree), of_ray, include_gitignore=gitignore, excludes=patterns)
    ours = archive.of_folder(str(tree), patterns)
    with zipfile.ZipFile(of_ray) as package:
        wanted = {name.rstrip("/") for name in package.namelist()}
    assert {entry.name for entry in ours.entries} == wanted


def test_a_package_unpacks_as_it_was(tmp_path: Path, packages: Packages, fake: FakePlane) -> None:
    tree = lay_out(tmp_path / "tree", {"run.sh": "echo", "a/b.txt": "ü" * 100_000})
    (tree / "run.sh").chmod(0o755)
    (tree / "empty").mkdir()
    uri = packages.working_dir(str(tree), [])
    name = uri[len("gcs://") :]
    assert uri.startswith("gcs://_ray_pkg_")
    assert uri.endswith(".zip")
    packed = tmp_path / name
    packed.write_bytes(fake.packages[name])
    packaging.unzip_package(str(packed), str(tmp_path / "out"), False, False)
    assert (tmp_path / "out/a/b.txt").read_text() == "ü" * 100_000
    assert os.access(tmp_path / "out/run.sh", os.X_OK)
    assert not os.access(tmp_path / "out/a/b.txt", os.X_OK)
    assert (tmp_path / "out/empty").is_dir()


def test_the_name_says_what_is_inside(tmp_path: Path, packages: Packages) -> None:
    one = lay_out(tmp_path / "one", {"a": "1", "b/c": "2"})
    two = lay_out(tmp_path / "two", {"b/c": "2", "a": "1"})
    os.utime(two / "a", (1, 1))
    first = packages.working_dir(str(one), [])
    assert packages.working_dir(str(two), []) == first, "times and places are not content"
    (two / "a").chmod(0o755)
    assert packages.working_dir(str(two), []) != first, "programs are"
    (one / "a").write_text("3")
    assert packages.working_dir(str(one), []) != first
    # Bytes that move from one file to the next.
    left = lay_out(tmp_path / "left", {"a": "xy", "b": "z"})
    right = lay_out(tmp_path / "right", {"a": "x", "b": "yz"})
    assert packages.working_dir(str(left), []) != packages.working_dir(str(right), [])


def test_it_is_uploaded_once_and_again_only_if_it_is_gone(
    tmp_path: Path, packages: Packages, fake: FakePlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = str(lay_out(tmp_path / "tree", {"a": "1"}))
    uri = packages.working_dir(tree, [])
    # Files that look unchanged are not even read again.
    monkeypatch.setattr(archive.Tree, "digest", lambda self: pytest.fail("it was read again"))
    assert packages.working_dir(tree, []) == uri
    assert len(fake.asked("PUT", "/api/packages/")) == 1
    fake.packages.clear()
    assert packages.working_dir(tree, []) == uri
    assert len(fake.asked("PUT", "/api/packages/")) == 2
    monkeypatch.undo()
    # Another program with the same content.
    assert Packages(ControlPlane(fake.address)).working_dir(tree, []) == uri
    assert len(fake.asked("PUT", "/api/packages/")) == 2


def test_a_file_that_changes_while_it_is_packed_gets_its_own_name(
    tmp_path: Path, packages: Packages, fake: FakePlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = lay_out(tmp_path / "tree", {"a": "before"})
    digest = archive.Tree.digest

    def and_then_changes(self: archive.Tree) -> str:
        found = digest(self)
        (tree / "a").write_text("afterwards")
        return found

    monkeypatch.setattr(archive.Tree, "digest", and_then_changes)
    uri = packages.working_dir(str(tree), [])
    monkeypatch.undo()
    assert packages.working_dir(str(tree), []) == uri
    with zipfile.ZipFile(BytesIO(fake.packages[uri[len("gcs://") :]])) as package:
        assert package.read("a") == b"afterwards"


def test_a_broken_upload_is_tried_again(
    tmp_path: Path, packages: Packages, fake: FakePlane
) -> None:
    tree = lay_out(tmp_path / "tree", {"a": "1" * 300_000})
    fake.break_uploads = 2
    uri = packages.working_dir(str(tree), [])
    assert list(fake.packages) == [uri[len("gcs://") :]]
    assert len(fake.asked("PUT", "/api/packages/")) == 3


def test_what_is_too_large_is_named(
    tmp_path: Path,
    packages: Packages,
    fake: FakePlane,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(archive, "MAX_BYTES", 2 << 20)
    monkeypatch.setattr(archive, "HOPELESS_BYTES", 100 << 20)
    monkeypatch.setattr("ray_multicluster_scheduler._jobs.packages.WORTH_TELLING", 1 << 20)
    tree = lay_out(tmp_path / "tree", {"main.py": "x"})
    (tree / "data/2024").mkdir(parents=True)
    (tree / "data/2024/prices.bin").write_bytes(os.urandom(3 << 20))
    (tree / "zeros.bin").write_bytes(bytes(4 << 20))
    with pytest.raises(errors.ConfigurationError) as refused:
        packages.working_dir(str(tree), [])
    assert "is too large: its 3 files have 7.0 MiB" in str(refused.value)
    assert "largest: zeros.bin (4.0 MiB), data/ (3.0 MiB), main.py (0.0 MiB)" in str(refused.value)
    assert "excludes=[…]" in str(refused.value)
    assert f"packing {tree}: 3 files, 7.0 MiB" in capfd.readouterr().err
    # Zeros pack well.
    assert packages.working_dir(str(tree), ["data/"])
    assert len(fake.packages) == 1
    (tree / "huge").mkdir()
    with (tree / "huge/sparse").open("wb") as sparse:
        sparse.truncate(101 << 20)
    monkeypatch.setattr(archive.Tree, "digest", lambda self: pytest.fail("it was read"))
    with pytest.raises(errors.ConfigurationError, match=r"largest: huge/ \(101.0 MiB\)"):
        packages.working_dir(str(tree), [])


def test_links_that_lead_back_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tree = lay_out(tmp_path / "tree", {"a/b/c": "1"})
    (tree / "a/b/up").symlink_to(tree)
    found = archive.of_folder(str(tree), [])
    assert [entry.name for entry in found.entries] == ["a/b/c"]
    assert "leads back into a folder above it" in caplog.text


def names_in(fake: FakePlane, uri: str) -> list[str]:
    with zipfile.ZipFile(BytesIO(fake.packages[uri[len("gcs://") :]])) as package:
        return sorted(package.namelist())


def test_local_paths_become_packages_and_the_rest_stays(
    tmp_path: Path, packages: Packages, fake: FakePlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = lay_out(tmp_path / "home", {"work/main.py": "1", "work/big.csv": "2", "mod.py": "3"})
    lay_out(home, {"lib/mine/__init__.py": "", "lib/mine/__pycache__/x.pyc": "", "reqs": "a\nb\n"})
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home)
    module = types.ModuleType("mine")
    module.__path__ = [str(home / "lib/mine")]  # type: ignore[attr-defined]
    given: dict[str, Any] = {
        "working_dir": "~/work",
        "excludes": ["*.csv"],
        "py_modules": [module, "lib/mine", "mod.py", "s3://bucket/x.zip", "/on/clusters.zip"],
        "pip": "reqs",
        "env_vars": {"A": "1"},
    }
    sent = runtime_env.portable(given, packages)
    assert given["working_dir"] == "~/work", "what the caller has stays as it is"
    assert names_in(fake, sent["working_dir"]) == ["main.py"]
    modules = sent["py_modules"]
    assert modules[0] == modules[1]
    assert names_in(fake, modules[0]) == ["mine/__init__.py"]
    assert names_in(fake, modules[2]) == ["mod.py"]
    assert modules[3:] == ["s3://bucket/x.zip", "/on/clusters.zip"]
    assert sent["pip"] == ["a", "b"]
    assert "excludes" not in sent
    assert sent["env_vars"] == {"A": "1"}
    assert runtime_env.portable({"working_dir": "/nowhere/here"}, packages) == {
        "working_dir": "/nowhere/here"
    }
    assert runtime_env.portable(None, packages) == {}


def test_archives_and_wheels_go_as_they_are(
    tmp_path: Path, packages: Packages, fake: FakePlane
) -> None:
    zipped = Path(
        shutil.make_archive(str(tmp_path / "w"), "zip", lay_out(tmp_path / "w", {"a": ""}))
    )
    uri = packages.working_dir(str(zipped), [])
    assert fake.packages[uri[len("gcs://") :]] == zipped.read_bytes()
    wheel = tmp_path / "mine-1.0-py3-none-any.whl"
    wheel.write_bytes(b"one")
    first = packages.py_module(str(wheel), [])
    assert first.startswith("gcs://mine-1.0-0_")
    assert first.endswith("-py3-none-any.whl")
    wheel.write_bytes(b"two")
    assert packages.py_module(str(wheel), []) != first, "built again under the same name"


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"working_dir": "not/here"}, "working_dir not/here does not exist here"),
        ({"working_dir": 3}, "working_dir is 3"),
        ({"working_dir": __file__}, "is neither a folder nor an archive"),
        ({"py_modules": "one"}, "py_modules is 'one'"),
        ({"py_modules": ["/etc/hostname"]}, "cannot be imported"),
        ({"excludes": "data"}, "excludes is 'data'"),
        ({"pip": "no-such-file.txt"}, "pip names the file no-such-file.txt"),
        ({"config": {"a": object()}}, "runtime_env cannot be sent"),
        (["working_dir"], "runtime_env is"),
    ],
)
def test_what_cannot_be_meant_is_refused_here(env: Any, said: str, packages: Packages) -> None:
    with pytest.raises(errors.ConfigurationError, match=said) as refused:
        runtime_env.portable(env, packages)
    assert refused.value.hint


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[list[Any]], None]:
    """Writes this user's own configuration."""
    file = tmp_path / "cluster.yaml"
    monkeypatch.setenv("CLUSTER_CONFIG_FILE", str(file))

    def write(clusters: list[Any]) -> None:
        file.write_text(json.dumps({"clusters": clusters}))

    return write


def test_a_control_plane_cannot_choose_what_leaves_this_machine(
    tmp_path: Path,
    fake: FakePlane,
    own: Callable[[list[Any]], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    tree = lay_out(tmp_path / "tree", {"a": "1"})
    secret = lay_out(tmp_path / "secret", {"__init__.py": "token"})
    fake.clusters = [
        {"name": "mac", "runtime_env": {"working_dir": f"{tree}/", "py_modules": [str(secret)]}},
        {"name": "centos", "runtime_env": {"working_dir": str(tree)}},
    ]
    own([{"name": "mac", "runtime_env": {"working_dir": str(tree)}}, {"name": "centos"}])
    job = Jobs(ControlPlane(fake.address)).submit("true")
    assert set(fake.jobs[job]["sent"]["packages"]) == {f"{tree}/"}, "named for mac, and for mac"
    assert f"cluster mac names {secret}" in caplog.text
    assert f"cluster centos names {tree}" in caplog.text


def test_tasks_and_actors_upload_nothing_else_either(
    tmp_path: Path, own: Callable[[list[Any]], None]
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("token")
    own([{"name": "mac", "runtime_env": {"pip": "/elsewhere"}}])
    for env in (
        {"working_dir": str(tmp_path)},
        {"py_modules": [str(secret)]},
        {"pip": str(secret)},
    ):
        with pytest.raises(errors.ConfigurationError, match="cluster mac names") as refused:
            OwnFolders().check("mac", env)
        assert "your own cluster.yaml" in str(refused.value)
    own([{"name": "mac", "runtime_env": {"pip": str(secret)}}])
    OwnFolders().check("mac", {"pip": str(secret), "working_dir": "/of/the/cluster"})


def test_folders_that_a_clusters_runtime_env_names_go_along(
    tmp_path: Path, fake: FakePlane, own: Callable[[list[Any]], None]
) -> None:
    tree = lay_out(tmp_path / "tree", {"a": "1", "skip": ""})
    library = lay_out(tmp_path / "mine", {"__init__.py": ""})
    fake.clusters = [
        {"name": "centos", "runtime_env": {"working_dir": str(tree), "excludes": ["skip"]}},
        {"name": "mac", "runtime_env": {"working_dir": "/nowhere", "py_modules": [str(library)]}},
        {"name": "bare"},
    ]
    own(fake.clusters)
    job = Jobs(ControlPlane(fake.address)).submit("true")
    sent = fake.jobs[job]["sent"]["packages"]
    assert set(sent) == {str(tree), str(library)}
    assert names_in(fake, sent[str(tree)]) == ["a"]
    assert names_in(fake, sent[str(library)]) == ["mine/__init__.py"]


def test_a_clusters_folder_that_cannot_be_packed_holds_back_no_job(
    tmp_path: Path,
    fake: FakePlane,
    own: Callable[[list[Any]], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    tree = lay_out(tmp_path / "tree", {"a": "1"})
    fake.clusters = [
        {"name": "mac", "runtime_env": {"working_dir": str(tree), "excludes": "not a list"}},
        {"name": "centos", "runtime_env": {"working_dir": str(tree)}},
    ]
    own(fake.clusters)
    job = Jobs(ControlPlane(fake.address)).submit("true")
    assert set(fake.jobs[job]["sent"]["packages"]) == {str(tree)}
    assert "the runtime_env of cluster mac: excludes is" in caplog.text
    with pytest.raises(errors.ConfigurationError, match="excludes is"):
        Jobs(ControlPlane(fake.address)).submit("true", preferred_cluster="mac", required=True)
