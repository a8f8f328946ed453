"""Which control plane this program uses.

1. ``RAY_MULTICLUSTER_ADDRESS``, which is also set in a scheduled job that can reach it. It may
   name several replicas.
2. Inside a scheduled job without an address: none. Work that it submits stays on its cluster.
3. This user's own for the configuration, started in the background if none runs (`local`).
"""

from __future__ import annotations

import functools
import os
import time
from pathlib import Path

from .. import _env, _settings
from .._context import JobContext, current_context
from .._jobs.progress import say
from .._version import __version__
from ..errors import ControlPlaneError
from . import config, failover
from .addresses import addresses_of
from .client import ControlPlane
from .probe import who_answers

#: How long a control plane may take to say who it is.
PROBE = 10.0


def attach(config_file_path: str | os.PathLike[str] | None = None) -> ControlPlane | None:
    """The control plane to use; ``None`` inside a job without an address."""
    given = os.environ.get(_env.ADDRESS)
    context = current_context()
    if context is not None:
        _warn_of_another_version(context)
        # Work that a job starts on its own cluster needs no control plane, so it is not contacted
        # here.
        return ControlPlane(addresses_of(given)) if given else None
    if given:
        plane = _checked(given)
    else:
        # Not needed with an address; requires Unix.
        from . import local

        file = config.find(config_file_path)
        address, own_token = local.attach(file)
        plane = ControlPlane(address, lambda: local.attach(file), own_token)
    warn_of_settings_not_in_force(plane)
    return plane


def wanted(config_file_path: str | os.PathLike[str] | None = None) -> str | None:
    """What `attach` would look for: an address, or a configuration; ``None`` for none."""
    given = os.environ.get(_env.ADDRESS)
    if given:
        return addresses_of(given)
    if current_context() is not None:
        return None
    return str(config.find(config_file_path))


@functools.cache
def _warn_of_another_version(context: JobContext) -> None:
    """The control plane sends each job its version; an SDK from another source may differ."""
    if context.plane_version not in (None, __version__):
        say(
            f"this job imports ray_multicluster_scheduler {__version__} from "
            f"{Path(__file__).resolve().parents[1]}, and its control plane is "
            f"{context.plane_version}: use the same version on both sides"
        )


def _checked(given: str) -> ControlPlane:
    """At the first address where the control plane answers."""
    plane = ControlPlane(addresses_of(given))
    is_one = len(plane.addresses) == 1
    until = time.monotonic() + (0.0 if is_one else failover.PATIENCE)
    pause = failover.SHORTEST_PAUSE
    while True:
        said: dict[str, Exception] = {}
        for address in plane.addresses.in_turn():
            try:
                who_answers(address, PROBE if is_one else failover.CONNECT)
            except (OSError, ValueError) as error:
                said[address] = error
            else:
                plane.addresses.worked(address)
                return plane
        if time.monotonic() + pause > until:
            raise _nobody(said)
        time.sleep(pause)
        pause = min(pause * 2, failover.LONGEST_PAUSE)


def _nobody(said: dict[str, Exception]) -> ControlPlaneError:
    away = f"check that it runs and that this machine can reach it; unset {_env.ADDRESS} to use "
    away += "this machine's own"
    wrong = f"{_env.ADDRESS} names the control plane, not a Ray cluster: correct it, or unset "
    wrong += "it to use this machine's own"
    strangers = [address for address, error in said.items() if isinstance(error, ValueError)]
    hint = wrong if strangers else away
    if len(said) > 1:
        lines = [f"{address}: {error}" for address, error in said.items()]
        return ControlPlaneError(
            "no replica of the control plane answers\n  " + "\n  ".join(lines), hint=hint
        )
    ((address, error),) = said.items()
    if strangers:
        return ControlPlaneError(f"{address} is not a control plane: {error}", hint=hint)
    return ControlPlaneError(f"no control plane answers at {address}: {error}", hint=hint)


def warn_of_settings_not_in_force(plane: ControlPlane) -> None:
    """A control plane keeps the settings it was started with, for all programs that use it."""
    given = _settings.given()
    if given:
        _settings.warn(given, plane.get("/v1/settings")["items"])
