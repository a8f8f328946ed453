"""The earlier prototype's circuit breaker, for programs that use it around calls of their own.

Deprecated: the control plane has a breaker per cluster, see ``breaker`` in ``list_clusters()``.
"""

from __future__ import annotations

import threading
import time
from enum import Enum
from typing import Any, Callable, TypeVar

from ..errors import ClusterConnectionError

__all__ = ["CircuitBreaker", "CircuitState", "ClusterCircuitBreakerManager"]

T = TypeVar("T")


class CircuitState(Enum):
    """Calls pass, no call passes, one call is tried."""

    CLOSED = 1
    OPEN = 2
    HALF_OPEN = 3


class CircuitBreaker:
    """Opens after `failure_threshold` failures in a row, and lets one call through
    `recovery_timeout` seconds later. Safe to use from any thread."""

    def __init__(self, failure_threshold: int = 5, recovery_timeout: float = 60.0) -> None:
        self.failure_threshold = failure_threshold
        self.recovery_timeout = recovery_timeout
        self.failure_count = 0
        #: From `time.time()`; 0 if there was none.
        self.last_failure_time = 0.0
        self.state = CircuitState.CLOSED
        self._opened_at = 0.0
        self._lock = threading.Lock()

    def call(self, func: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Calls it, unless the circuit is open.

        Raises:
            ClusterConnectionError: the circuit is open; `func` was not called.
        """
        self._pass()
        try:
            result = func(*args, **kwargs)
        except Exception:
            self.on_failure()
            raise
        self.on_success()
        return result

    def on_success(self) -> None:
        """Closes the circuit."""
        with self._lock:
            self.failure_count = 0
            self.state = CircuitState.CLOSED

    def on_failure(self) -> None:
        """Counts the failure; if the probe failed, opens the circuit again."""
        with self._lock:
            self.failure_count += 1
            self.last_failure_time = time.time()
            is_tried = self.state is CircuitState.HALF_OPEN
            if is_tried or self.failure_count >= self.failure_threshold:
                self.state = CircuitState.OPEN
                self._opened_at = time.monotonic()

    def is_closed(self) -> bool:
        return self.state is CircuitState.CLOSED

    def is_open(self) -> bool:
        return self.state is CircuitState.OPEN

    def is_half_open(self) -> bool:
        return self.state is CircuitState.HALF_OPEN

    def _pass(self) -> None:
        with self._lock:
            if self.state is CircuitState.CLOSED:
                return
            left = self._opened_at + self.recovery_timeout - time.monotonic()
            # Other calls fail while the probe runs: its outcome decides for all.
            if self.state is CircuitState.OPEN and left <= 0:
                self.state = CircuitState.HALF_OPEN
                return
        raise ClusterConnectionError(
            f"the circuit is open after {self.failure_count} failures",
            hint=f"one call is tried in {max(0.0, left):.0f} s",
        )


class ClusterCircuitBreakerManager:
    """One breaker for each cluster name."""

    def __init__(self, failure_threshold: int = 5, recovery_timeout: float = 60.0) -> None:
        self.failure_threshold = failure_threshold
        self.recovery_timeout = recovery_timeout
        self.circuit_breakers: dict[str, CircuitBreaker] = {}
        self._lock = threading.Lock()

    def get_circuit_breaker(self, cluster_name: str) -> CircuitBreaker:
        """The breaker of this cluster, created at first use."""
        with self._lock:
            return self.circuit_breakers.setdefault(
                cluster_name, CircuitBreaker(self.failure_threshold, self.recovery_timeout)
            )

    def call_cluster(
        self, cluster_name: str, func: Callable[..., T], *args: Any, **kwargs: Any
    ) -> T:
        """Calls it through the cluster's breaker."""
        return self.get_circuit_breaker(cluster_name).call(func, *args, **kwargs)
