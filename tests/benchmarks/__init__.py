"""The cost of the control plane and the SDK, compared with the alternatives.

`make bench` runs all of it on two real clusters and writes docs/benchmarks.md. Each part is a
module with a `measure`; tests/test_benchmarks.py runs each for seconds, so that none can rot.
"""
