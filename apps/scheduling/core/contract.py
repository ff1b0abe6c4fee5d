"""The contract of policies, as checks that run without a test framework.

A check makes a policy, lets it decide on small clusters, and raises `ContractError` if it breaks
the contract. ``berth policy test`` and the tests run all of them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np

from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Shorts, Snapshot, Topology
from apps.scheduling.core.cluster.capacity import SLACK, unit_vectors
from apps.scheduling.core.cluster.in_memory_store import Committed, MemoryCluster
from apps.scheduling.core.cluster.places import place_of
from apps.scheduling.core.types import (
    MAX_CANDIDATES,
    Placed,
    Policy,
    Pool,
    RefusalReason,
    Refused,
    Request,
    Verdict,
    Within,
)

Make = Callable[[], Policy]
SHARE: Final = (4e9, 6.25e8, 3e10)  # memory bytes, network bits/s, storage bytes per unit
SIZES: Final = (4, 8, 16, 1, 2, 4, 8, 16)
ROUNDS: Final = 20  # random batches of the checks of capacity and of constraints
RESOURCES: Final = ("memory", "network", "storage")
DISK: Final = frozenset({"disk=ssd"})
# gangs that fit on 16 servers of 8 units in four racks (`_in_racks`), a third of them busy
CONSTRAINED: Final[tuple[Mapping[str, Any], ...]] = (
    {"units": 8, "labels": DISK},
    {"units": 8, "platforms": frozenset({"A"})},
    {"units": 6, "excluded": frozenset({1, 2, 4, 7, 8, 11, 13, 14})},
    {"units": 12, "unit_memory_bytes": 3 * SHARE[0]},
    {"units": 12, "unit_network_bps": 3 * SHARE[1]},
    {"units": 12, "unit_storage_bytes": 3 * SHARE[2]},
    {"units": 4, "locality": Within.SERVER},
    {"units": 8, "locality": Within.RACK},
    {"units": 24, "locality": Within.SWITCH},
    {"units": 8, "spread": Within.SERVER},
    {"units": 4, "spread": Within.RACK},
    {"units": 3, "spread": Within.SWITCH},
    {"units": 4, "locality": Within.RACK, "spread": Within.SERVER},
    {"units": 6, "locality": Within.SWITCH, "spread": Within.SERVER},
    {"units": 2, "locality": Within.SWITCH, "spread": Within.RACK},
)
PLACES: Final = tuple((each.get("locality"), each.get("spread")) for each in CONSTRAINED)


class ContractError(AssertionError):
    """A policy breaks the contract; the message says how."""


class Failure(NamedTuple):
    """A check that failed."""

    check: str
    message: str


def failures(make: Make) -> Iterator[Failure]:
    """Run every check; yields those that fail, in their order."""
    for name, check in CHECKS.items():
        try:
            check(make)
        except Exception as error:  # noqa: BLE001 - a policy of a third party may raise anything
            yield Failure(name, f"{type(error).__name__}: {error}")


def cluster(sizes: tuple[int, ...], *, racks: int = 2) -> Topology:
    """Return servers of given sizes, with alternating platforms ("J", "A") and racks."""
    units = np.array(sizes, dtype=np.int32)
    servers = np.arange(units.size, dtype=np.int32)
    first = (np.cumsum(units) - units).astype(np.int32)
    owner = np.repeat(servers, units).astype(np.int32)
    return Topology(
        unit_id=np.arange(owner.size, dtype=np.int64) * 3 + 100,
        unit_server=owner,
        unit_core=(np.arange(owner.size) - first[owner]).astype(np.int32),
        server_id=servers.astype(np.int64) + 1,
        server_name=tuple(f"server-{i}" for i in servers),
        server_first_unit=first,
        server_units=units,
        server_platform=servers % 2,
        server_rack=servers % racks,
        server_capacity=np.array(SHARE)[None, :] * units[:, None],
        server_labels=(frozenset(),) * len(sizes),
        platform_name=("J", "A"),
        rack_name=tuple(f"rack-{i}" for i in range(racks)),
        rack_switch=tuple(f"switch-{i // 2}" for i in range(racks)),
    )


def job(units: int = 1, **more: Any) -> Request:
    """Return a request with moderate interference."""
    scores = np.linspace(60.0, 15.0, N_SOURCES)
    known: dict[str, Any] = {"job": "job-1", "caused": scores, "tolerated": 100.0 - scores}
    return Request(units=units, **(known | more))


def loaded(sizes: tuple[int, ...], units: int, seed: int) -> Snapshot:
    """Return a cluster in which jobs hold about ``units`` units."""
    memory, rng = MemoryCluster(cluster(sizes)), np.random.default_rng(seed)
    busy = rng.permutation(memory.topology.unit_id.size)[:units]
    for unit in busy.tolist():
        caused = rng.uniform(0.0, 90.0, N_SOURCES)
        placed = _placed(np.array([unit], dtype=np.int32))
        memory.commit(placed, job(job=f"busy-{unit}", caused=caused))
    return memory.snapshot()


def _placed(units: np.ndarray) -> Placed:
    return Placed("busy", units, (), 1, 1, {}, 0.8, 0.0, 0, 0, np.empty(0))


def _decide(make: Make, snapshot: Snapshot, *requests: Request, seed: int = 1) -> list[Any]:
    outcomes = make().place(snapshot, requests, np.random.default_rng(seed))
    _expect(len(outcomes) == len(requests), f"{len(outcomes)} outcomes of {len(requests)} jobs")
    return outcomes


def _expect(condition: object, message: str) -> None:
    if not condition:
        raise ContractError(message)


def _units(outcome: Placed | Refused) -> list[int]:
    if isinstance(outcome, Refused):
        raise ContractError(f"refused as {outcome.reason.value}, though units are free")
    return sorted(outcome.units.tolist())


def _reason(outcome: Placed | Refused, reason: RefusalReason) -> None:
    if isinstance(outcome, Placed):
        raise ContractError(f"placed on {outcome.units.tolist()}, not refused as {reason.value}")
    _expect(outcome.reason is reason, f"refused as {outcome.reason.value}, not {reason.value}")


def _has_name_version_and_draws_sample(make: Make) -> None:
    policy = make()
    _expect(policy.name and isinstance(policy.name, str), "name must be a text")
    _expect(policy.version >= 1, f"version must be at least 1, not {policy.version}")
    _expect(isinstance(policy.draws_sample, bool), "draws_sample must be True or False")


def _same_seed_same_outcome(make: Make) -> None:
    snapshot = loaded(SIZES, 25, 3)
    first, second = (_decide(make, snapshot, job(3), job(2)) for _ in range(2))
    pairs = list(zip(first, second, strict=True))
    _expect(all(_units(a) == _units(b) for a, b in pairs), "the same seed chose other units")
    _expect(all(a.seed == b.seed for a, b in pairs), "the same generator gave other seeds")


def _does_not_change_its_input(make: Make) -> None:
    snapshot = loaded(SIZES, 25, 3)
    names = ("unit_free", "server_open", "server_caused", "server_tolerance", "server_free")
    before = {name: getattr(snapshot, name).copy() for name in names}
    _decide(make, snapshot, job(3), job(2))
    changed = [name for name in names if not np.array_equal(before[name], getattr(snapshot, name))]
    _expect(not changed, f"changed {', '.join(changed)} of the snapshot")


def _decides_an_empty_batch(make: Make) -> None:
    _decide(make, loaded(SIZES, 0, 1))


def _finds_the_last_free_unit(make: Make) -> None:
    snapshot = loaded((4,) * 10, 0, 1)
    free = np.zeros(40, dtype=np.bool_)
    free[39] = True
    (outcome,) = _decide(make, replace(snapshot, unit_free=free), job())
    _expect(_units(outcome) == [39], f"chose {_units(outcome)}, but only unit 39 is free")


def _refuses_on_a_full_cluster(make: Make) -> None:
    (outcome,) = _decide(make, loaded((4, 4), 8, 1), job())
    _reason(outcome, RefusalReason.NO_FREE_UNIT)


def _refuses_on_a_cluster_without_servers(make: Make) -> None:
    outcomes = _decide(make, loaded((), 0, 1), job(), job(2, gang=True, locality=Within.RACK))
    for outcome in outcomes:
        _reason(outcome, RefusalReason.NO_MATCHING_SERVER)


def _decides_without_known_racks_and_switches(make: Make) -> None:
    snapshot = loaded((8,) * 4, 6, 1)
    one_rack = np.zeros(4, dtype=np.int32)
    unnamed: dict[str, Any] = {"server_rack": one_rack, "rack_name": ("",), "rack_switch": ()}
    snapshot = replace(snapshot, topology=replace(snapshot.topology, **unnamed))
    for within in Within:
        for wish in (job(2, locality=within), job(1, gang=True, spread=within)):
            (outcome,) = _decide(make, snapshot, wish)
            _units(outcome)
            _expect_constraints(snapshot, [(wish, outcome)])


def _places_gangs_whole(make: Make) -> None:
    (outcome,) = _decide(make, loaded((4,), 1, 1), job(4, gang=True))
    _reason(outcome, RefusalReason.NOT_ENOUGH_FREE_UNITS)


def _gives_an_incremental_job_what_is_free(make: Make) -> None:
    (outcome,) = _decide(make, loaded((4,), 1, 1), job(8))
    _expect(len(_units(outcome)) == 3, f"gave {len(_units(outcome))} units; 3 are free")


def _respects_closed_servers(make: Make) -> None:
    snapshot = replace(loaded((4, 4), 0, 1), server_open=np.array([False, True]))
    (outcome,) = _decide(make, snapshot, job(8))
    _expect(_units(outcome) == [4, 5, 6, 7], f"chose {_units(outcome)}; units 0 to 3 are closed")


def _respects_platforms_and_exclusions(make: Make) -> None:
    spec = job(8, platforms=frozenset({"J"}), excluded=frozenset({0}))
    (outcome,) = _decide(make, loaded((2, 2, 2), 0, 1), spec)
    _expect(_units(outcome) == [4, 5], f"chose {_units(outcome)}; only units 4 and 5 are allowed")


def _respects_pools(make: Make) -> None:
    spec = job(8, pool=Pool.of(np.array([False, True, False])))
    (outcome,) = _decide(make, loaded((2, 2, 2), 0, 1), spec)
    _expect(_units(outcome) == [2, 3], f"chose {_units(outcome)}; only units 2 and 3 are allowed")


def _respects_memory(make: Make) -> None:
    (outcome,) = _decide(make, loaded((4, 4), 0, 1), job(8, unit_memory_bytes=2 * SHARE[0]))
    servers = [unit // 4 for unit in _units(outcome)]
    _expect(servers == [0, 0, 1, 1], f"chose {servers}; each server has memory for two units")


def _keeps_units_together(make: Make) -> None:
    snapshot = loaded((8,) * 10, 20, 9)
    (outcome,) = _decide(make, snapshot, job(4, locality=Within.SERVER))
    servers = {unit // 8 for unit in _units(outcome)}
    _expect(len(servers) == 1, f"chose servers {sorted(servers)} with locality on a server")


def _spreads_units(make: Make) -> None:
    snapshot = loaded((8,) * 10, 20, 9)
    (outcome,) = _decide(make, snapshot, job(5, spread=Within.SERVER, gang=True))
    servers = {unit // 8 for unit in _units(outcome)}
    _expect(len(servers) == 5, f"chose {len(servers)} servers for 5 units with spread")


def _meets_each_constraint(make: Make) -> None:
    snapshot = _in_racks(loaded((8,) * 16, 40, 9))
    for fields in CONSTRAINED:
        wish = job(gang=True, **fields)
        (outcome,) = _decide(make, snapshot, wish)
        _expect(
            isinstance(outcome, Placed), f"refused {_stated(fields)}, for which units are free"
        )
        _expect_constraints(snapshot, [(wish, outcome)])


def _meets_random_constraints(make: Make) -> None:
    for seed in range(ROUNDS):
        rng = np.random.default_rng(seed)
        sizes = tuple(rng.choice([1, 2, 4, 8, 16], 16).tolist())
        snapshot = _in_racks(loaded(sizes, int(rng.integers(sum(sizes) // 2)), seed))
        wishes = [_random_job(rng, number) for number in range(4)]
        outcomes = _decide(make, snapshot, *wishes, seed=seed)
        _expect_constraints(snapshot, list(zip(wishes, outcomes, strict=True)))


def _in_racks(snapshot: Snapshot) -> Snapshot:
    """Return 16 servers in four racks, two of them below one switch; a third has no label."""
    servers = np.arange(16, dtype=np.int32)
    topology = replace(
        snapshot.topology,
        server_rack=servers // 4,
        rack_name=tuple(f"rack-{i}" for i in range(4)),
        rack_switch=("switch-0", "switch-0", "switch-1", ""),
        server_labels=tuple(DISK if i % 3 else frozenset() for i in range(16)),
    )
    return replace(snapshot, topology=topology)


def _random_job(rng: np.random.Generator, number: int) -> Request:
    within, apart = PLACES[int(rng.integers(len(PLACES)))]
    memory, network, storage = rng.permutation([rng.choice([0.0, 3.0]), 0.0, 0.0]) * SHARE
    return job(
        int(rng.integers(1, 9)),
        job=f"job-{number}",
        gang=bool(rng.integers(2)),
        locality=within,
        spread=apart,
        platforms=frozenset({"J"}) if rng.random() < 0.3 else None,
        labels=DISK if rng.random() < 0.3 else frozenset(),
        excluded=frozenset(rng.integers(0, 16, 4).tolist()),
        unit_memory_bytes=float(memory),
        unit_network_bps=float(network),
        unit_storage_bytes=float(storage),
        pool=Pool.of(rng.random(16) < 0.7) if rng.random() < 0.2 else None,
    )


def _expect_constraints(
    snapshot: Snapshot, decided: Sequence[tuple[Request, Placed | Refused]]
) -> None:
    """Expect that placed jobs keep their constraints, and fit together on their servers."""
    taken = np.zeros_like(snapshot.server_free)
    for wish, outcome in decided:
        if isinstance(outcome, Refused):
            continue
        servers = snapshot.topology.unit_server[outcome.units]
        broken = {name: getattr(wish, name) for name in _broken(snapshot.topology, wish, servers)}
        _expect(not broken, f"chose servers {servers.tolist()}, against {_stated(broken)}")
        np.add.at(taken, servers, unit_vectors(snapshot.topology, servers, wish))
    short = taken * (1.0 - SLACK) > snapshot.server_free
    for name, lacks in zip(RESOURCES, short.T, strict=True):
        _expect(not lacks.any(), f"servers {np.flatnonzero(lacks).tolist()} lack {name}")


def _broken(topology: Topology, wish: Request, servers: Shorts) -> Iterator[str]:
    """Yield the constraints that a job on these servers, one per unit, does not keep."""
    names = {topology.platform_name[p] for p in topology.server_platform[servers]}
    if wish.platforms is not None and not names <= wish.platforms:
        yield "platforms"
    if not all(wish.labels <= topology.server_labels[server] for server in servers):
        yield "labels"
    if wish.excluded & set(servers.tolist()):
        yield "excluded"
    if wish.pool is not None and not wish.pool.mask()[servers].all():
        yield "pool"
    if wish.is_whole and servers.size != wish.units:
        yield "units"
    if wish.locality and np.unique(place_of(topology, wish.locality)[servers]).size > 1:
        yield "locality"
    if wish.spread and np.unique(place_of(topology, wish.spread)[servers]).size < servers.size:
        yield "spread"


def _stated(fields: Mapping[str, Any]) -> str:
    """Return the fields of a job as text: "locality rack, spread server"."""
    sets = {name: sorted(value) for name, value in fields.items() if isinstance(value, frozenset)}
    pools = {
        name: np.flatnonzero(value.mask()).tolist()
        for name, value in fields.items()
        if isinstance(value, Pool)
    }
    return ", ".join(f"{name} {value}" for name, value in {**fields, **sets, **pools}.items())


def _sees_earlier_jobs_of_a_batch(make: Make) -> None:
    *placed, last = _decide(make, loaded((4, 4), 0, 1), *[job(job=str(i)) for i in range(9)])
    units = sorted(unit for outcome in placed for unit in _units(outcome))
    _expect(units == list(range(8)), f"8 jobs of a batch hold the units {units}")
    _reason(last, RefusalReason.NO_FREE_UNIT)


def _lists_candidates_best_first(make: Make) -> None:
    (outcome,) = _decide(make, loaded(SIZES * 4, 100, 3), job(3))
    _units(outcome)
    keys = [candidate.key for candidate in outcome.candidates]
    _expect(keys == sorted(keys, reverse=True), "candidates are not sorted by their keys")
    chosen = [c.unit for c in outcome.candidates if c.verdict == Verdict.CHOSEN]
    _expect(chosen == outcome.units.tolist(), "the chosen candidates are not the units")
    _expect(len(keys) <= MAX_CANDIDATES, f"{len(keys)} candidates; at most {MAX_CANDIDATES}")


def _counts_every_unit_once(make: Make) -> None:
    (outcome,) = _decide(make, loaded(SIZES, 25, 3), job(platforms=frozenset({"J"})))
    total = outcome.eligible + sum(outcome.dropped.values())
    _expect(total == sum(SIZES), f"eligible and dropped units are {total}, not {sum(SIZES)}")


def _never_exceeds_capacity(make: Make) -> None:
    rng = np.random.default_rng(5)
    for _ in range(ROUNDS):
        memory = MemoryCluster(cluster(SIZES))
        requests = [
            job(
                int(rng.integers(1, 11)),
                gang=bool(rng.integers(2)),
                unit_memory_bytes=float(rng.choice([0.0, 1e9, 8e9])),
                locality=(None, *Within)[int(rng.integers(1 + len(Within)))],
                caused=rng.uniform(0.0, 100.0, N_SOURCES),
            )
            for _ in range(int(rng.integers(1, 9)))
        ]
        outcomes = make().place(memory.snapshot(), requests, rng)
        pairs = [
            (outcome, request)
            for outcome, request in zip(outcomes, requests, strict=True)
            if isinstance(outcome, Placed)
        ]
        for result in memory.commit_batch(pairs):
            _expect(
                isinstance(result, Committed) and not result.lost.size,
                "a batch on an idle cluster cannot be committed whole",
            )


CHECKS: Final[Mapping[str, Callable[[Make], None]]] = MappingProxyType(
    {
        check.__name__.strip("_").replace("_", " "): check
        for check in (
            _has_name_version_and_draws_sample,
            _same_seed_same_outcome,
            _does_not_change_its_input,
            _decides_an_empty_batch,
            _finds_the_last_free_unit,
            _refuses_on_a_full_cluster,
            _refuses_on_a_cluster_without_servers,
            _decides_without_known_racks_and_switches,
            _places_gangs_whole,
            _gives_an_incremental_job_what_is_free,
            _respects_closed_servers,
            _respects_platforms_and_exclusions,
            _respects_pools,
            _respects_memory,
            _keeps_units_together,
            _spreads_units,
            _meets_each_constraint,
            _meets_random_constraints,
            _sees_earlier_jobs_of_a_batch,
            _lists_candidates_best_first,
            _counts_every_unit_once,
            _never_exceeds_capacity,
        )
    }
)
