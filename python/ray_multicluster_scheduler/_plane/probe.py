"""Which control plane answers at an address."""

from __future__ import annotations

import json
import re
from typing import cast

import urllib3

from .. import _env
from ..errors import AccessError
from . import proof
from .wire import Version


def who_answers(address: str, timeout: float = 10.0, own_token: str | None = None) -> Version:
    """``/v1/version`` of a control plane.

    OSError: nothing answers there. ValueError: another program does. AccessError: it requires a
    token, or another one; or it cannot prove its identity.
    """
    http = proof.connections()
    try:
        answer = http.request(
            "GET",
            address + "/v1/version",
            headers=proof.headers(own_token),
            timeout=timeout,
            redirect=False,
        )
    except urllib3.exceptions.SSLError as error:
        raise AccessError(
            f"cannot trust the server at {address}: {plain(error)}",
            hint=f"set {_env.CA_FILE} to the authority of its certificate, and "
            f"{_env.ADDRESS} to a name that is in it",
        ) from error
    except urllib3.exceptions.HTTPError as error:
        raise OSError(plain(error)) from error
    finally:
        http.clear()
    try:
        said = json.loads(answer.data)
    except ValueError:
        said = None
    if answer.status in (401, 403) and isinstance(said, dict) and "message" in said:
        raise AccessError(
            f"the control plane at {address} answered: {said['message']}",
            hint=f"set {_env.TOKEN} to a token that `ray-multicluster token create` made there",
            code=said.get("code"),
        )
    if answer.status != 200 or not isinstance(said, dict) or not {"version", "plane"} <= set(said):
        raise ValueError(f"its answer to GET /v1/version is {answer.status} {answer.data[:40]!r}")
    return cast(Version, said)


def plain(error: Exception) -> str:
    """The error text, without the object it belongs to."""
    return re.sub(r"^(<.* object at 0x\w+>|HTTPS?Connection\w*\(.*?\)): ", "", str(error))
