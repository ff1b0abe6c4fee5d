"""The log of changed servers, against a list that keeps everything."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Shorts
from apps.scheduling.core.rankings.kernels import Cluster
from apps.scheduling.core.rankings.log import (
    COUNT,
    FIRST,
    NEVER,
    ChangeLog,
    Terms,
    append,
    knows,
    new_log,
    new_terms,
    write_terms,
)

SERVERS = 11
ENTRIES = 16


def random_cluster(rng: np.random.Generator) -> Cluster:
    units = rng.integers(1, 9, SERVERS).astype(np.int32)
    free = rng.integers(0, units + 1).astype(np.int32)
    return Cluster(
        unit_free=np.zeros(int(units.sum()), dtype=np.bool_),
        first_unit=(np.cumsum(units) - units).astype(np.int32),
        server_units=units,
        platform=rng.integers(0, 4, SERVERS).astype(np.int32),
        share=rng.random((SERVERS, 3)),
        server_open=rng.random(SERVERS) < 0.5,
        free_count=free,
        server_caused=(rng.random((SERVERS, N_SOURCES)) * 300.0).astype(np.float32),
        server_exposure=(-rng.random((SERVERS, N_SOURCES))).astype(np.float32),
        server_tolerance=rng.random((SERVERS, N_SOURCES)).astype(np.float32),
        server_free=rng.random((SERVERS, 3)),
        idle=np.array([0.25]),
        elsewhere=rng.random(SERVERS),
        busy=1.0 - free / units,
    )


def row(terms: Terms, at: int) -> list[float]:
    """Return the terms of an entry as numbers."""
    alone = (terms.server, terms.platform, terms.free, terms.is_open, terms.elsewhere, terms.busy)
    several = (terms.left[at], terms.share[at], terms.pressure[:, at], terms.exposure[:, at])
    return [*(float(values[at]) for values in alone), *np.concatenate(several).tolist()]


@dataclass
class Everything:
    """All entries that were ever appended, in order."""

    rows: list[list[float]] = field(default_factory=list)
    servers: list[int] = field(default_factory=list)

    def append(self, cluster: Cluster, servers: Shorts) -> None:
        for s in servers.tolist():
            terms = new_terms(1)
            write_terms(terms, cluster, 0, s)
            self.rows.append(row(terms, 0))
            self.servers.append(s)

    def check(self, log: ChangeLog) -> None:
        first, count = log.bounds[FIRST], log.bounds[COUNT]
        assert first + count == len(self.rows)
        for c in range(count):
            number = first + c
            assert row(log.terms, c) == self.rows[number]
            assert log.is_last[c] == (self.servers[number] not in self.servers[number + 1 :])
        for s in range(SERVERS):
            numbers = [n for n, server in enumerate(self.servers) if server == s]
            assert log.place[s] == (numbers[-1] if numbers else NEVER)


@pytest.mark.parametrize("seed", range(4))
def test_the_log_keeps_the_newest_entries_as_they_were(seed: int) -> None:
    rng = np.random.default_rng(seed)
    log, everything, dropped = new_log(SERVERS, ENTRIES), Everything(), 0
    for _ in range(40):
        cluster = random_cluster(rng)
        servers = rng.permutation(SERVERS)[: rng.integers(0, SERVERS + 1)].astype(np.int32)
        append(log, cluster, servers)
        everything.append(cluster, servers)
        everything.check(log)
        assert log.bounds[COUNT] >= servers.size
        dropped = max(dropped, int(log.bounds[FIRST]))
    assert dropped > ENTRIES


def test_a_full_log_drops_its_older_half() -> None:
    rng = np.random.default_rng(1)
    log, cluster = new_log(SERVERS, ENTRIES), random_cluster(rng)
    for _ in range(ENTRIES + 1):
        append(log, cluster, np.array([3], dtype=np.int32))
    assert log.bounds.tolist() == [ENTRIES // 2, ENTRIES // 2 + 1]


def test_of_more_changes_than_it_has_entries_it_knows_none() -> None:
    log, cluster = new_log(SERVERS, SERVERS - 1), random_cluster(np.random.default_rng(1))
    append(log, cluster, np.arange(2, dtype=np.int32))
    append(log, cluster, np.arange(SERVERS, dtype=np.int32))
    assert log.bounds.tolist() == [SERVERS + 2, 0]
    assert not knows(log, SERVERS + 1)
    assert knows(log, SERVERS + 2)


def test_it_knows_changes_that_it_keeps_and_that_are_not_more_than_servers() -> None:
    log, cluster = new_log(SERVERS, ENTRIES), random_cluster(np.random.default_rng(1))
    for _ in range(ENTRIES):
        append(log, cluster, np.array([0], dtype=np.int32))
    known = [seen for seen in range(ENTRIES + 1) if knows(log, seen)]
    assert known == [*range(ENTRIES - SERVERS, ENTRIES + 1)]
    append(log, cluster, np.array([0], dtype=np.int32))  # the older half is dropped
    first = ENTRIES // 2
    assert [seen for seen in range(ENTRIES + 2) if knows(log, seen)] == [
        *range(first, ENTRIES + 2)
    ]
