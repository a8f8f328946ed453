"""The addresses of one control plane: one for each of its replicas.

``http://a:8700,http://b:8700``: any of them answers everything, so a request that finds nobody at
one goes to the next.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Union
from urllib.parse import urlsplit

from .. import _env
from ..errors import ConfigurationError

#: More replicas than anyone runs: a longer list is a mistake.
MOST = 16

#: One address, several with commas, or a list of them.
Given = Union[str, Sequence[str]]


class Addresses:
    """Safe to use from any thread. The first of a turn is the one that answered last."""

    def __init__(self, addresses: Given) -> None:
        each = addresses.split(",") if isinstance(addresses, str) else addresses
        self.all = tuple(address.rstrip("/") for address in each)
        self.current = self.all[0]

    def __len__(self) -> int:
        return len(self.all)

    def __str__(self) -> str:
        return ",".join(self.all)

    def in_turn(self) -> tuple[str, ...]:
        """All of them, from the current one on."""
        first = self.all.index(self.current)
        return self.all[first:] + self.all[:first]

    def worked(self, address: str) -> None:
        """The next request begins there."""
        self.current = address

    def failed(self, address: str) -> None:
        """The next request begins at the one after it."""
        # Another thread may have found one that answers.
        if self.current == address:
            self.current = self.in_turn()[1 % len(self.all)]


def addresses_of(given: str, named: str = _env.ADDRESS, *, has_token: bool | None = None) -> str:
    """All with a scheme, and commas in between. `named` is where the text was given, for the error.

    Raises:
        ConfigurationError: one is no address, stands there twice, or would get the token in clear
            text while others get it encrypted.
    """
    found: dict[str, str] = {}
    for text in given.split(","):
        address = _one(text.strip(), given, named)
        name = _name(address)
        if name in found:
            raise ConfigurationError(
                f"{named}={given} names {address} twice",
                hint="name each replica of the control plane once",
            )
        found[name] = address
    if len(found) > MOST:
        raise ConfigurationError(
            f"{named} names {len(found)} addresses", hint=f"name at most {MOST} replicas"
        )
    schemes = {urlsplit(address).scheme for address in found.values()}
    if has_token is None:
        has_token = bool(os.environ.get(_env.TOKEN, "").strip())
    if has_token and len(schemes) > 1:
        raise ConfigurationError(
            f"{named}={given} mixes http:// and https://: the same token would be sent to all of "
            "them, and to some of them readable on the network",
            hint="write https:// for all addresses",
        )
    return ",".join(found.values())


def _one(text: str, given: str, named: str) -> str:
    hint = "write http://host:port"
    if "," in given:
        hint = "write http://host:port,http://host:port, with one comma in between"
    address = (text if "://" in text else f"http://{text}").rstrip("/")
    try:
        parts = urlsplit(address)
        # Reading the port checks it.
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        is_good = is_good and address.count("://") == 1 and len(address.split()) == 1
    except ValueError:
        is_good = False
    if is_good:
        return address
    what = f"{named}={given} is not the address of a control plane"
    if "," in given:
        what = f"{named}={given}: {text!r} is not the address of a control plane"
    raise ConfigurationError(what, hint=hint)


def _name(address: str) -> str:
    """The same for all ways to write an address."""
    parts = urlsplit(address)
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    return f"{parts.hostname}:{port}{parts.path}"
