"""One control plane over HTTP: requests, and its errors as exceptions."""

from __future__ import annotations

import json as jsons
import threading
import time
from typing import Any, BinaryIO, Callable, Union
from urllib.parse import quote, urlencode

import urllib3

from .. import _forks, errors
from . import failover, proof
from .addresses import Addresses, Given
from .failover import Refused
from .wire import ErrorBody

#: For requests that the control plane answers at once.
TIMEOUT = 30.0

#: Temporary refusals that come with a wait time. Not a full queue: the caller decides about that.
WAITED_FOR = ("rate_limited", "overloaded")
#: With one address, also for the next leader: with several, another replica is asked.
WAITED_FOR_AT_ONE = (*WAITED_FOR, "no_leader")
#: How long the client waits for them.
PATIENCE = 60.0

#: Exceptions by the control plane's error codes (crates/api/src/error.rs).
BY_CODE: dict[str, type[errors.SchedulerError]] = {
    "bad_job": errors.TaskSubmissionError,
    "bad_hint": errors.TaskSubmissionError,
    "bad_body": errors.TaskSubmissionError,
    "bad_id": errors.TaskSubmissionError,
    "missing_package": errors.TaskSubmissionError,
    "not_inside": errors.TaskSubmissionError,
    "infeasible": errors.TaskSubmissionError,
    "unknown_tag": errors.TaskSubmissionError,
    "too_large": errors.TaskSubmissionError,
    "conflict": errors.IdConflictError,
    "unknown_cluster": errors.ConfigurationError,
    "bad_config": errors.ConfigurationError,
    "bad_cluster": errors.ConfigurationError,
    "duplicate_cluster": errors.ConfigurationError,
    "bad_policy": errors.PolicyEvaluationError,
    "unknown_policy": errors.ConfigurationError,
    "file_policy": errors.ConfigurationError,
    "no_token": errors.AccessError,
    "bad_token": errors.AccessError,
    "forbidden": errors.AccessError,
    "host_not_allowed": errors.AccessError,
    "origin_not_allowed": errors.AccessError,
    "priority_too_high": errors.AccessError,
    "unknown_job": errors.UnknownJobError,
    "queue_full": errors.QueueFullError,
    "rate_limited": errors.RateLimitedError,
    "cluster_token": errors.ClusterConnectionError,
    "no_clusters": errors.NoHealthyClusterError,
    "busy": errors.ControlPlaneError,
    "overloaded": errors.ControlPlaneError,
    "too_slow": errors.ControlPlaneError,
    "stopping": errors.ControlPlaneError,
    "cannot_write": errors.ControlPlaneError,
    "no_leader": errors.ControlPlaneError,
    "leader_lost": errors.ControlPlaneError,
    "store_failed": errors.ControlPlaneError,
    "store_full": errors.ControlPlaneError,
    "internal": errors.ControlPlaneError,
}

#: Codes that stay SchedulerError: a request that the SDK should not have made, or one whose
#: caller goes by the code (``wrong_state``, ``no_lease``).
GENERAL = frozenset(
    {
        "bad_json",
        "bad_period",
        "bad_query",
        "not_found",
        "method_not_allowed",
        "wrong_state",
        "no_lease",
    }
)

#: Requests that may be sent twice. Some others may be, too: their callers say so.
REPEATABLE = ("GET", "PUT")

#: JSON, or bytes unchanged; a file is sent from its current position, with a Content-Length.
Body = Union[None, dict[str, Any], list[Any], bytes, BinaryIO]


