"""Several replicas of one control plane, and what must hold while one after the other breaks."""
