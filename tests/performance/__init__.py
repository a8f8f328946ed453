"""The control plane under load, on fake clusters."""
