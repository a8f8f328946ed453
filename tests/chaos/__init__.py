"""Faults of every kind, under load, and what must hold through all of them: docs/reliability.md."""
