"""Clusters of a replay: synthetic ones, and JSON documents."""

import json
from typing import Any

import numpy as np
import pytest

from apps.testbed.core.demo_cluster import cluster_of, demo_cluster
from apps.testbed.core.replay.clusters import (
    cluster_from_document,
    document_of,
    synthetic_cluster,
)
from apps.testbed.core.replay.model import ReplayError

OWN: dict[str, Any] = {
    "name": "big", "cores": 48, "memory_bytes": 2e11, "network_bps": 1e10,
    "storage_bytes": 1e12, "idle_watts": 100, "peak_watts": 400,
}  # fmt: skip


def test_a_synthetic_cluster_is_the_demo_cluster() -> None:
    ours, demo = synthetic_cluster(120, seed=4), demo_cluster(120, seed=4)
    built = cluster_of(ours.platforms, ours.platform, ours.rack, 4)
    assert np.array_equal(built.topology.unit_server, demo.topology.unit_server)
    assert np.array_equal(built.topology.server_rack, demo.topology.server_rack)
    assert built.topology.platform_name == demo.topology.platform_name
    assert np.array_equal(built.machines.platforms.capacity, demo.machines.platforms.capacity)
    assert np.array_equal(built.machines.peak_watts, demo.machines.peak_watts)


def test_a_document_survives_writing_and_reading() -> None:
    ours = synthetic_cluster(50)
    again = cluster_from_document(json.loads(json.dumps(document_of(ours))), name="again")
    assert again.platforms == ours.platforms
    assert np.array_equal(again.platform, ours.platform)
    assert np.array_equal(again.rack, ours.rack)


def test_servers_have_counts_and_own_platforms() -> None:
    document = {
        "platforms": [OWN, {"name": "m1.small"}],
        "servers": [{"platform": "m1.small", "count": 41}, {"platform": "big"}],
    }
    found = cluster_from_document(document, name="x")
    assert found.units.tolist() == [1] * 41 + [48]
    assert found.rack.tolist() == [0] * 40 + [1] * 2


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ([], "the cluster must be a JSON object"),
        ({"platforms": [OWN]}, "servers must be a list"),
        ({"platforms": [{"name": "z9"}], "servers": [{}]}, "z9 is not a demo platform"),
        ({"platforms": [OWN], "servers": [{"platform": "b"}]}, "must be one of big, not 'b'"),
        ({"platforms": [OWN], "servers": [{"platform": "big", "count": 0}]}, "count must lie in"),
        ({"platforms": [OWN, OWN], "servers": [{"platform": "big"}]}, "the same name"),
        ({"platforms": [{**OWN, "cores": 1.5}], "servers": [{}]}, "a whole number, not 1.5"),
        ({"platforms": [{**OWN, "cores": "8"}], "servers": [{}]}, "cores must be a number"),
        ({"platforms": [{**OWN, "peak_watts": 1}], "servers": [{"platform": "big"}]}, "peak"),
        ({"platforms": [OWN], "servers": [{"platform": "big", "rack": "a"}, {"platform": "big"}]},
         "every server has a rack"),
    ],
    ids=["list", "servers", "unknown", "platform", "count", "twice", "half", "text", "watts",
         "rack"],
)  # fmt: skip
def test_an_invalid_document_names_the_part(document: object, problem: str) -> None:
    with pytest.raises(ReplayError, match=problem):
        cluster_from_document(document, name="x")