class ControlPlane:
    """Safe to use from any thread.

    With several addresses, one for each replica, a request that finds nobody at one of them goes to
    the next (`failover`), and the following ones begin where the last was answered.

    `reattach` returns the address and the token again when nothing answers: a control plane that
    this user's programs share exits when it is idle, and a newer version may replace it.
    `own_token` is the token that it keeps for its user; `headers` carry it.
    """

    def __init__(
        self,
        address: Given,
        reattach: Callable[[], tuple[str, str | None]] | None = None,
        own_token: str | None = None,
    ) -> None:
        self.addresses = Addresses(address)
        self._reattach = reattach
        self.headers = proof.headers(own_token)
        self.after_fork()
        _forks.belongs_here(self)

    @property
    def address(self) -> str:
        """The address that answered last."""
        return self.addresses.current

    def after_fork(self) -> None:
        """A forked child does not use its parent's connections."""
        self._lock = threading.Lock()
        # Each waiting request uses a connection, so many may be open at once.
        self._http = proof.connections(maxsize=128)

    def get(self, path: str, *, timeout: float = TIMEOUT, **query: Any) -> Any:
        """A GET; `query` without values that are None."""
        return self.request("GET", path, query=query, timeout=timeout)

    def post(
        self,
        path: str,
        body: Body = None,
        *,
        timeout: float = TIMEOUT,
        patience: float = PATIENCE,
        headers: dict[str, str] | None = None,
        is_repeatable: bool = False,
        **query: Any,
    ) -> Any:
        """A POST of JSON; `is_repeatable` if it does no harm when it is done twice."""
        return self.request(
            "POST",
            path,
            body,
            query=query,
            timeout=timeout,
            patience=patience,
            headers=headers,
            is_repeatable=is_repeatable,
        )

    def request(
        self,
        method: str,
        path: str,
        body: Body = None,
        *,
        query: dict[str, Any] | None = None,
        timeout: float = TIMEOUT,
        patience: float = PATIENCE,
        headers: dict[str, str] | None = None,
        is_repeatable: bool = False,
    ) -> Any:
        """The JSON of the answer, `None` if it has none; errors are raised."""
        answer = self.open(
            method,
            path,
            body,
            query=query,
            timeout=timeout,
            patience=patience,
            headers=headers,
            is_repeatable=is_repeatable,
        )
        return jsons.loads(answer.data) if answer.data else None

    def open(
        self,
        method: str,
        path: str,
        body: Body = None,
        *,
        query: dict[str, Any] | None = None,
        timeout: float = TIMEOUT,
        patience: float = PATIENCE,
        stream: bool = False,
        headers: dict[str, str] | None = None,
        is_repeatable: bool = False,
    ) -> urllib3.BaseHTTPResponse:
        """The answer itself; with `stream`, the caller must read and release its body.

        A request that comes too fast waits as long as the control plane says, up to `patience`;
        callers with their own retries pass 0. A request that certainly did not arrive is sent again
        after `reattach`, or to the next address, and so is a GET that broke off. Any other request
        may have arrived: callers that may ask twice retry themselves, or say `is_repeatable`.
        """
        given = {key: value for key, value in (query or {}).items() if value is not None}
        target = path + ("?" + urlencode(given, doseq=True) if given else "")
        others = {"Accept": "application/json", **(headers or {})}
        data: bytes | BinaryIO | None
        if isinstance(body, (dict, list)):
            data = jsons.dumps(body).encode()
            others["Content-Type"] = "application/json"
        else:
            data = body

        start = data.tell() if data is not None and not isinstance(data, bytes) else 0
        has_others = len(self.addresses) > 1
        connect = failover.CONNECT if has_others else 10.0
        waited_for = WAITED_FOR if has_others else WAITED_FOR_AT_ONE
        is_repeatable = is_repeatable or method in REPEATABLE

        def ask(address: str) -> urllib3.BaseHTTPResponse:
            until = time.monotonic() + min(timeout, patience)
            while True:
                if data is not None and not isinstance(data, bytes):
                    data.seek(start)
                answer = self._http.request(
                    method,
                    address + target,
                    body=data,
                    headers={**others, **self.headers},
                    preload_content=not stream,
                    redirect=False,
                    timeout=urllib3.Timeout(connect=min(timeout, connect), read=timeout),
                )
                if answer.status < 300:
                    return answer
                pause = _asked_to_wait(answer, waited_for)
                if pause is None or time.monotonic() + pause > until:
                    raise Refused(self._refusal(answer, address), _retry_after(answer) or 0.0)
                answer.release_conn()
                time.sleep(pause)

        if has_others:
            until = min(timeout, failover.PATIENCE)
            return failover.anywhere(
                self.addresses, ask, is_repeatable=is_repeatable, patience=until
            )
        return self._at_one(ask, method, is_repeatable=is_repeatable)

    def _at_one(
        self, ask: failover.Ask, method: str, *, is_repeatable: bool
    ) -> urllib3.BaseHTTPResponse:
        """There is one address, which may change: see `reattach`."""
        may_be_done = False
        for is_last in (False, False, True):
            address = self.address
            try:
                return ask(address)
            except urllib3.exceptions.HTTPError as error:
                if is_last or not self._may_ask_again(method, error):
                    raise failover.no_answer(address, error) from error
            except Refused as refused:
                told = refused.error
                is_stopping = told.code == "stopping" and self._reattach is not None
                is_lost = told.code == "leader_lost"
                if is_last or not (is_stopping or (is_lost and is_repeatable)):
                    told.was_repeated = may_be_done
                    raise told from None
                may_be_done = may_be_done or is_lost
                # It is about to exit, and then another can be started; or the next one leads soon.
                time.sleep(max(0.3, min(refused.retry_after, failover.LONGEST_PAUSE)))
            self._attach_again(address)
        raise AssertionError("the last one returns or raises")

    def close(self) -> None:
        """Closes the connections; jobs keep running."""
        self._http.clear()

    def _may_ask_again(self, method: str, error: urllib3.exceptions.HTTPError) -> bool:
        if isinstance(error, urllib3.exceptions.NewConnectionError):
            return self._reattach is not None
        # A kept connection that the other side has closed.
        return method == "GET" and isinstance(error, urllib3.exceptions.ProtocolError)

    def _attach_again(self, failed: str) -> None:
        with self._lock:
            # Another thread may have reattached meanwhile.
            if self.address == failed and self._reattach is not None:
                address, own_token = self._reattach()
                self.headers = proof.headers(own_token)
                self.addresses = Addresses(address)

    def _refusal(self, answer: urllib3.BaseHTTPResponse, address: str) -> errors.SchedulerError:
        text = answer.data.decode("utf-8", "replace")
        answer.release_conn()
        try:
            return refusal(jsons.loads(text))
        except (ValueError, KeyError, TypeError):
            return errors.ControlPlaneError(
                f"{address} answered {answer.status}: {text[:500].strip()}",
                hint="check that this is the address of a control plane",
                code=f"http_{answer.status}",
            )


def _asked_to_wait(answer: urllib3.BaseHTTPResponse, codes: tuple[str, ...]) -> float | None:
    """How long to wait, if this is a temporary refusal."""
    seconds = _retry_after(answer)
    if answer.status not in (429, 503) or seconds is None:
        return None
    try:
        passes = jsons.loads(answer.data)["code"] in codes
    except (KeyError, ValueError, TypeError):
        return None
    return max(seconds, 0.1) if passes else None


def _retry_after(answer: urllib3.BaseHTTPResponse) -> float | None:
    try:
        return float(answer.headers["Retry-After"])
    except (KeyError, ValueError):
        return None


def refusal(said: ErrorBody) -> errors.SchedulerError:
    """The control plane's error as an exception."""
    kind = BY_CODE.get(said["code"], errors.SchedulerError)
    return kind(said["message"], hint=said.get("hint"), code=said["code"])


def segment(name: str) -> str:
    """A name as one part of a path."""
    return quote(name, safe="")
