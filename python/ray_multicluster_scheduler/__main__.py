"""`python -m ray_multicluster_scheduler` is `ray-multicluster`."""

from ._cli import main

if __name__ == "__main__":
    main()
