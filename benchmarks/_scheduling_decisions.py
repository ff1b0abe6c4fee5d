"""Decisions without a database: kernels, whole decisions with their records, Paragon's search.

CPU time of this process, so that other work on the machine counts less. Other guests of the host
slow its memory down for seconds at a time: what is compared is measured in turn, and the median
counts.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from statistics import fmean, median
from typing import Any, Final, NamedTuple

import numpy as np
from psycopg import abc, postgres
from psycopg.adapt import AdaptersMap, PyFormat, Transformer
from psycopg.postgres import types
from psycopg.pq import Format

from apps.common.core.ids import uuid7
from apps.common.infrastructure.collector import spare_loaded_objects
from apps.common.infrastructure.database import write_json_fast
from apps.inventory.core.snapshot import Bools, Floats, Ints, Snapshot
from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.cluster.conflicts import Claim
from apps.scheduling.core.cluster.copy import ClusterCopy
from apps.scheduling.core.cluster.in_memory_store import Committed, MemoryCluster
from apps.scheduling.core.fused import FusedTarcil
from apps.scheduling.core.registry import agent_parameters, make
from apps.scheduling.core.sizing.sizes import Sized
from apps.scheduling.core.tarcil import encoding
from apps.scheduling.core.tarcil.batch_arrays import Rule
from apps.scheduling.core.tarcil.batches import TarcilBatch
from apps.scheduling.core.types import Placed, Request
from apps.scheduling.core.warm_up import compile_kernels
from apps.workloads.core.targets import CompletionTime
from benchmarks.decision import cluster, requests

LOAD: Final = 0.7
TURN: Final = 128  # decisions in a batch of an agent
SIGNATURES: Final = 100  # applications
TURNS_IN_A_ROW: Final = 6  # on one cluster


class Rates(NamedTuple):
    """Decisions per CPU second.

    Attributes
    ----------
    median, low, high : of the turns, and the middle 80 % of them
    mean : all decisions by the CPU time of all turns, stalls of the host included
    """

    median: float
    low: float
    high: float
    mean: float

    def __str__(self) -> str:
        spread = f"{self.low:,.0f} to {self.high:,.0f}"
        return f"{self.median:,.0f}/s per core ({spread}; mean {self.mean:,.0f})"


def rates_of(seconds: Sequence[float]) -> Rates:
    """Return the rates of turns of `TURN` decisions, from the CPU time of each."""
    low, median, high = np.quantile(TURN / np.array(seconds), (0.1, 0.5, 0.9)).tolist()
    return Rates(median, low, high, TURN / fmean(seconds))


def busy_cluster(servers: int, *, keeps_log: bool = False) -> tuple[MemoryCluster, deque[int]]:
    """Return a cluster of which a share `LOAD` of the units is allocated, and the allocations."""
    rng = np.random.default_rng(1)
    store = MemoryCluster(cluster(servers, rng).topology, is_compiled=True, keeps_log=keeps_log)
    units = rng.permutation(store.topology.unit_id.size)
    asked = requests(SIGNATURES, rng)
    held: deque[int] = deque()
    for place, unit in enumerate(units[: int(LOAD * units.size)].tolist()):
        outcome = store.commit(_on(unit), asked[place % SIGNATURES])
        if isinstance(outcome, Committed):
            held.append(outcome.allocation)
    return store, held


def _on(unit: int) -> Placed:
    units = np.array([unit], dtype=np.int32)
    return Placed("filler", units, (), 1, 1, {}, 0.8, 0.0, 0, 0, np.empty(0))


class Turns:
    """Turns of an agent without a database: decide, build the records, commit in memory.

    As many jobs end between two turns. The first ones compile kernels and fill caches.
    """

    def __init__(self, servers: int, policy: str = "expected") -> None:
        self._store, self._held = busy_cluster(servers)
        self._decider, self._rng = make(policy), np.random.default_rng(2)
        self._asked = requests(SIGNATURES, self._rng)
        self._run(self._asked)  # every signature once
        for _ in range(2):
            self.run()

    def run(self) -> tuple[float, float]:
        """Run a turn; return its CPU seconds, and the mean size of its records in bytes."""
        places = self._rng.integers(0, SIGNATURES, TURN).tolist()
        return self._run([self._asked[i] for i in places])

    def _run(self, batch: list[Request]) -> tuple[float, float]:
        store = self._store
        began = time.process_time()
        outcomes = self._decider.place(store.view(), batch, self._rng)
        pairs = [(o, r) for o, r in zip(outcomes, batch, strict=True) if isinstance(o, Placed)]
        done = store.commit_batch(pairs)
        records = _record_sizes([placed for placed, _ in pairs], store)
        used = time.process_time() - began
        assert len(records) == len(batch)  # noqa: S101 - every job finds units
        for each in done:
            if isinstance(each, Committed):
                self._held.append(each.allocation)
                store.release(self._held.popleft())
        return used, fmean(records)


def whole_decisions(sizes: Sequence[int], turns: int) -> Iterator[tuple[int, Rates, float]]:
    """Decide on clusters of several sizes, at least a few turns of each after the other.

    Yields
    ------
    Servers, rates, and bytes of a record. The first turn on a cluster after another one is left
    out, as it fills the caches of the processor.
    """
    clusters = {servers: Turns(servers) for servers in sizes}
    spare_loaded_objects()  # as agents do
    seconds: dict[int, list[float]] = {servers: [] for servers in sizes}
    sizes_of_records: dict[int, list[float]] = {servers: [] for servers in sizes}
    for _ in range(max(1, turns // TURNS_IN_A_ROW)):
        for servers, cluster_turns in clusters.items():
            cluster_turns.run()
            for _ in range(TURNS_IN_A_ROW):
                used, size = cluster_turns.run()
                seconds[servers].append(used)
                sizes_of_records[servers].append(size)
    for servers in sizes:
        yield servers, rates_of(seconds[servers]), fmean(sizes_of_records[servers])


_SIZED: Final = Sized(1, None, None, 1.0, 0.9, 1.1, 1.0)


def _record_sizes(decided: list[Placed], store: MemoryCluster) -> list[int]:
    """Build the rows of decisions, and return the bytes that COPY sends of each."""
    from apps.scheduling.services import decisions  # noqa: PLC0415 - needs Django
    from apps.scheduling.services.allocation_store import Grant  # noqa: PLC0415
    from apps.scheduling.services.proposals import (  # noqa: PLC0415
        AgentIdentity,
        Proposal,
        SizedJob,
    )

    job: Any = _JOB
    sized_job = SizedJob(job, None, job, _SIZED, job, store.topology)
    agent = AgentIdentity("agent-1", "expected", 1, "1.0", draws_sample=False)
    # The store has granted the units already.
    grant = Grant(_JOB.id, _JOB.id, Claim("", [0], [0], [_NONE], whole=False), (0,), (), ())
    won = [(Proposal(sized_job, placed, 1e-4), grant) for placed in decided]
    rows = decisions.placed_rows(won, decisions.Occasion(agent, _NOW, 1.0), {_JOB.id: 0.1})
    # Its own adapters, as a cursor has: in the global ones, each call would add a subclass of the
    # dumper of the last one, and make all later records slower.
    as_sent = Transformer(AdaptersMap(postgres.adapters))
    write_json_fast(as_sent)
    as_sent.set_dumper_types(
        [types.get_oid(name) for name in decisions.COLUMNS.values()], Format.BINARY
    )
    return [_bytes_sent(as_sent, row) for row in rows]


def _bytes_sent(as_sent: abc.Transformer, row: tuple[Any, ...]) -> int:
    """Return the size of a row in the binary format of COPY: lengths, and values not null."""
    values = as_sent.dump_sequence(row, [PyFormat.BINARY] * len(row))
    return 2 + 4 * len(values) + len(b"".join([value for value in values if value is not None]))


class _Spec:
    """The field of a specification that a record reads."""

    target = CompletionTime(600.0)


class _Job:
    """The fields of a claimed job and of its request that a record reads."""

    id, spec = uuid7(), _Spec()
    units, missing = 1, 0


_JOB: Final = _Job()
_NONE: Final = (0.0, 0.0, 0.0)
_NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)


def tarcil_kernel(servers: int, batches: int) -> Rates:
    """Return the rates of the exact kernel at R = 8, one call for each batch."""
    snapshot, policy = cluster(servers, np.random.default_rng(1)), FusedTarcil()
    rng, rule = np.random.default_rng(2), Rule(int(encoding.Form.GUARDED), encoding.MARGIN)
    seconds = []
    for _ in range(batches + 1):
        state = policy._state(snapshot, TopologyFacts(snapshot.topology), writable=True)
        seeds = rng.integers(0, 1 << 63, TURN).tolist()
        batch = TarcilBatch(state, requests(TURN, rng), seeds)
        began = time.process_time()
        decided = batch.run_kernel(rule)
        seconds.append(time.process_time() - began)
        assert decided == TURN  # noqa: S101 - every job finds units
    return rates_of(seconds[1:])  # the first call compiles it


class Masks(NamedTuple):
    """Columns of a cluster for the plain peer, contiguous by source."""

    tolerance: Floats  # (N, S)
    pressure: Floats  # (N, S)
    others: Floats  # (S,)
    platform: Ints
    has_free: Bools


def masks_of(snapshot: Snapshot) -> Masks:
    """Return the columns of a snapshot."""
    topology = snapshot.topology
    pressures = encoding.pressure(snapshot.server_caused, topology.server_units)
    count = np.add.reduceat(snapshot.unit_free, topology.server_first_unit)
    return Masks(
        np.ascontiguousarray(snapshot.server_tolerance.T.astype(np.float64)),
        np.ascontiguousarray(pressures.T),
        np.maximum(topology.server_units - 1, 1).astype(np.float64),
        topology.server_platform.astype(np.int64),
        count > 0,
    )


def by_masks(columns: Masks, request: Request) -> int:
    """Paragon's selection with boolean masks over all servers, without backtracking."""
    left = columns.has_free.copy()
    norm = np.zeros(left.size)
    for k in range(request.caused.size):
        neighbours = columns.tolerance[k] - request.caused[k] / columns.others
        own = request.tolerated[k] - columns.pressure[k]
        left &= (neighbours >= 0.0) & (own >= 0.0)
        norm += np.abs(neighbours + own)
    assert request.platform_speed is not None  # noqa: S101 - of all our requests
    speed = np.where(left, request.platform_speed[columns.platform], -1.0)
    return int(np.argmin(np.where(speed == speed.max(), norm, np.inf)))


