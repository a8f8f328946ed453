"""The earlier prototype's import paths. New code imports from ``ray_multicluster_scheduler``."""
