"""Decisions of a batch that are made again on the cluster just before them."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from apps.inventory.core.snapshot import Snapshot
from apps.scheduling.core import registry
from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.records.redecide import moment_of
from apps.scheduling.core.reservations.backfill import Binding, place_batch
from apps.scheduling.core.types import Placed, Policy, RefusalReason, Refused, Request
from tests.scheduling.core.clusters import SHARE, frozen, idle, request, topology


class Theirs:
    """A policy of another package: it has nothing but the protocol."""

    name, version, draws_sample = "theirs", 1, False

    def __init__(self, inner: Policy) -> None:
        self._inner = inner

    def place(
        self, snapshot: Snapshot, requests: Sequence[Request], rng: np.random.Generator
    ) -> list[Placed | Refused]:
        return self._inner.place(snapshot, requests, rng)


def decided_again(
    policy: Policy,
    snapshot: Snapshot,
    asked: Sequence[Request],
    bindings: Sequence[Binding] = (),
    by: Policy | None = None,
) -> tuple[Placed | Refused, Placed | Refused]:
    """Return the last outcome of a batch, and that of deciding it again, by ``by`` if given."""
    facts, rng = TopologyFacts(snapshot.topology), np.random.default_rng(1)
    outcomes = place_batch(policy, snapshot, asked, rng, facts=facts, bindings=bindings)
    last = len(asked) - 1
    moment = moment_of(snapshot, asked, outcomes, last, facts=facts, bindings=bindings)
    return outcomes[last], moment.decide(by or policy, asked[last], seed=outcomes[last].seed)


def test_a_policy_of_another_package_sees_the_memory_of_the_earlier_jobs() -> None:
    """The first job leaves half a share of memory on its server, and the second needs a share."""
    slots = registry.make("slot_rr")
    asked = [request(unit_memory_bytes=share * SHARE[0]) for share in (3.5, 1.0)]
    live, again = decided_again(slots, idle(topology((4, 4))), asked, by=Theirs(slots))
    assert isinstance(live, Placed)
    assert isinstance(again, Placed)
    assert (live.units.tolist(), again.units.tolist()) == ([4], [4])


def test_a_policy_of_another_package_sees_the_pressure_of_the_earlier_jobs() -> None:
    """Two units of server 0 are busy; the first job takes two of server 1, and is louder."""
    snapshot = idle(topology((4, 4)))
    free, caused = snapshot.unit_free.copy(), snapshot.server_caused.copy()
    free[:2], caused[0] = False, 30.0
    held = replace(snapshot, unit_free=frozen(free), server_caused=frozen(caused))
    expected = registry.make_plain("expected")
    asked = [request(2, caused=np.full(10, 90.0)), request()]
    live, again = decided_again(expected, held, asked, by=Theirs(expected))
    assert isinstance(live, Placed)
    assert isinstance(again, Placed)
    assert (live.units.tolist(), again.units.tolist()) == ([2], [2])


@pytest.mark.parametrize("is_ours", [True, False], ids=["ours", "theirs"])
def test_a_refusal_names_the_reserved_units_again(is_ours: bool) -> None:
    """One unit is free, and reserved for another job."""
    cluster = topology((4,))
    snapshot = replace(idle(cluster), unit_free=frozen(np.array([False, False, False, True])))
    slots = registry.make("slot_rr")
    kept = Binding((0, 1), (int(cluster.unit_id[3]),))
    by = slots if is_ours else Theirs(slots)
    live, again = decided_again(slots, snapshot, [request(), request()], [kept], by=by)
    assert isinstance(live, Refused)
    assert isinstance(again, Refused)
    assert live.reason == RefusalReason.UNITS_RESERVED
    assert live.dropped == {"busy": 3, "reserved": 1}
    assert (again.reason, again.dropped) == (live.reason, live.dropped)
    assert (again.detail, again.also) == (live.detail, live.also)
