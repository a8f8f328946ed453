"""The names of Airflow that are used here, from Airflow 2 or 3."""

from __future__ import annotations

from airflow.configuration import conf
from airflow.triggers.base import BaseTrigger, TriggerEvent

try:
    from airflow.sdk import BaseHook, BaseOperator
except ImportError:
    from airflow.hooks.base import BaseHook
    from airflow.models import BaseOperator

try:
    from airflow.sdk.exceptions import (
        AirflowFailException,
        AirflowNotFoundException,
        TaskDeferralTimeout,
    )
except ImportError:
    from airflow.exceptions import AirflowFailException, AirflowNotFoundException

    class TaskDeferralTimeout(Exception):  # type: ignore[no-redef]
        """Not needed before Airflow 3.3: there, the cancelled trigger stops the job."""


__all__ = [
    "AirflowFailException",
    "AirflowNotFoundException",
    "BaseHook",
    "BaseOperator",
    "BaseTrigger",
    "TaskDeferralTimeout",
    "TriggerEvent",
    "conf",
]
