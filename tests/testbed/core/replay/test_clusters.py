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
from apps.testbed.core.replay.errors import ReplayError
from apps.testbed.core.replay.model import ReplayCluster

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


@pytest.mark.parametrize("servers", [1, 2, 6, 13])
def test_a_small_cluster_has_only_platforms_with_servers(servers: int) -> None:
    found = synthetic_cluster(servers)
    assert np.unique(found.platform).tolist() == list(range(len(found.platforms)))
    assert len(found) == servers


def test_a_platform_of_a_document_without_servers_is_left_out() -> None:
    document = {"platforms": [OWN, {"name": "m1.small"}], "servers": [{"platform": "m1.small"}]}
    found = cluster_from_document(document, name="x")
    assert [platform.name for platform in found.platforms] == ["m1.small"]
    assert found.units.tolist() == [1]


def test_a_cluster_refuses_a_platform_without_servers() -> None:
    two = synthetic_cluster(50)
    with pytest.raises(ReplayError, match="a platform has no server"):
        ReplayCluster("x", two.platforms, np.zeros(3, dtype=np.int64), np.zeros(3, dtype=np.int64))


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
        ({"platforms": [OWN], "servers": [{"platform": ["big"]}]}, "must be one of big, not"),
        ({"platforms": [OWN], "servers": [{"platform": "big", "count": 1.5}]}, "whole number"),
        ({"platforms": [{**OWN, "cores": 10**400}], "servers": [{}]}, "cores must be a number"),
        ({"platforms": [{**OWN, "cores": 0}], "servers": [{}]}, "cores must lie in 1 .. 4,096"),
        ({"platforms": [{**OWN, "cores": 4096}], "servers": [{"platform": "big", "count": 5000}]},
         "at most 4,000,000 cores, not 20,480,000"),
    ],
    ids=["list", "servers", "unknown", "platform", "count", "twice", "half", "text", "watts",
         "rack", "platform-list", "half-server", "huge", "no-cores", "units"],
)  # fmt: skip
def test_an_invalid_document_names_the_part(document: object, problem: str) -> None:
    with pytest.raises(ReplayError, match=problem):
        cluster_from_document(document, name="x")
