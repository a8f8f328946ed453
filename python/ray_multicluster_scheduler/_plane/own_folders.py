"""Files of this machine that the description of a cluster names.

A control plane describes its clusters, and must not choose what leaves this machine. So a file or
folder that a cluster's `runtime_env` names is read here only if this user's own configuration names
it for the same cluster.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import ConfigurationError
from . import config

log = logging.getLogger("ray_multicluster_scheduler")


class OwnFolders:
    """What this user's `cluster.yaml` names. `config_file_path` as of `config.find`."""

    def __init__(self, config_file_path: str | os.PathLike[str] | None = None) -> None:
        self._given = config_file_path
        self._told: set[tuple[str, str]] = set()

    def allow(self, cluster: str, path: str) -> bool:
        """Whether the file or folder may be read for this cluster; a refusal is logged once."""
        if (cluster, absolute(path)) in self._named():
            return True
        if (cluster, path) not in self._told:
            self._told.add((cluster, path))
            log.warning("%s", refusal(cluster, path))
        return False

    def check(self, cluster: str, env: Mapping[str, Any]) -> None:
        """For a `runtime_env` whose files Ray will read here.

        Raises:
            ConfigurationError: this user's configuration does not name one of them.
        """
        for path in named_in(env):
            if is_here(path) and (cluster, absolute(path)) not in self._named():
                raise ConfigurationError(
                    refusal(cluster, path),
                    hint=f"if it should be, write it into runtime_env of {cluster} in your own "
                    "cluster.yaml",
                    cluster=cluster,
                )

    def _named(self) -> set[tuple[str, str]]:
        try:
            file = config.find(self._given)
        except ConfigurationError:
            return set()
        try:
            import yaml

            with open(file, encoding="utf-8") as text:
                clusters = yaml.safe_load(text).get("clusters") or []
            return {
                (str(one["name"]), absolute(path))
                for one in clusters
                for path in named_in(one.get("runtime_env") or {})
            }
        except ImportError:
            log.warning("%s cannot be read: PyYAML is not installed here", file)
        except Exception as error:
            log.warning("%s cannot be read: %s", file, error)
        return set()


def named_in(env: Mapping[str, Any]) -> Iterator[str]:
    """Everything in a `runtime_env` that may be a path of this machine."""
    modules = env.get("py_modules")
    found = [env.get(field) for field in ("working_dir", "pip", "uv", "conda")]
    for one in [*found, *(modules if isinstance(modules, list) else [])]:
        if isinstance(one, str) and "://" not in one:
            yield one


def is_here(path: Any) -> bool:
    return isinstance(path, str) and "://" not in path and os.path.exists(absolute(path))


def absolute(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))


def refusal(cluster: str, path: str) -> str:
    return (
        f"the control plane's description of cluster {cluster} names {path}, which is also on this "
        "machine: it is not uploaded, because your own cluster.yaml does not name it for that "
        "cluster"
    )
