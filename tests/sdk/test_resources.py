"""The meaning of `resource_requirements`, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from ray_multicluster_scheduler._work import resources
from ray_multicluster_scheduler._work.resources import Demand, parse
from ray_multicluster_scheduler.errors import ConfigurationError

GIB = 1 << 30


def test_requirements_become_options_of_ray_fields_of_a_job_and_a_demand() -> None:
    demand = parse({"CPU": 2, "GPU": 0.5, "memory": "4GiB", "my_disk": 1})
    assert demand.ray_options() == {
        "num_cpus": 2,
        "num_gpus": 0.5,
        "memory": 4 * GIB,
        "resources": {"my_disk": 1},
    }
    assert demand.entrypoint() == {
        "entrypoint_num_cpus": 2,
        "entrypoint_num_gpus": 0.5,
        "entrypoint_memory": 4 * GIB,
        "entrypoint_resources": {"my_disk": 1},
    }
    assert demand.demand() == {"CPU": 2, "GPU": 0.5, "memory": 4 * GIB, "my_disk": 1}


def test_nothing_asked_is_nothing_said() -> None:
    assert parse(None) == parse({}) == Demand()
    assert Demand().ray_options() == Demand().demand() == {}


def test_zero_is_said() -> None:
    assert parse({"CPU": 0}).ray_options() == {"num_cpus": 0}


def test_rays_own_names_are_understood() -> None:
    assert parse({"num_cpus": 3, "num_gpus": 1}) == Demand(cpus=3, gpus=1)


@pytest.mark.parametrize(
    ("given", "size"),
    [
        (16 * GIB, 16 * GIB),
        (float(GIB), GIB),
        ("16GiB", 16 * GIB),
        (" 1.5 Gi ", 3 * GIB // 2),
        ("512MB", 512_000_000),
        ("1048576", 1 << 20),
        (0, 0),
    ],
)
def test_memory_is_in_bytes_or_has_a_unit(given: Any, size: int) -> None:
    assert resources.memory(given) == size


@pytest.mark.parametrize("given", [16, 0.5, 1_000_000, "16", "100KB"])
def test_memory_that_nobody_can_mean_is_refused_with_a_hint(given: Any) -> None:
    with pytest.raises(ConfigurationError, match="in bytes") as refused:
        parse({"memory": given})
    assert "GiB" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"CPU": -1}, "CPU is -1"),
        ({"CPU": "2"}, "CPU is '2'"),
        ({"CPU": True}, "CPU is True"),
        ({"CPU": float("nan")}, "CPU is nan"),
        ({"GPU": 1.5}, "GPU is 1.5"),
        ({"memory": "16 gigs"}, "16 gigs"),
        ({"cpu": 1}, "'cpu'"),
        ({"Memory": 1}, "'Memory'"),
        ({"CPU": 1, "num_cpus": 1}, "twice"),
        ([1, 2], "not a dict"),
    ],
)
def test_what_cannot_be_meant_is_refused(given: Any, word: str) -> None:
    with pytest.raises(ConfigurationError, match=word.replace("(", r"\(")):
        parse(given)


def test_what_is_said_in_the_call_wins_over_what_the_function_carries() -> None:
    carried = resources.of_options({"num_cpus": 4, "memory": GIB, "resources": {"disk": 1}})
    asked = parse({"CPU": 1, "net": 2}).or_else(carried)
    assert asked == Demand(cpus=1, memory=GIB, custom={"disk": 1, "net": 2})
