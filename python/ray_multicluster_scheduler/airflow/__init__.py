"""Airflow: an operator that runs a job of the pool, and its hook and trigger.

    from ray_multicluster_scheduler.airflow import RayMulticlusterJobOperator

    RayMulticlusterJobOperator(
        task_id="train", entrypoint="python train.py", working_dir="src", needs={"CPU": 4}
    )

Airflow is imported when one of the three is used, and not before. docs/airflow.md.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .._version import __version__

if TYPE_CHECKING:
    from .hook import RayMulticlusterHook as RayMulticlusterHook
    from .operator import RayMulticlusterJobOperator as RayMulticlusterJobOperator
    from .trigger import RayMulticlusterJobTrigger as RayMulticlusterJobTrigger

_MODULES = {
    "RayMulticlusterHook": "hook",
    "RayMulticlusterJobOperator": "operator",
    "RayMulticlusterJobTrigger": "trigger",
}

__all__ = [*_MODULES, "get_provider_info"]

#: The form of a connection in Airflow's UI.
FORM: dict[str, Any] = {
    "hidden_fields": ["login"],
    "relabeling": {"password": "Token", "schema": "Scheme"},
    "placeholders": {
        "host": "plane.example",
        "port": "8700",
        "schema": "http or https",
        "password": "made by `ray-multicluster token create`; empty if none is needed",
        "extra": '{"prefix": "airflow"}: how the ids of jobs begin',
    },
}


def get_provider_info() -> dict[str, Any]:
    """What Airflow asks each installed provider."""
    return {
        "package-name": "ray-multicluster-scheduler",
        "name": "Ray Multicluster",
        "description": "Jobs on a pool of Ray clusters",
        "versions": [__version__],
        "connection-types": [
            {
                "connection-type": "ray_multicluster",
                "hook-class-name": f"{__name__}.hook.RayMulticlusterHook",
                "hook-name": "Ray Multicluster",
                # Airflow before 3.2 asks the hook.
                "ui-field-behaviour": {
                    "hidden-fields": FORM["hidden_fields"],
                    "relabeling": FORM["relabeling"],
                    "placeholders": FORM["placeholders"],
                },
            }
        ],
    }


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
