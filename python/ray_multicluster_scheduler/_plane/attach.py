"""Which control plane this program uses.

1. ``RAY_MULTICLUSTER_ADDRESS``, which is also set in a scheduled job that can reach it.
2. Inside a scheduled job without an address: none. Work that it submits stays on its cluster.
3. This user's own for the configuration, started in the background if none runs (`local`).
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from urllib.parse import urlsplit

from .. import _env, _settings
from .._context import JobContext, current_context
from .._jobs.progress import say
from .._version import __version__
from ..errors import ConfigurationError, ControlPlaneError
from . import config
from .client import ControlPlane
from .probe import who_answers


def attach(config_file_path: str | os.PathLike[str] | None = None) -> ControlPlane | None:
    """The control plane to use; ``None`` inside a job without an address."""
    given = os.environ.get(_env.ADDRESS)
    context = current_context()
    if context is not None:
        _warn_of_another_version(context)
        # Work that a job starts on its own cluster needs no control plane, so it is not contacted
        # here.
        return ControlPlane(address_of(given)) if given else None
    if given:
        plane = ControlPlane(_checked(given))
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
        return address_of(given)
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


def address_of(given: str, named: str = _env.ADDRESS) -> str:
    """With a scheme. `named` is where the text was given, for the error."""
    address = (given if "://" in given else f"http://{given}").rstrip("/")
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(
            f"{named}={given} is not the address of a control plane",
            hint="write http://host:port",
        )
    return address


def _checked(given: str) -> str:
    address = address_of(given)
    try:
        who_answers(address)
    except OSError as error:
        raise ControlPlaneError(
            f"no control plane answers at {address}: {error}",
            hint="check that it runs and that this machine can reach it; unset "
            f"{_env.ADDRESS} to use this machine's own",
        ) from None
    except ValueError as error:
        raise ControlPlaneError(
            f"{address} is not a control plane: {error}",
            hint=f"{_env.ADDRESS} names the control plane, not a Ray cluster: correct it, or unset "
            "it to use this machine's own",
        ) from None
    return address


def warn_of_settings_not_in_force(plane: ControlPlane) -> None:
    """A control plane keeps the settings it was started with, for all programs that use it."""
    given = _settings.given()
    if given:
        _settings.warn(given, plane.get("/v1/settings")["items"])
