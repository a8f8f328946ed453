"""The models, shared by all jobs. Found on every cluster by that cluster's PYTHONPATH.

They stand in for real ones: each number depends on its arguments alone.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from pathlib import Path


def where_i_am() -> str:
    """The cluster, what it says of itself, and whose copy of this file is in use."""
    cluster = os.environ.get("RAY_MULTICLUSTER_CURRENT_CLUSTER", "no cluster of the pool")
    flavour = os.environ.get("CLUSTER_FLAVOUR", "nothing special")
    return f"on {cluster} ({flavour}), with the models in {Path(__file__).absolute().parent}"


class Predictor(ABC):
    """Made once for an index, asked as often as you like, stopped in the end."""

    def __init__(self) -> None:
        self.answered = 0

    def infer(self, idx: str) -> str:
        time.sleep(0.3)  # It thinks.
        self.answered += 1
        cluster = os.environ.get("RAY_MULTICLUSTER_CURRENT_CLUSTER")
        return f"{type(self).__name__} on {cluster}: {idx} {self.predict(idx):+.2%}"

    def stop(self) -> str:
        """Where a real one gives back its memory and closes its files."""
        return f"{type(self).__name__} after {self.answered}"

    @abstractmethod
    def predict(self, idx: str) -> float:
        """By how much it rises or falls."""


class GraphPredictor(Predictor):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def predict(self, idx: str) -> float:
        return (sum(map(ord, idx)) * self.size % 97 - 48) / 1000


class FundPredictor(Predictor):
    def __init__(self, days: int) -> None:
        super().__init__()
        self.days = days

    def predict(self, idx: str) -> float:
        return (sum(map(ord, idx)) * self.days % 89 - 44) / 1000
