"""Orchestrators, each in an environment of its own: `make integrations`."""
