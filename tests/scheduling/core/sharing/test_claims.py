"""Claims concern the servers that the claiming jobs can use."""

from dataclasses import replace
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.sharing.claims import ClaimedServers, OpenUnits, claimed_servers
from apps.scheduling.core.sharing.quotas import Standing, allowance
from apps.scheduling.core.types import Pool
from apps.workloads.core.shapes import Needs, WaitsFor
from tests.scheduling.core.clusters import SHARE, idle, request, topology

A, B, C, BORROWER = (UUID(int=number) for number in range(1, 5))
LABELS = tuple(frozenset(each) for each in ({"a"}, {"a", "b"}, {"b"}, {"c"}, set[str]()))


def needs(*labels: str, memory: float = 0.0, platforms: tuple[str, ...] | None = None) -> Needs:
    return Needs(WaitsFor.UNITS, platforms=platforms, labels=labels, unit_memory_bytes=int(memory))


def claiming(units: int, *found: Needs) -> Standing:
    return Standing("web", units, waiting=units, needs=frozenset(found))


def turn(
    standings: dict[UUID, Standing], free: tuple[int, ...] = (4, 4, 4, 4, 4)
) -> ClaimedServers | None:
    """Servers of four units with `LABELS`, of alternating platforms J and A."""
    facts = TopologyFacts(topology((4, 4, 4, 4, 4), labels=LABELS))
    opened = OpenUnits(np.array(free), np.full(5, 4))
    return claimed_servers(standings, {}, opened, facts)


def on(pool: Pool | None) -> list[int]:
    mask = np.ones(5, dtype=np.bool_) if pool is None else pool.mask()
    return np.flatnonzero(mask).tolist()


@pytest.mark.parametrize(
    "each",
    [
        Standing("web", 4, waiting=4),  # needs of no job are known
        claiming(4, needs("c"), needs()),
        claiming(4, needs(platforms=("J", "A"))),
        Standing("web", 4, waiting=0, needs=frozenset({needs("c")})),  # claims nothing
        Standing("web", 4, used=4, waiting=4, needs=frozenset({needs("c")})),
    ],
)
def test_a_claim_of_any_server_forms_no_group(each: Standing) -> None:
    assert turn({A: each, B: claiming(1, needs("b")) if each.claimed else each}) is None


@pytest.mark.parametrize(
    ("claim", "servers"),
    [
        (needs("c"), [0, 1, 2, 4]),
        (needs(platforms=("A",)), [0, 2, 4]),
        (needs("b", platforms=("A",)), [0, 2, 3, 4]),
        (needs(memory=4.5 * SHARE[0]), [0, 1, 2, 3, 4]),  # no server has that much
    ],
)
def test_a_borrower_uses_all_servers_that_the_claiming_jobs_cannot(
    claim: Needs, servers: list[int]
) -> None:
    lenders = turn({A: claiming(9, claim)})
    assert lenders is not None
    loan = lenders.loan(BORROWER, request(2))
    assert (loan.units, on(loan.pool)) == (2, servers)


def test_claims_that_share_servers_keep_the_units_of_their_own_servers() -> None:
    """The free units of a and b together cover both claims and a job, those of a do not."""
    standings = {A: claiming(1, needs("a")), B: claiming(1, needs("b"))}
    lenders = turn(standings, (0, 1, 2, 0, 0))
    assert lenders is not None
    assert lenders.loan(BORROWER, request(1, labels=frozenset({"a"}))).units == 0
    assert lenders.loan(A, request(1, labels=frozenset({"a"}))).units == 1
    equal = turn({**standings, C: claiming(1, needs("a"))}, (1, 1, 4, 0, 0))
    assert equal is not None
    assert equal.loan(BORROWER, request(1, labels=frozenset({"a"}))).units == 0
    assert equal.loan(BORROWER, request(1, labels=frozenset({"b"}), excluded=frozenset({1}))).units
    wide = turn(standings, (2, 1, 2, 0, 0))
    assert wide is not None
    job = request(1, labels=frozenset({"a"}))
    assert wide.loan(BORROWER, job).units == 1
    wide.take(BORROWER, job)
    assert wide.loan(BORROWER, job).units == 1
    wide.take(BORROWER, job)
    assert wide.loan(BORROWER, job).units == 0


def test_unclaimed_units_of_claimed_servers_are_lent() -> None:
    lenders = turn({A: claiming(3, needs("a"))}, (4, 1, 0, 0, 0))
    assert lenders is not None
    lent = lenders.loan(BORROWER, request(2, gang=True))
    short = lenders.loan(BORROWER, request(3, gang=True))
    assert (lent.units, lent.pool) == (2, None)
    assert (short.units, short.claimed, short.free) == (0, 3, 5)


def test_an_incremental_job_borrows_as_many_units_as_are_left() -> None:
    lenders = turn({A: claiming(3, needs("a"))}, (4, 1, 0, 0, 0))
    assert lenders is not None
    loan = lenders.loan(BORROWER, request(4))
    assert (loan.units, loan.pool) == (2, None)


