"""An address with Ray's Jobs API: a Ray cluster, or the control plane above all of them."""

from __future__ import annotations

from dataclasses import dataclass

from ray.job_submission import JobSubmissionClient

from .ray_cli import RayCli


@dataclass(frozen=True)
class Door:
    address: str
    is_plane: bool
    cli: RayCli
    client: JobSubmissionClient
