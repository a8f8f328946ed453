"""The version, declared once: the wheels and the control plane have the same."""

__version__ = "0.1.0"
