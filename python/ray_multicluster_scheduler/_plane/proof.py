"""How this program shows who it is, and knows whom it speaks to."""

from __future__ import annotations

import os
from typing import Any

import urllib3

from ..errors import ConfigurationError

#: A token that `ray-multicluster token create` made.
TOKEN = "RAY_MULTICLUSTER_TOKEN"
#: Authorities to trust besides none other: for a control plane with a certificate of its own.
CA_FILE = "RAY_MULTICLUSTER_CA_FILE"


def headers() -> dict[str, str]:
    """Sent with every request."""
    token = os.environ.get(TOKEN, "").strip()
    if not all("!" <= letter <= "~" for letter in token):
        # Without the token: errors end up in logs.
        raise ConfigurationError(
            f"{TOKEN} has something in it that no token has",
            hint="it is one word, as `ray-multicluster token create` showed it",
        )
    return {"Authorization": f"Bearer {token}"} if token else {}


def connections(**more: Any) -> urllib3.PoolManager:
    """For requests with ``redirect=False``: what we send is for one address alone."""
    return urllib3.PoolManager(retries=False, ca_certs=os.environ.get(CA_FILE) or None, **more)
