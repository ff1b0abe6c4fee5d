"""Decisions on the jobs that an admission control admits."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from apps.scheduling.core.admission.placing import place_admitted, refused_as, within
from apps.scheduling.core.admission.types import ADMITTED, Admitted, Delayed
from apps.scheduling.core.baselines import paragon_greedy
from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.expected.rankings import ExpectedRankings
from apps.scheduling.core.policies import at_random, least_loaded
from apps.scheduling.core.types import Placed, Policy, Pool, RefusalReason, Refused, Request
from tests.scheduling.core.clusters import idle, request, topology

N = 10
FIRST = Admitted(np.array([True, False]))
LATER = Delayed(RefusalReason.WAITING_FOR_BUCKET, "its units will be free soon", 5.0)


def placed(
    policy: Policy, requests: Sequence[Request], verdicts: Sequence[Admitted | Delayed]
) -> list[Placed | Refused]:
    """Outcomes on two idle servers of four units."""
    rng = np.random.default_rng(1)
    return place_admitted(
        verdicts,
        requests,
        idle(topology((4, 4))),
        lambda snapshot, admitted: policy.place(snapshot, admitted, rng),
    )


def servers(outcome: Placed | Refused) -> list[int]:
    assert isinstance(outcome, Placed)
    return (outcome.units // 4).tolist()


@pytest.mark.parametrize(("caused", "server"), [(0.0, 0), (100.0, 1)])
def test_jobs_with_other_servers_see_the_interference_of_those_before(
    caused: float, server: int
) -> None:
    noisy = request(job="1", caused=np.full(N, caused))
    sensitive = request(job="2", tolerated=np.full(N, 10.0), platform_speed=np.array([1.0, 0.5]))
    first, second = placed(paragon_greedy(), [noisy, sensitive], [FIRST, ADMITTED])
    assert (servers(first), servers(second)) == ([0], [server])


def test_jobs_with_other_servers_see_the_memory_of_those_before() -> None:
    large = [request(job=str(i), unit_memory_bytes=10e9) for i in range(3)]
    *others, last = placed(least_loaded(), large, [FIRST, ADMITTED, ADMITTED])
    assert [servers(each) for each in others] == [[0], [1]]
    assert isinstance(last, Refused)
    assert last.reason is RefusalReason.CAPACITY_SHORT


def test_a_delayed_job_keeps_its_place_among_the_outcomes() -> None:
    one = request(job="1")
    delayed, other = placed(at_random(), [one, request(job="2")], [LATER, FIRST])
    assert isinstance(delayed, Refused)
    assert (delayed.job, delayed.reason) == ("1", RefusalReason.WAITING_FOR_BUCKET)
    assert servers(other) == [0]


def test_reserved_units_are_not_among_those_that_admission_keeps() -> None:
    cluster = idle(topology((4, 4)))
    busy, held = np.arange(8) == 0, np.arange(8) >= 6
    some = replace(cluster, unit_free=~busy)
    without = refused_as(LATER, "1", some, replace(some, unit_free=~busy & ~held))
    assert without.dropped == {"busy": 1, "reserved": 2, "admission": 5}
    assert refused_as(LATER, "1", some).dropped == {"busy": 1, "admission": 7}


def test_a_request_keeps_the_servers_that_it_excludes() -> None:
    spec = request(job="1", excluded=frozenset({0}))
    (refused,) = placed(at_random(), [spec], [FIRST])  # the only server of its pool
    assert isinstance(refused, Refused)
    assert refused.dropped == {"excluded": 8}
    assert refused.detail.endswith("are on excluded servers or outside the job's pool")
    assert within(spec, ADMITTED) is spec


def test_a_request_keeps_to_the_servers_of_its_pool() -> None:
    """A quota lets it borrow units on the second server only."""
    spec = request(job="1", pool=Pool.of(np.array([False, True])))
    both = within(spec, Admitted(np.array([True, True])))
    assert both.pool == spec.pool
    none = within(spec, FIRST)
    assert none.pool == Pool.of(np.array([False, False]))


def test_jobs_with_the_same_pool_share_a_ranking() -> None:
    one, other = (within(request(job=job), Admitted(FIRST.servers)) for job in "12")
    rankings, facts = ExpectedRankings(), TopologyFacts(topology((4, 4)))
    rankings.state(idle(facts.topology), facts)
    numbers = [rankings._read(each)[1].row for each in (one, other, request(job="3"))]
    assert numbers == [0, 0, 1]
