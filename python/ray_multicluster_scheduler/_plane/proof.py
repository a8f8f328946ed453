"""How this program shows who it is, and knows whom it speaks to."""

from __future__ import annotations

import os
from typing import Any

import urllib3

#: A token that `ray-multicluster token create` made.
TOKEN = "RAY_MULTICLUSTER_TOKEN"
#: Authorities to trust besides none other: for a control plane with a certificate of its own.
CA_FILE = "RAY_MULTICLUSTER_CA_FILE"


def headers() -> dict[str, str]:
    """Sent with every request."""
    token = os.environ.get(TOKEN, "").strip()
    return {"Authorization": f"Bearer {token}"} if token else {}


def connections(**more: Any) -> urllib3.PoolManager:
    """Redirects are not followed: what we send is for one address alone."""
    return urllib3.PoolManager(retries=False, ca_certs=os.environ.get(CA_FILE) or None, **more)
