"""A small quant job: scores a few symbols with Ray tasks, wherever it was placed."""

from __future__ import annotations

import argparse
import os
import platform
import time

import ray


@ray.remote
def score(symbol: str, days: int) -> tuple[str, float]:
    """Stands in for a model: a number that depends on the symbol alone."""
    time.sleep(0.2)
    return symbol, round(sum(map(ord, symbol)) * days % 97 / 97, 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--symbols", default="AAPL,MSFT,NVDA,TSLA")
    parser.add_argument("--days", type=int, default=30)
    args = parser.parse_args()

    ray.init(address="auto", log_to_driver=False)
    cluster = os.environ.get("RAY_MULTICLUSTER_CURRENT_CLUSTER", "no scheduled cluster")
    home = os.environ.get("home_dir", "?")  # noqa: SIM112 -- cluster.yaml says it so
    print(f"on {cluster} ({platform.machine()}), data under {home}")
    for symbol, value in ray.get([score.remote(s, args.days) for s in args.symbols.split(",")]):
        print(f"  {symbol:6} {value:.3f}")


if __name__ == "__main__":
    main()
