"""Units of a reservation, and which jobs may use them."""

from dataclasses import replace
from uuid import UUID

import numpy as np
import pytest

from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Snapshot
from apps.scheduling.core import registry
from apps.scheduling.core.batch_state import BatchState, TopologyFacts
from apps.scheduling.core.policies import least_loaded
from apps.scheduling.core.records.redecide import moment_of
from apps.scheduling.core.reservations.backfill import (
    Binding,
    place_batch,
    snapshot_of,
    taken_of,
)
from apps.scheduling.core.reservations.gangs import (
    Plan,
    Releases,
    Reservation,
    Room,
    binding,
    explained,
    fits_when_empty,
    held_mask,
    kept_room,
    plan,
    units_of,
    without_room,
    without_units,
)
from apps.scheduling.core.types import Placed, RefusalReason, Refused, Request, Within
from tests.scheduling.core.clusters import SHARE, frozen, idle, request, topology

A, B = UUID(int=1), UUID(int=2)
NEVER = np.inf


def planned(
    of: Request, *free_s: float, snapshot: Snapshot | None = None, taken: tuple[int, ...] = ()
) -> Plan | None:
    """Plan on servers of two units, in two alternating racks and platforms J and A."""
    snapshot = snapshot or idle(topology((2,) * (len(free_s) // 2)))
    mask = np.isin(np.arange(len(free_s)), taken)
    facts = TopologyFacts(snapshot.topology)
    return plan(of, snapshot, facts, np.array(free_s), mask)


@pytest.mark.parametrize(
    ("of", "expected", "start_s"),
    [
        (request(3), {1, 4, 0}, 30.0),
        (request(6), {0, 1, 2, 3, 4, 5}, 60.0),
        (request(2, locality=Within.SERVER), {0, 1}, 30.0),
        (request(3, locality=Within.RACK), {0, 1, 4}, 30.0),
        (request(3, spread=Within.SERVER), {1, 2, 4}, 40.0),
        (request(2, spread=Within.RACK), {1, 2}, 40.0),
        (request(2, platforms=frozenset({"A"})), {2, 3}, 50.0),
        (request(2, excluded=frozenset({2})), {0, 1}, 30.0),
    ],
)
def test_the_units_that_are_free_first_are_reserved(
    of: Request, expected: set[int], start_s: float
) -> None:
    found = planned(of, 30.0, 10.0, 40.0, 50.0, 20.0, 60.0)
    assert found is not None
    assert (set(found.units.tolist()), found.start_s) == (expected, start_s)


def test_units_below_one_switch_are_reserved() -> None:
    snapshot = idle(topology((2,) * 3, racks=3, switches=("agg", "", "agg")))
    found = planned(
        request(3, locality=Within.SWITCH), 30.0, 10.0, 40.0, 50.0, 20.0, 60.0, snapshot=snapshot
    )
    assert found is not None
    assert (set(found.units.tolist()), found.start_s) == ({0, 1, 4}, 30.0)


def test_units_without_a_known_end_are_reserved_for_nobody() -> None:
    assert planned(request(3), 1.0, NEVER, 3.0, NEVER) is None
    found = planned(request(2), 1.0, NEVER, 3.0, NEVER)
    assert found is not None
    assert set(found.units.tolist()) == {0, 2}
    assert planned(request(2, locality=Within.SERVER), 1.0, NEVER, 3.0, NEVER) is None


def test_a_unit_waits_for_the_memory_of_its_server() -> None:
    """Server 0 has memory for no unit until 50 s, for one until 70 s; server 1 for one only."""
    snapshot = idle(topology((2, 2, 2)))
    free = snapshot.server_free.copy()
    free[0, 0], free[1, 0] = 0.0, 1.5 * SHARE[0]
    short = replace(snapshot, server_free=frozen(free))
    amounts = np.array([[SHARE[0], 0.0, 0.0], [SHARE[0], 0.0, 0.0]])
    releases = Releases(np.array([0, 0]), np.array([70.0, 50.0]), amounts)
    facts, taken = TopologyFacts(short.topology), np.zeros(6, dtype=np.bool_)
    free_s = np.array([10.0, 60.0, 20.0, 30.0, 80.0, NEVER])
    found = [
        None if each is None else (set(each.units.tolist()), each.start_s)
        for each in (plan(request(n), short, facts, free_s, taken, releases) for n in range(1, 6))
    ]
    assert found == [
        ({2}, 20.0),
        ({2, 0}, 50.0),
        ({2, 0, 1}, 70.0),
        ({2, 0, 1, 4}, 80.0),
        None,
    ]


def test_a_server_that_lacks_memory_for_what_it_runs_has_room_for_no_unit() -> None:
    snapshot = idle(topology((2, 2)))
    free = snapshot.server_free.copy()
    free[0, 0] = -1.5 * SHARE[0]
    found = planned(
        request(1), 1.0, 2.0, 3.0, 4.0, snapshot=replace(snapshot, server_free=frozen(free))
    )
    assert found is not None
    assert set(found.units.tolist()) == {2}


def test_units_of_other_reservations_and_closed_servers_are_not_reserved() -> None:
    found = planned(request(2), 1.0, 2.0, 3.0, 4.0, taken=(0,))
    assert found is not None
    assert set(found.units.tolist()) == {1, 2}
    snapshot = idle(topology((2, 2)))
    closed = replace(snapshot, server_open=frozen(np.array([False, True])))
    found = planned(request(2), 1.0, 2.0, 3.0, 4.0, snapshot=closed)
    assert found is not None
    assert set(found.units.tolist()) == {2, 3}


def test_a_server_gives_as_many_units_as_its_memory_holds() -> None:
    wide = request(2, unit_memory_bytes=1.5 * SHARE[0])  # one unit of each server of two
    found = planned(wide, 1.0, 2.0, 3.0, 4.0)
    assert found is not None
    assert set(found.units.tolist()) == {0, 2}


def test_a_job_that_ends_before_the_start_may_use_the_units() -> None:
    kept = Reservation(A, 100.0, frozenset({7, 8}))
    other = Reservation(B, 50.0, frozenset({9}))
    assert not kept.binds(B, 100.0)
    assert kept.binds(B, 100.1)
    assert not kept.binds(A, NEVER)
    assert [each.binds(UUID(int=3), 60.0) for each in (kept, other)] == [False, True]
    assert units_of([kept, other]) == {7, 8, 9}


def test_a_refusal_names_the_free_units_that_are_reserved() -> None:
    cluster = topology((2, 2))
    snapshot = replace(idle(cluster), unit_free=frozen(np.array([True, False, True, False])))
    held = held_mask(cluster, [Reservation(A, 9.0, frozenset(cluster.unit_id[:3].tolist()))])
    assert held.tolist() == [True, True, True, False]
    assert without_units(snapshot, held).unit_free.tolist() == [False] * 4
    refused = Refused("j", RefusalReason.NO_FREE_UNIT, {"busy": 4})
    facts = TopologyFacts(cluster)
    told = explained(refused, request(), snapshot, facts, held)
    assert (told.reason, told.also) == (RefusalReason.UNITS_RESERVED, (refused.reason,))
    assert told.dropped == {"busy": 2, "reserved": 2}
    assert told.detail == "2 free units are reserved for another job"
    on_j = explained(refused, request(platforms=frozenset({"J"})), snapshot, facts, held)
    assert on_j.dropped == {"busy": 2, "platform": 1, "reserved": 1}
    elsewhere = request(platforms=frozenset({"Z"}))
    assert explained(refused, elsewhere, snapshot, facts, held) is refused


@pytest.mark.parametrize("policy", ["expected", "least_loaded"])
def test_reserved_units_count_for_the_first_filter_that_rejects_them(policy: str) -> None:
    """All four servers of two units are reserved; only the last may be used."""
    cluster = topology((2,) * 4, platforms=("J", "J", "A", "J"))
    opened = frozen(np.array([False, True, True, True]))
    snapshot = replace(idle(cluster), server_open=opened)
    (found,) = place_batch(
        registry.make(policy), snapshot,
        [request(platforms=frozenset({"J"}), excluded=frozenset({1}))],
        np.random.default_rng(1), facts=TopologyFacts(cluster),
        bindings=[Binding((0,), tuple(cluster.unit_id.tolist()))],
    )  # fmt: skip
    assert isinstance(found, Refused)
    assert found.reason == RefusalReason.UNITS_RESERVED
    assert found.dropped == {"closed": 2, "platform": 2, "excluded": 2, "reserved": 2}


def test_a_refusal_does_not_name_reserved_units_that_jobs_of_the_batch_have_taken() -> None:
    snapshot = idle(topology((2, 2)))
    cluster = snapshot.topology
    asked = [request(4, job="holder", gang=True), request(2, job="other", gang=True)]
    bindings = (Binding((0,), ()), Binding((1,), tuple(cluster.unit_id.tolist())))
    facts, decider = TopologyFacts(cluster), registry.make("expected")
    outcomes = place_batch(
        decider, snapshot, asked, np.random.default_rng(1), facts=facts, bindings=bindings
    )
    moment = moment_of(snapshot, asked, outcomes, 1, facts=facts, bindings=bindings)
    for refused in (outcomes[1], moment.decide(decider, asked[1], seed=outcomes[1].seed)):
        assert isinstance(refused, Refused)
        assert (refused.reason, refused.also) == (RefusalReason.NO_FREE_UNIT, ())
        assert refused.dropped == {"busy": 4}


def test_reserved_units_keep_what_they_will_take_from_their_servers() -> None:
    """Two servers of four units; two of the first are reserved, one of which is busy."""
    cluster = topology((4, 4))
    units, server = cluster.unit_id[:2].tolist(), int(cluster.server_id[0])
    m, n, s = (cluster.server_capacity[0] / 4.0).tolist()
    held = {units[1]: (2.0 * m, n, 3.0 * s)}
    kept = Reservation(A, 9.0, frozenset(units), (5.0 * m, 0.0, 0.0), held)
    ((found, rows),) = kept_room([kept], cluster).by_server(cluster).items()
    assert (found, [unit for unit, _ in rows]) == (server, units)
    assert [vector for _, vector in rows] == [(5.0 * m, n, s), (3.0 * m, 0.0, 0.0)]
    seen = without_room(idle(cluster), kept_room([kept], cluster))
    left = seen.server_free - cluster.server_capacity
    assert left[0].tolist() == pytest.approx([-4.0 * m, -n, -s])  # all that there is
    assert left[1].tolist() == [0.0, 0.0, 0.0]
    at_start = kept_room([kept], cluster, at_start=True)
    assert at_start.amounts.tolist() == [[5.0 * m, n, s]] * 2
    removed = Reservation(A, 9.0, frozenset({10**6}))
    assert not kept_room([removed], cluster).units.size
    assert not kept_room([kept], topology(())).units.size  # of a cluster without servers


def test_a_holder_leaves_room_only_to_the_reservations_before_its_own() -> None:
    known = [Reservation(job, 9.0, frozenset({i})) for i, job in enumerate((A, B))]
    assert binding(known, A, NEVER) == ((1,), ())
    assert binding(known, B, NEVER) == ((0,), (0,))
    assert binding(known, UUID(int=3), NEVER) == ((0, 1), (0, 1))
    assert binding(known, UUID(int=3), 9.0) == ((), ())


def test_units_that_jobs_of_the_batch_have_got_keep_less() -> None:
    cluster = topology((4,))
    unit = int(cluster.unit_id[0])
    share = (cluster.server_capacity[0] / 4.0).tolist()
    group = Binding((0,), (unit,), ((unit, 2.0 * share[0], share[1], share[2]),))
    alone = group.seen_in(idle(cluster), {}).server_free[0] - cluster.server_capacity[0]
    assert alone.tolist() == pytest.approx([-2.0 * share[0], -share[1], -share[2]])
    taken = taken_of(cluster, np.array([0], dtype=np.int32), request())
    after = group.seen_in(idle(cluster), taken).server_free[0] - cluster.server_capacity[0]
    assert after.tolist() == pytest.approx([-share[0], 0.0, 0.0])


def test_a_unit_that_takes_more_than_was_kept_for_it_leaves_the_others_theirs() -> None:
    cluster = topology((4,))
    first, second = cluster.unit_id[:2].tolist()
    memory, network, storage = (cluster.server_capacity[0] / 4.0).tolist()
    room = tuple((unit, memory, network, storage) for unit in (first, second))
    taken = {first: (2.0 * memory, 2.0 * network, 2.0 * storage)}
    seen = Binding((0,), (), room).seen_in(idle(cluster), taken).server_free[0]
    assert (seen - cluster.server_capacity[0]).tolist() == pytest.approx(
        [-memory, -network, -storage]
    )


def test_no_room_is_kept_for_units_once_their_holder_has_them() -> None:
    """The holder takes half of the units and memory of the server, and the next job the rest."""
    snapshot = idle(topology((4,)))
    units = snapshot.topology.unit_id.tolist()
    share = (snapshot.server_free[0] / 4.0).tolist()
    room = tuple((unit, share[0], share[1], share[2]) for unit in units[:2])
    asked = [request(2, job=f"job-{i}", gang=True) for i in range(2)]
    holder, other = place_batch(
        least_loaded(), snapshot, asked, np.random.default_rng(1),
        facts=TopologyFacts(snapshot.topology),
        bindings=(Binding((0,), tuple(units[2:])), Binding((1,), tuple(units[:2]), room)),
    )  # fmt: skip
    assert isinstance(holder, Placed)
    assert isinstance(other, Placed)
    assert sorted([*holder.units.tolist(), *other.units.tolist()]) == [0, 1, 2, 3]


def test_a_copy_of_the_state_shows_what_the_batch_has_allocated_so_far() -> None:
    snapshot = idle(topology((3,)))
    names = (
        *("unit_free", "server_caused", "server_exposure", "server_tolerance", "server_free"),
    )
    state = BatchState.of(snapshot, TopologyFacts(snapshot.topology), writable=True)
    state.allocate(np.array([0], dtype=np.int32), request())
    copied = snapshot_of(state)
    after_one = {name: getattr(state, name).tolist() for name in names}
    state.allocate(np.array([1], dtype=np.int32), request(caused=np.full(N_SOURCES, 70.0)))
    assert {name: getattr(copied, name).tolist() for name in names} == after_one
    assert all(after_one[name] != getattr(snapshot, name).tolist() for name in names)
    assert all(after_one[name] != getattr(state, name).tolist() for name in names)


def test_a_server_with_too_little_capacity_does_not_get_more() -> None:
    cluster = topology((4,))
    snapshot = replace(idle(cluster), server_free=frozen(np.array([[-5.0, 3.0, 8.0]])))
    room = Room(cluster.unit_id[:1].astype(np.int64), np.array([[1.0, 4.0, 2.0]]))
    assert without_room(snapshot, room).server_free.tolist() == [[-5.0, 0.0, 6.0]]
    lacks = without_room(snapshot, room, may_lack=True)
    assert lacks.server_free.tolist() == [[-6.0, -1.0, 6.0]]


@pytest.mark.parametrize(
    ("of", "fits"),
    [
        (request(8, gang=True), True),
        (request(9, gang=True), False),
        (request(9), True),
        (request(4, platforms=frozenset({"A"}), gang=True), True),
        (request(5, platforms=frozenset({"A"}), gang=True), False),
        (request(2, locality=Within.SERVER), True),
        (request(3, locality=Within.SERVER), False),
        (request(4, locality=Within.RACK), True),
        (request(5, locality=Within.RACK), False),
        (request(4, spread=Within.SERVER, gang=True), True),
        (request(5, spread=Within.SERVER, gang=True), False),
        (request(2, spread=Within.RACK, gang=True), True),
        (request(3, spread=Within.RACK, gang=True), False),
        (request(1, labels=frozenset({("disk", "ssd")}), gang=True), False),
        (request(4, unit_memory_bytes=2 * SHARE[0], gang=True), True),
        (request(5, unit_memory_bytes=2 * SHARE[0], gang=True), False),
        (request(5, unit_memory_bytes=2 * SHARE[0]), True),
        (request(1, unit_storage_bytes=3 * SHARE[2]), False),
        (request(2, unit_network_bps=2 * SHARE[1], locality=Within.SERVER), False),
        (request(2, unit_network_bps=2 * SHARE[1], locality=Within.RACK), True),
        (request(3, unit_network_bps=2 * SHARE[1], locality=Within.RACK), False),
    ],
)
def test_whether_open_servers_could_hold_a_request(of: Request, fits: bool) -> None:
    """Four servers of two units in two alternating racks and platforms, all of them busy."""
    cluster = topology((2, 2, 2, 2))
    snapshot = replace(idle(cluster), unit_free=frozen(np.zeros(8, dtype=np.bool_)))
    assert fits_when_empty(of, snapshot, TopologyFacts(cluster)) is fits
    closed = replace(snapshot, server_open=frozen(np.zeros(4, dtype=np.bool_)))
    assert not fits_when_empty(of, closed, TopologyFacts(cluster))


def test_a_place_counts_for_a_spread_job_if_any_of_its_servers_has_the_memory() -> None:
    cluster = topology((2, 2, 4, 2))  # the third server shares a rack with the first
    of = request(2, unit_memory_bytes=3 * SHARE[0], spread=Within.RACK, gang=True)
    assert not fits_when_empty(of, idle(cluster), TopologyFacts(cluster))
    one = replace(of, units=1)
    assert fits_when_empty(one, idle(cluster), TopologyFacts(cluster))


def test_jobs_that_a_reservation_binds_see_the_memory_of_those_before() -> None:
    """One server of four units and little memory: the first job takes all of it."""
    snapshot = idle(topology((4,)))
    whole = float(snapshot.server_free[0, 0])
    facts = TopologyFacts(snapshot.topology)
    asked = [request(job=f"job-{i}", unit_memory_bytes=whole) for i in range(2)]
    first, second = place_batch(
        least_loaded(), snapshot, asked, np.random.default_rng(1), facts=facts,
        bindings=(Binding((0,), ()), Binding((1,), (int(snapshot.topology.unit_id[3]),))),
    )  # fmt: skip
    assert isinstance(first, Placed)
    assert isinstance(second, Refused)
    assert RefusalReason.CAPACITY_SHORT in (second.reason, *second.also)


@pytest.mark.parametrize("policy", ["expected", "least_loaded", "tarcil"])
def test_each_decision_of_a_batch_around_reservations_can_be_repeated(policy: str) -> None:
    """The repeated state includes the interference and memory of the jobs of earlier bindings."""
    snapshot = idle(topology((4,) * 6))
    facts, decider = TopologyFacts(snapshot.topology), registry.make(policy)
    asked = [request(2, job=f"job-{i}") for i in range(6)]
    held = tuple(snapshot.topology.unit_id[:2].tolist())
    memory, network, storage = (0.25 * snapshot.topology.server_capacity[0]).tolist()
    room = tuple((unit, memory, network, storage) for unit in held)
    bindings = (Binding((0, 1), ()), Binding((2, 3), held, room), Binding((4, 5), ()))
    outcomes = place_batch(
        decider, snapshot, asked, np.random.default_rng(1), facts=facts, bindings=bindings
    )
    for position, outcome in enumerate(outcomes):
        assert isinstance(outcome, Placed)
        moment = moment_of(snapshot, asked, outcomes, position, facts=facts, bindings=bindings)
        again = moment.decide(decider, asked[position], seed=outcome.seed)
        assert isinstance(again, Placed)
        assert again.units.tolist() == outcome.units.tolist()
        assert [c.key for c in again.candidates] == [c.key for c in outcome.candidates]
