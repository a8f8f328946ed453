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
    home = os.environ.get("home_dir", "nowhere")  # noqa: SIM112 (as the users write it)
    return f"on {cluster}, at home in {home}, with the models in {Path(__file__).absolute().parent}"


class Predictor(ABC):
    """Made once for a portfolio, asked as often as you like."""

    def infer(self, idx: int, split_name: str) -> str:
        time.sleep(0.3)  # It thinks.
        cluster = os.environ.get("RAY_MULTICLUSTER_CURRENT_CLUSTER")
        return f"{type(self).__name__} on {cluster}: {split_name} {idx} {self.predict(idx):+.2%}"

    @abstractmethod
    def predict(self, idx: int) -> float:
        """By how much it rises or falls."""


class GraphPredictor(Predictor):
    def __init__(self, size: int) -> None:
        self.size = size

    def predict(self, idx: int) -> float:
        return ((idx + 1) * self.size % 97 - 48) / 1000


class FundPredictor(Predictor):
    def __init__(self, days: int) -> None:
        self.days = days

    def predict(self, idx: int) -> float:
        return ((idx + 1) * self.days % 89 - 44) / 1000
