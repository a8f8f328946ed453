"""Tokens of a control plane, created as its operator creates them."""

from __future__ import annotations

import subprocess

import requests

from .plane import Plane, binary
from .waiting import wait_until


def create(plane: Plane, owner: str, role: str, *more: str) -> str:
    """The token. It is in force when this returns; the first one ends open access."""
    command = [str(binary()), "token", "create", "--owner", owner, "--role", role, *more]
    made = subprocess.run(
        [*command, "--state-dir", str(plane.state)], check=True, capture_output=True, text=True
    )
    token = made.stdout.strip()
    wait_until(lambda: _is_let_in(plane, token), f"the token of {owner} is in force", 30)
    return token


def revoke_all(plane: Plane) -> None:
    """All access ends within a second or so."""
    (plane.state / "tokens.json").unlink()


def headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _is_let_in(plane: Plane, token: str) -> bool:
    version = f"{plane.address}/v1/version"
    with_token = requests.get(version, headers=headers(token), timeout=30)
    return with_token.ok and requests.get(version, timeout=30).status_code == 401
