"""The version, once: the wheels and the control plane carry the same."""

__version__ = "0.1.0"
