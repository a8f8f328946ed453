"""A request that goes from one replica of the control plane to the next, until one answers it."""

from __future__ import annotations

import ssl
import time
from typing import Callable

import urllib3

from .. import _env, errors
from .addresses import Addresses
from .probe import plain

#: How long a request goes round, from its first failure on. The next leader is there within 3 s.
PATIENCE = 15.0
#: The pause after a round in which nobody answered: doubled each time.
SHORTEST_PAUSE, LONGEST_PAUSE = 0.2, 2.0
#: A replica whose machine is gone refuses nothing: this long for a connection to it.
CONNECT = 3.0

#: Nothing was done, and another replica can do it.
NOTHING_DONE = ("no_leader", "stopping")
#: It may have been done; the last three are a proxy's whose replica went away.
MAY_BE_DONE = ("leader_lost", "http_502", "http_503", "http_504")


class Refused(Exception):
    """A replica that answered, and did not do what it was asked."""

    def __init__(self, error: errors.SchedulerError, retry_after: float) -> None:
        super().__init__(error.message)
        self.error = error
        self.retry_after = retry_after


# As a text, because older versions of urllib3 do not have the class.
Ask = Callable[[str], "urllib3.BaseHTTPResponse"]


def anywhere(
    addresses: Addresses, ask: Ask, *, is_repeatable: bool, patience: float
) -> urllib3.BaseHTTPResponse:
    """The answer of the first replica that has one.

    `ask` raises :class:`Refused`, or what urllib3 raises. A request that may have been done is sent
    again only if `is_repeatable`; if not, the next request still begins elsewhere. The error of a
    repeated request has `was_repeated`.

    Raises:
        SchedulerError: a refusal; or no answer anywhere, which names every address.
    """
    said: dict[str, Exception] = {}
    may_be_done = False
    until: float | None = None
    pause = SHORTEST_PAUSE
    failure: errors.SchedulerError
    while True:
        told_to_wait = 0.0
        for address in addresses.in_turn():
            try:
                answer = ask(address)
            except urllib3.exceptions.HTTPError as error:
                said[address] = error
                is_lost = not never_arrived(error)
                failure = no_answer(address, error)
            except Refused as refused:
                code, failure = refused.error.code, refused.error
                if code not in NOTHING_DONE + MAY_BE_DONE:
                    addresses.worked(address)
                    failure.was_repeated = may_be_done
                    raise failure from None
                said[address] = failure
                is_lost = code in MAY_BE_DONE
                told_to_wait = max(told_to_wait, refused.retry_after)
            else:
                addresses.worked(address)
                return answer
            addresses.failed(address)
            may_be_done = may_be_done or is_lost
            if is_lost and not is_repeatable:
                raise failure from failure.__cause__
            until = time.monotonic() + patience if until is None else until
            if time.monotonic() >= until:
                raise _nobody(addresses, said)
        pause = max(pause, told_to_wait)
        left = until - time.monotonic() if until is not None else pause
        if left <= 0:
            raise _nobody(addresses, said)
        time.sleep(min(pause, left))
        pause = min(pause * 2, LONGEST_PAUSE)


def never_arrived(error: BaseException | None) -> bool:
    """True if the request certainly did not reach anyone."""
    if isinstance(error, urllib3.exceptions.SSLError):
        return isinstance(error.args[0] if error.args else None, ssl.SSLCertVerificationError)
    kinds = (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError)
    return isinstance(error, kinds)


def no_answer(address: str, error: Exception) -> errors.ControlPlaneError:
    """What the caller is told if there is one address."""
    failure = errors.ControlPlaneError(
        f"the control plane at {address} does not answer: {error}",
        hint=f"is it running? {_env.ADDRESS} names the one to use",
    )
    failure.__cause__ = error
    return failure


def _nobody(addresses: Addresses, said: dict[str, Exception]) -> errors.ControlPlaneError:
    """What each of them said last."""
    lines = [f"{address}: {_plain(said[address])}" for address in addresses.all if address in said]
    refusals = [each for each in said.values() if isinstance(each, errors.SchedulerError)]
    failure = errors.ControlPlaneError(
        "no replica of the control plane answers\n  " + "\n  ".join(lines),
        hint=f"are they running? {_env.ADDRESS} names those to use",
        code=refusals[0].code if refusals else None,
    )
    # One that may have arrived says more than one that did not.
    broken = [each for each in said.values() if not isinstance(each, errors.SchedulerError)]
    failure.__cause__ = min(broken, key=never_arrived, default=None)
    return failure


def _plain(error: Exception) -> str:
    return error.message if isinstance(error, errors.SchedulerError) else plain(error)