def test_claims_that_share_a_server_count_together() -> None:
    """Servers 0 to 2 are one group of three claims: those of A and B overlap that of C."""
    claims = {A: claiming(2, needs("a")), B: claiming(2, needs("b"))}
    lenders = turn(claims, (4, 0, 4, 0, 0))
    assert lenders is not None
    assert lenders.loan(BORROWER, request(2, gang=True)).units == 2
    assert lenders.loan(BORROWER, request(3, gang=True)).units == 0, "it could take three of a"
    of_a = request(4, gang=True, labels=frozenset({"a"}))
    assert lenders.loan(BORROWER, of_a).units == 0
    assert lenders.loan(A, of_a).units == 4, "its own claim does not bind it"
    crowded = turn({A: claiming(3, needs("a")), B: claiming(3, needs("b"))}, (0, 4, 0, 0, 0))
    assert crowded is not None
    assert crowded.loan(BORROWER, request(1)).units == 0, "both claims are of the same units"


def test_units_that_a_job_takes_are_lent_once() -> None:
    lenders = turn({A: claiming(2, needs("a"))}, (4, 0, 0, 0, 1))
    assert lenders is not None
    lenders.take(BORROWER, request(2, labels=frozenset({"a"})))
    loan = lenders.loan(BORROWER, request(1))
    assert (loan.units, on(loan.pool)) == (1, [2, 3, 4])
    assert lenders.loan(BORROWER, request(1, labels=frozenset({"a"}))).units == 0


def test_units_taken_against_a_claim_leave_others_as_many() -> None:
    lenders = turn({A: claiming(2, needs("a"))}, (4, 0, 0, 0, 0))
    assert lenders is not None
    lenders.take(A, request(2))
    assert lenders.loan(BORROWER, request(2)).units == 2
    assert lenders.loan(BORROWER, request(3, gang=True)).units == 0
    lenders.take(A, request(2))
    assert lenders.loan(BORROWER, request(1)).units == 0


def test_a_job_that_lacks_units_whatever_others_claim_waits_for_servers_that_are_left() -> None:
    lenders = turn({A: claiming(3, needs("a"))}, (1, 0, 1, 0, 0))
    assert lenders is not None
    loan = lenders.loan(BORROWER, request(4, gang=True))
    assert (loan.units, on(loan.pool)) == (4, [2, 3, 4])
    claimed = lenders.loan(BORROWER, request(4, gang=True, labels=frozenset({"a"})))
    assert (claimed.units, claimed.claimed, claimed.free) == (0, 3, 1)


def test_a_refusal_compares_the_units_of_the_servers_that_the_job_may_use() -> None:
    claims = {A: claiming(3, needs("a")), BORROWER: Standing("vision", used=1)}
    lenders = turn(claims, (2, 1, 4, 4, 4))
    assert lenders is not None
    loan = lenders.loan(BORROWER, request(1, labels=frozenset({"a"})))
    limit = allowance(claims, BORROWER, 15, loan=loan)
    assert not limit.covers(1)
    assert limit.detail == (
        "project vision uses 1 units and 0 are guaranteed;"
        " other projects claim 3 of the 3 free units on the servers that the job may use"
    )


def test_closed_servers_have_no_open_units() -> None:
    snapshot = idle(topology((4, 2)))
    opened = np.array([True, False])
    counts = OpenUnits.of(replace(snapshot, server_open=opened))
    assert (counts.free.tolist(), counts.units.tolist()) == ([4, 0], [4, 0])


label_sets = st.sets(st.sampled_from(["a", "b", "c"]), max_size=1).map(frozenset)


@given(
    free=st.tuples(*[st.integers(0, 4)] * 5),
    claims=st.dictionaries(
        st.sampled_from([A, B, C]),
        st.tuples(st.integers(1, 6), st.sampled_from(["a", "b", "c"])),
        min_size=1,
    ),
    jobs=st.lists(st.tuples(st.integers(1, 5), st.booleans(), label_sets), max_size=6),
    first=st.booleans(),
)
def test_borrowers_leave_every_claim_its_units_whichever_servers_they_use(
    *,
    free: tuple[int, ...],
    claims: dict[UUID, tuple[int, str]],
    jobs: list[tuple[int, bool, frozenset[str]]],
    first: bool,
) -> None:
    """They use the servers in one order, or in the reverse one."""
    lenders = turn(
        {key: claiming(units, needs(label)) for key, (units, label) in claims.items()}, free
    )
    assert lenders is not None
    left = np.array(free)
    for units, gang, labels in jobs:
        job = request(units, gang=gang, labels=labels)
        loan = lenders.loan(BORROWER, job)
        if not loan.units or loan.units < job.min_units:
            continue
        admitted = request(loan.units, gang=gang, labels=labels, pool=loan.pool)
        lenders.take(BORROWER, admitted)
        usable = [i for i in on(loan.pool) if labels <= LABELS[i]]
        left = without(left, usable if first else usable[::-1], admitted.units, admitted.min_units)
    for label in "abc":
        inside = np.array([label in each for each in LABELS])
        claimed = sum(units for units, of in claims.values() if of == label)
        assert left[inside].sum() >= min(claimed, np.array(free)[inside].sum())


def without(left: np.ndarray, servers: list[int], units: int, least: int) -> np.ndarray:
    """Take units of servers in their order, if there are at least some."""
    rest = left.copy()
    if left[servers].sum() < least:
        return rest
    for server in servers:
        taken = min(units, int(rest[server]))
        rest[server] -= taken
        units -= taken
    return rest


def test_the_pool_of_a_job_is_on_open_and_closed_servers_alike() -> None:
    lenders = turn({A: claiming(9, needs("c"))}, (0, 0, 0, 4, 1))
    assert lenders is not None
    mask = np.array([True, True, True, False, True])
    assert lenders.loan(BORROWER, request(1)).pool == Pool.of(mask)