class Greedy(NamedTuple):
    """Median CPU microseconds of one decision of `paragon_greedy`, and of the masks.

    first_us : on an application that it has not seen before
    later_us : on one of a hundred that it has seen, in batches; as many jobs end between them
    masks_us : taken in turn with ``later_us``

    All kernels are compiled before.
    """

    first_us: float
    later_us: float
    masks_us: float


def greedy(servers: int, turns: int) -> Greedy:
    """Measure `paragon_greedy` on a hundred applications, and the masks on the same."""
    store, held = busy_cluster(servers)
    rng = np.random.default_rng(5)
    asked = [_quiet(request) for request in requests(SIGNATURES + 1, rng)]
    columns, policy = masks_of(store.view()), make("paragon_greedy")
    compile_kernels()
    policy.place(store.view(), asked[:1], rng)  # copies the state of the cluster
    first = [_cpu_us(policy.place, store.view(), [request], rng) for request in asked[1:]]
    later, masks = [], []
    for turn in range(turns):
        batch = [asked[i] for i in rng.integers(1, SIGNATURES + 1, TURN).tolist()]
        began = time.process_time()
        outcomes = policy.place(store.view(), batch, rng)
        later.append((time.process_time() - began) / TURN * 1e6)
        pairs = [(o, r) for o, r in zip(outcomes, batch, strict=True) if isinstance(o, Placed)]
        for each in store.commit_batch(pairs):
            if isinstance(each, Committed):
                held.append(each.allocation)
                store.release(held.popleft())
        masks.append(_cpu_us(by_masks, columns, asked[1 + turn % SIGNATURES]))
    return Greedy(median(first), median(later), median(masks))


