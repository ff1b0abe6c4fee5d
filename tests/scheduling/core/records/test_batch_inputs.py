"""Inputs of batches, packed and read again."""

import json
import zlib
from dataclasses import fields, replace
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from apps.classification.core.estimates import Estimates
from apps.classification.core.profile import Profile
from apps.scheduling.core.records.batch_inputs import BatchInputs, StoredBatch
from apps.scheduling.core.reservations.backfill import Binding
from apps.scheduling.core.sizing.goals import Goal
from apps.scheduling.core.types import Pool, Request
from apps.workloads.core.targets import CompletionTime
from tests.classification.core.profiles import profile
from tests.scheduling.core.clusters import request, topology

CLUSTER = topology((4, 4))
BINDINGS = (Binding((0,), ()), Binding((1, 2), (7, 8), ((3, 2e9, 1e8, 5e11), (4, 1e9, 0.5, 0.0))))


def packed(*requests: Request, ids: tuple[UUID | None, ...]) -> bytes:
    return BatchInputs(
        sequence=7, servers=2, platforms=2, seed=1, policy="quasar", parameters={},
        requests=requests, profiles=ids,
    ).packed()  # fmt: skip


def aim(of: Profile, seconds: float) -> Goal:
    return Goal(of, CompletionTime(seconds), input_bytes=1e9, elapsed_s=3.0)


def values_of(each: Profile) -> dict[str, Any]:
    """Every field of a profile, with lists in place of arrays."""
    found = {field.name: getattr(each, field.name) for field in fields(each)}
    return {
        name: [a.tolist() for a in (*value.ends, value.measured)]
        if isinstance(value, Estimates)
        else value
        for name, value in found.items()
    }


@pytest.mark.parametrize("key", [UUID(int=1), None], ids=["stored", "typical"])
def test_a_goal_is_read_with_its_profile(key: UUID | None) -> None:
    known = profile()
    asked = [request(goal=aim(known, 60.0)), request(goal=aim(known, 90.0)), request()]
    read = StoredBatch.read(packed(*asked, ids=(key,) * 3))
    again = read.requests({} if key is None else {key: known}, CLUSTER)
    goals = [each.goal for each in again if each.goal is not None]
    assert [goal.target for goal in goals] == [CompletionTime(60.0), CompletionTime(90.0)]
    assert [goal.elapsed_s for goal in goals] == [3.0, 3.0]
    assert [values_of(goal.profile) for goal in goals] == [values_of(known)] * 2
    assert again[2].goal is None


def test_typical_profiles_are_stored_once() -> None:
    known = profile()
    asked = [request(goal=aim(known, float(seconds))) for seconds in (60, 70, 80)]
    body = json.loads(zlib.decompress(packed(*asked, ids=(None,) * 3)))
    assert (len(body["forms"]), len(body["typical"])) == (3, 1)


def test_a_batch_of_an_older_release_has_no_typical_profile_and_no_goal_for_it() -> None:
    body = json.loads(zlib.decompress(packed(request(goal=aim(profile(), 60.0)), ids=(None,))))
    del body["typical"], body["forms"][0]["goal"]["profile"]
    (again,) = StoredBatch.read(zlib.compress(json.dumps(body).encode())).requests({}, CLUSTER)
    assert again.goal is None
    np.testing.assert_array_equal(again.caused, request().caused)


def test_pools_are_stored_once_and_read_again() -> None:
    first, second = (Pool.of(np.array(mask)) for mask in ([True, False], [False, True]))
    asked = [request(pool=pool) for pool in (first, second, first, None)]
    stored = packed(*asked, request(2, pool=first), ids=(None,) * 5)
    assert len(json.loads(zlib.decompress(stored))["pools"]) == 2
    again = StoredBatch.read(stored).requests({}, CLUSTER)
    assert [each.pool for each in again] == [first, second, first, None, first]


def test_a_pool_of_a_large_cluster_takes_about_a_bit_for_each_server() -> None:
    mask = np.random.default_rng(1).random(12_500) < 0.1
    asked = [request(job=str(i), pool=Pool.of(mask)) for i in range(10)]
    without = [replace(each, pool=None) for each in asked]
    sizes = [len(packed(*each, ids=(None,) * 10)) for each in (asked, without)]
    assert sizes[0] - sizes[1] < 1600


def packed_with(*bindings: Binding) -> bytes:
    return BatchInputs(5, 2, 1, 9, "expected", {}, [], [], bindings).packed()


def test_bindings_are_read_as_they_were_stored() -> None:
    assert StoredBatch.read(packed_with(*BINDINGS)).bindings == BINDINGS
    assert StoredBatch.read(packed_with()).bindings == ()


def test_bindings_of_older_releases_keep_no_room() -> None:
    body = json.loads(zlib.decompress(packed_with(*BINDINGS)))
    body["bindings"] = [row[:2] for row in body["bindings"]]
    older = StoredBatch.read(zlib.compress(json.dumps(body).encode()))
    assert older.bindings == tuple(each._replace(room=()) for each in BINDINGS)
