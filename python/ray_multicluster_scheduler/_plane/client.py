"""One control plane over HTTP: requests, and its errors as exceptions."""

from __future__ import annotations

import json as jsons
import threading
import time
from typing import Any, BinaryIO, Callable, Union
from urllib.parse import quote, urlencode

import urllib3

from .. import _env, _forks, errors
from . import proof
from .wire import ErrorBody

#: For requests that the control plane answers at once.
TIMEOUT = 30.0

#: Temporary refusals that come with a wait time. Not a full queue: the caller decides about that.
WAITED_FOR = ("rate_limited", "overloaded")
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
    "store_failed": errors.ControlPlaneError,
    "store_full": errors.ControlPlaneError,
    "internal": errors.ControlPlaneError,
}

#: Codes that stay SchedulerError: a request that the SDK should not have made, or one whose
#: caller goes by the code (``wrong_state``, ``no_lease``).
GENERAL = frozenset(
    {"bad_json", "bad_query", "not_found", "method_not_allowed", "wrong_state", "no_lease"}
)

#: JSON, or bytes unchanged; a file is sent from its current position, with a Content-Length.
Body = Union[None, dict[str, Any], list[Any], bytes, BinaryIO]


class ControlPlane:
    """Safe to use from any thread.

    `reattach` returns the address and the token again when nothing answers: a control plane that
    this user's programs share exits when it is idle, and a newer version may replace it.
    `own_token` is the token that it keeps for its user; `headers` carry it.
    """

    def __init__(
        self,
        address: str,
        reattach: Callable[[], tuple[str, str | None]] | None = None,
        own_token: str | None = None,
    ) -> None:
        self.address = address.rstrip("/")
        self._reattach = reattach
        self.headers = proof.headers(own_token)
        self.after_fork()
        _forks.belongs_here(self)

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
        **query: Any,
    ) -> Any:
        """A POST of JSON."""
        return self.request(
            "POST", path, body, query=query, timeout=timeout, patience=patience, headers=headers
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
    ) -> Any:
        """The JSON of the answer, `None` if it has none; errors are raised."""
        answer = self.open(
            method, path, body, query=query, timeout=timeout, patience=patience, headers=headers
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
    ) -> urllib3.BaseHTTPResponse:
        """The answer itself; with `stream`, the caller must read and release its body.

        A request that comes too fast waits as long as the control plane says, up to `patience`;
        callers with their own retries pass 0. A request that certainly did not arrive is sent again
        after `reattach`, and so is a GET that broke off. Any other request may have arrived:
        callers that may ask twice retry themselves.
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
                    timeout=urllib3.Timeout(connect=min(timeout, 10.0), read=timeout),
                )
                pause = _asked_to_wait(answer)
                if pause is None or time.monotonic() + pause > until:
                    return answer
                answer.release_conn()
                time.sleep(pause)

        for is_last in (False, False, True):
            address = self.address
            try:
                answer = ask(address)
            except urllib3.exceptions.HTTPError as error:
                if is_last or not self._may_ask_again(method, error):
                    raise errors.ControlPlaneError(
                        f"the control plane at {address} does not answer: {error}",
                        hint=f"is it running? {_env.ADDRESS} names the one to use",
                    ) from error
            else:
                if answer.status < 300:
                    return answer
                refused = self._refusal(answer)
                if is_last or refused.code != "stopping" or self._reattach is None:
                    raise refused
                # It is about to exit, and then another can be started.
                time.sleep(0.3)
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
                self.address = address.rstrip("/")

    def _refusal(self, answer: urllib3.BaseHTTPResponse) -> errors.SchedulerError:
        text = answer.data.decode("utf-8", "replace")
        answer.release_conn()
        try:
            return refusal(jsons.loads(text))
        except (ValueError, KeyError, TypeError):
            return errors.ControlPlaneError(
                f"{self.address} answered {answer.status}: {text[:500].strip()}",
                hint="check that this is the address of a control plane",
                code=f"http_{answer.status}",
            )


def _asked_to_wait(answer: urllib3.BaseHTTPResponse) -> float | None:
    """How long to wait, if this is a temporary refusal."""
    if answer.status not in (429, 503):
        return None
    try:
        seconds = float(answer.headers["Retry-After"])
        passes = jsons.loads(answer.data)["code"] in WAITED_FOR
    except (KeyError, ValueError, TypeError):
        return None
    return max(seconds, 0.1) if passes else None


def refusal(said: ErrorBody) -> errors.SchedulerError:
    """The control plane's error as an exception."""
    kind = BY_CODE.get(said["code"], errors.SchedulerError)
    return kind(said["message"], hint=said.get("hint"), code=said["code"])


def segment(name: str) -> str:
    """A name as one part of a path."""
    return quote(name, safe="")
