"""The token and certificates of this program."""

from __future__ import annotations

import os
from typing import Any

import urllib3

from .. import _env
from ..errors import ConfigurationError


def headers(own: str | None = None) -> dict[str, str]:
    """Sent with every request. `own` is the token that the control plane keeps for its user; the
    one in the environment may be for another control plane.
    """
    token = own or os.environ.get(_env.TOKEN, "").strip()
    if not all("!" <= letter <= "~" for letter in token):
        # Without the token: errors end up in logs.
        raise ConfigurationError(
            f"{_env.TOKEN} contains characters that no token has",
            hint="use it exactly as `ray-multicluster token create` printed it",
        )
    return {"Authorization": f"Bearer {token}"} if token else {}


def connections(**more: Any) -> urllib3.PoolManager:
    """For requests with ``redirect=False``: the token is for one address alone."""
    return urllib3.PoolManager(retries=False, ca_certs=os.environ.get(_env.CA_FILE) or None, **more)
