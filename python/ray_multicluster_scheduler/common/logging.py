"""The earlier prototype's two calls about logs. Deprecated: use Python's ``logging``."""

from __future__ import annotations

import logging

__all__ = ["configure_logging", "get_logger"]

FORMAT = "%(asctime)s - %(name)s - %(levelname)s - %(message)s"


def configure_logging(level: int | str = logging.INFO) -> None:
    """Shows this package's messages from `level` on."""
    logging.basicConfig(format=FORMAT)
    logging.getLogger("ray_multicluster_scheduler").setLevel(level)


def get_logger(name: str) -> logging.Logger:
    """The same as ``logging.getLogger``."""
    return logging.getLogger(name)
