"""Shared parts of the end-to-end tests: Ray clusters, the control plane, clients, waiting."""
