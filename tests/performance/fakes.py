"""Fake Ray clusters as one process: `crates/testkit/examples/fake_ray.rs`."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator

from support.fake_ray import binary


@contextlib.contextmanager
def fake_clusters(count: int, cpus: int) -> Iterator[list[dict[str, str]]]:
    """As entries of `cluster.yaml`."""
    process = subprocess.Popen(
        [str(binary()), "--clusters", str(count), "--cpus", str(cpus), "--until-stdin-closes"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        url = process.stdout.readline().strip()
        yield [
            {"name": f"c{n}", "head_address": "127.0.0.1:1", "dashboard": f"{url}/c{n}"}
            for n in range(count)
        ]
    finally:
        process.stdin.close()
        process.wait(30)
