"""`cluster.yaml` for the clusters of a sandbox, which differ as real ones do."""

from __future__ import annotations

import json
from pathlib import Path

from .state import Sandbox, State

HEAD = """\
# Written by `ray-multicluster sandbox up`, removed by `ray-multicluster sandbox down`.
# Each cluster is one Ray node on this machine, with its own home directory.
clusters:
"""
CLUSTER = """\
  - name: {name}
    head_address: {head_address}
    dashboard: {dashboard}
{token}    tags: [{tags}]
    inject_sdk: true # jobs find the Python SDK, although it is not installed there
    runtime_env:
      env_vars:
        home_dir: {home}
        CLUSTER_FLAVOUR: {flavour}
"""
TAIL = """\
scheduler:
  submission_interval: 10s # the default is 40s
"""


def yaml(sandbox: Sandbox, state: State, project: Path | None) -> str:
    """`project` is the place of the user's folder below every home, if there is one."""
    text = HEAD
    for cluster in state.clusters:
        home = sandbox.home(cluster.name)
        text += CLUSTER.format(
            name=_quoted(cluster.name),
            head_address=cluster.head_address,
            dashboard=cluster.dashboard,
            token=f"    token_file: {_quoted(str(cluster.token_file))}\n"
            if cluster.token_file
            else "",
            tags="macos, arm64" if cluster.name.startswith("mac") else "linux, x86_64",
            home=_quoted(str(home)),
            flavour=_quoted(f"stand-in for {cluster.name}"),
        )
        if project is not None:
            text += f"        PYTHONPATH: {_quoted(str(home / project))}\n"
    return text + TAIL


def _quoted(text: str) -> str:
    """YAML can read JSON strings."""
    return json.dumps(text, ensure_ascii=False)
