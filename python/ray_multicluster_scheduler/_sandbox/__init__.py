"""Ray clusters of one node on this machine: for `ray-multicluster sandbox`, and for the tests.

    cluster    one Ray cluster: its ports, how it starts, when it accepts jobs
    ports      blocks of free ports
    processes  which processes belong to a cluster, and how they are ended
    state      what was started, and the directory that says so
    pool       `cluster.yaml` for the clusters
    projects   the user's folder below each cluster's home
    progress   what `up` shows while it waits
    commands   up, down and status

The program carries this package and runs it with the Python that has Ray, so nothing here
imports the rest of the SDK (but `_env`), Ray, or anything outside of the standard library.
"""
