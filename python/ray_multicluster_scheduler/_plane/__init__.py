"""Reaching the control plane: which one, starting it, talking to it."""
