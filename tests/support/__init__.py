"""What the end-to-end tests share: Ray clusters, the control plane, clients, waiting."""
