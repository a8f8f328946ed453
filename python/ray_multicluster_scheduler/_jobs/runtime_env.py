"""A runtime_env as the control plane accepts it: values that are only valid on this machine are
read or packed here, as Ray's own client does.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from .._plane import notices
from .._plane.client import ControlPlane
from .._plane.own_folders import OwnFolders, absolute, is_here
from ..errors import ConfigurationError
from . import own_package
from .packages import Packages

log = logging.getLogger("ray_multicluster_scheduler")

#: For this long the descriptions of the clusters are assumed not to change.
CLUSTERS_ARE_KNOWN = 10.0


def portable(env: Mapping[str, Any] | None, packages: Packages) -> dict[str, Any]:
    """A copy without anything local.

    Raises:
        ConfigurationError: it names a file that does not exist, or a value that cannot be sent.
    """
    if env is None:
        return {}
    if not isinstance(env, Mapping):
        raise ConfigurationError(
            f"runtime_env is {env!r:.80}", hint='write a dict, such as {"working_dir": "."}'
        )
    sent = dict(env)
    excludes = _excludes(sent)
    if sent.get("working_dir") is not None:
        sent["working_dir"] = _working_dir(sent["working_dir"], excludes, packages)
    if sent.get("py_modules") is not None:
        if not isinstance(sent["py_modules"], (list, tuple)):
            raise ConfigurationError(
                f"py_modules is {sent['py_modules']!r:.80}", hint="write a list of folders or URIs"
            )
        sent["py_modules"] = [_module(each, excludes, packages) for each in sent["py_modules"]]
    # They have been applied.
    sent.pop("excludes", None)
    for tool in ("pip", "uv"):
        if isinstance(sent.get(tool), str):
            sent[tool] = _text(tool, sent[tool]).strip().split("\n")
    if str(sent.get("conda", "")).endswith((".yaml", ".yml")):
        sent["conda"] = _yaml(_text("conda", str(sent["conda"])))
    try:
        json.dumps(sent)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"runtime_env cannot be sent: {error}", hint="use strings, numbers, lists and dicts"
        ) from error
    return sent


class OfClusters:
    """Folders of this machine that a cluster's own runtime_env names, as packages.

    The control plane knows the paths and we have the files. The cluster for the job is not chosen
    yet, so the folders of all candidates are uploaded, if this user's configuration names them too.
    """

    def __init__(self, plane: ControlPlane, packages: Packages, own: OwnFolders) -> None:
        self._plane = plane
        self._packages = packages
        self._own = own
        self._clusters: tuple[float, list[tuple[str, Any]]] | None = None

    def packages(self, of_job: Mapping[str, Any], only: str | None = None) -> dict[str, str]:
        """Their URIs, by path. A job with a working_dir of its own needs none of a cluster.

        `only` is the one cluster that may run it, if there is only one.

        Raises:
            ConfigurationError: what every cluster that may run it names cannot be packed.
        """
        found: dict[str, str] = {}
        clusters = [(name, env) for name, env in self._runtime_envs() if only in (None, name)]
        problems: list[ConfigurationError] = []
        for cluster, env in clusters:
            try:
                is_whole = of_job.get("working_dir") is None
                found.update(self._of_cluster(cluster, env, is_whole=is_whole))
            except ConfigurationError as error:
                problems.append(error)
                # The job may run on another cluster; on this one it would fail with an error.
                log.warning("the runtime_env of cluster %s: %s", cluster, error.message)
        if problems and len(problems) == len(clusters):
            raise problems[0]
        return found

    def _of_cluster(
        self, cluster: str, env: Mapping[str, Any], *, is_whole: bool
    ) -> dict[str, str]:
        def may_go(path: Any) -> bool:
            return is_here(path) and self._own.allow(cluster, path)

        found: dict[str, str] = {}
        excludes = _excludes(env)
        folder, modules = env.get("working_dir"), env.get("py_modules")
        if is_whole and may_go(folder):
            found[str(folder)] = self._packages.working_dir(absolute(str(folder)), excludes)
        for module in filter(may_go, modules if isinstance(modules, list) else []):
            found[module] = self._packages.py_module(absolute(module), excludes)
        return found

    def _runtime_envs(self) -> list[tuple[str, Any]]:
        known, now = self._clusters, time.monotonic()
        if known is None or now > known[0]:
            items = self._plane.get("/v1/clusters")["items"]
            envs = [(item.get("name"), item.get("runtime_env") or {}) for item in items]
            known = (now + CLUSTERS_ARE_KNOWN, envs)
            own_package.warn_of_other_copies(items)
            self._clusters = known
        return known[1]


def _working_dir(given: Any, excludes: list[str], packages: Packages) -> str:
    path = _path("working_dir", given)
    return packages.working_dir(path, excludes) if is_here(path) else path


def _module(given: Any, excludes: list[str], packages: Packages) -> str:
    if isinstance(given, ModuleType):
        folders = list(getattr(given, "__path__", []))
        if len(folders) > 1:
            raise ConfigurationError(
                f"py_modules: {given.__name__} is spread over {len(folders)} folders",
                hint="name the folders instead of the module",
            )
        given = folders[0] if folders else given.__file__
    path = _path("py_modules", given)
    return packages.py_module(path, excludes) if is_here(path) else path


def _path(field: str, given: Any) -> str:
    """A URI unchanged, a path as an absolute path."""
    if not isinstance(given, (str, os.PathLike)):
        raise ConfigurationError(f"{field} is {given!r:.80}", hint="write a path or a URI")
    text = os.fspath(given)
    if not isinstance(text, str) or "://" in text:
        return str(text)
    path = absolute(text)
    if os.path.exists(path):
        return path
    # An absolute path may be one on the clusters; a relative one means this machine.
    if not os.path.isabs(os.path.expanduser(text)):
        raise ConfigurationError(
            f"{field} {text} does not exist here",
            hint=f"it stands for {path}; a path on the clusters must be absolute",
        )
    notices.once(
        f"{field} {path}", f"{field} {path} does not exist here: it must exist on the cluster"
    )
    return path


def _excludes(env: Mapping[str, Any]) -> list[str]:
    excludes = env.get("excludes") or []
    if not isinstance(excludes, (list, tuple)) or not all(isinstance(e, str) for e in excludes):
        raise ConfigurationError(
            f"excludes is {excludes!r:.80}", hint='write a list of patterns, such as ["data/"]'
        )
    return list(excludes)


def _text(field: str, path: str) -> str:
    try:
        with open(os.path.expanduser(path), encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise ConfigurationError(
            f"{field} names the file {path}, which cannot be read: {error.strerror}",
            hint=f"paths are relative to {os.getcwd()}; you can also give a list",
        ) from error


def _yaml(text: str) -> Any:
    try:
        import yaml
    except ImportError as error:
        raise ConfigurationError(
            "conda names a YAML file, and PyYAML is not installed here",
            hint="pip install pyyaml, or give the environment as a dict",
        ) from error
    return yaml.safe_load(text)