def _quiet(request: Request) -> Request:
    """Let a request cause little and tolerate much, so that some server meets all constraints."""
    from dataclasses import replace  # noqa: PLC0415

    return replace(request, caused=request.caused * 0.1, tolerated=60.0 + request.tolerated * 0.4)


def _cpu_us(call: Callable[..., object], *args: object) -> float:
    began = time.process_time()
    call(*args)
    return (time.process_time() - began) * 1e6


def conflicts(policy: str, *, servers: int, agents: int, rounds: int) -> float:
    """Share of placements lost when agents decide on equally old copies, then commit in turn."""
    store, held = busy_cluster(servers, keeps_log=True)
    places = [{"agents": agents, "share": share} for share in range(agents)]
    deciders = [make(policy, agent_parameters(policy, place)) for place in places]
    copies = [_copy_of(store) for _ in range(agents)]
    rng = np.random.default_rng(4)
    asked = requests(SIGNATURES, rng)
    lost = tried = read = 0
    for _ in range(rounds):
        proposed = []
        for decider, copy in zip(deciders, copies, strict=True):
            copy.apply(store.log[read:])
            batch = [asked[i] for i in rng.integers(0, SIGNATURES, 16).tolist()]
            outcomes = decider.place(copy.snapshot(), batch, rng)
            proposed.append(
                [(o, r) for o, r in zip(outcomes, batch, strict=True) if isinstance(o, Placed)]
            )
        read = len(store.log)
        for pairs in proposed:
            for each in store.commit_batch(pairs):
                tried += 1
                if isinstance(each, Committed):
                    held.append(each.allocation)
                    store.release(held.popleft())
                else:
                    lost += 1
    return lost / tried


def _copy_of(store: MemoryCluster) -> ClusterCopy:
    copy = ClusterCopy(store.topology, is_compiled=True)
    copy.apply(store.log)
    return copy


def bytes_per_server(servers: int) -> dict[str, float]:
    """Memory of an agent's copy by what it holds, in bytes for each server."""
    store, _ = busy_cluster(servers)
    state = store.state._state
    parts = {
        "by unit": [getattr(state, name) for name in state._fields if name.startswith("unit_")],
        "by server": [
            getattr(state, name) for name in state._fields if not name.startswith("unit_")
        ],
    }
    units = store.topology.unit_id.size / servers
    sizes = {name: sum(a.nbytes for a in arrays) / servers for name, arrays in parts.items()}
    return {**sizes, "units of a server": units}
