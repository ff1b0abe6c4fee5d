"""What another belief about an application would change for its jobs."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from apps.classification.core.profile import Profile
from apps.common.core.interference import N_SOURCES, SOURCES
from apps.inventory.core.snapshot import Snapshot
from apps.scheduling.core.ask import Ask, cluster_facts, size_of
from apps.scheduling.core.preview import Holding, JobPreview, preview
from apps.scheduling.core.sizing import Sized
from apps.workloads.core.spec import Constraints
from apps.workloads.core.targets import BestEffort, CompletionTime, InstructionRate
from tests.classification.core.profiles import profile
from tests.scheduling.core.clusters import frozen, idle, topology

CLUSTER = topology((16, 8, 16, 8))  # platforms J, A by turns
IDLE = idle(CLUSTER)
FLAT = np.full(N_SOURCES, 20.0)


def ask(**fields: Any) -> Ask:
    """Ask for 9 GB in 100 s: two units at 100 MB/s, of which 90 are counted on."""
    known = {"target": CompletionTime(100.0), "constraints": Constraints(), "input_bytes": 9e9}
    return Ask(**{"job": "j", **known, **fields})


def previewed(
    after: Profile,
    *holdings: Holding,
    before: Profile | None = None,
    snapshot: Snapshot = IDLE,
    **fields: Any,
) -> JobPreview:
    (found,) = preview([(ask(**fields), holdings)], before or profile(), after, snapshot)
    return found


def tolerating(points: float, **values: Any) -> Profile:
    scores = np.full(N_SOURCES, points)
    return replace(profile(**values), tolerated=scores, tolerated_low=scores)


def noisy(*sums: float) -> Snapshot:
    """Servers whose busy units cause so many points in every source, together."""
    caused = np.repeat(np.array(sums, dtype=np.float32)[:, None], N_SOURCES, axis=1)
    return replace(IDLE, server_caused=frozen(caused))


def test_the_same_belief_changes_nothing() -> None:
    found = previewed(profile(), Holding(0, 2, FLAT))
    assert found.before == found.after
    assert not found.is_changed
    assert (found.gained, found.lost) == ((), ())


def test_a_slower_application_needs_more_units() -> None:
    found = previewed(profile(bytes_rate=5e7))
    assert (found.before.units, found.after.units) == (2, 3)
    assert found.is_changed
    assert found.before.predicted is not None
    assert found.before.predicted.value == pytest.approx(9e9 / (2 * 0.9 * 1e8))


def test_sizes_are_those_the_agent_decides() -> None:
    other = profile(bytes_rate=3e7, speeds=(1.0, 0.6), error=0.05)
    sized = size_of(ask(), other, cluster_facts(IDLE, other.platforms))
    found = previewed(other).after
    assert isinstance(sized, Sized)
    assert found.units == sized.units
    assert found.platforms == tuple(sorted(sized.platforms or ()))
    assert found.predicted == (sized.predicted, sized.low, sized.high)


def test_platforms_are_gained_and_lost() -> None:
    fast, slow = profile(speeds=(1.0, 1.0)), profile(speeds=(1.0, 0.5))
    assert previewed(slow, before=fast).lost == ("A",)
    assert previewed(fast, before=slow).gained == ("A",)


def test_a_promise_may_become_impossible() -> None:
    found = previewed(profile(bytes_rate=1e5))
    assert (found.before.feasible, found.after.feasible) == (True, False)
    assert found.lost == ("A", "J")
    assert "ask for at least" in found.after.suggestion
    assert found.after.predicted is not None
    assert found.after.predicted.value > 100.0
    assert math.isnan(found.after.predicted.low)


def test_what_only_closed_servers_could_do_stays_possible() -> None:
    closed = replace(IDLE, server_open=frozen(np.array([False, True, False, True])))
    only_j = ask(constraints=Constraints(platforms=("J",)))
    (found,) = preview([(only_j, ())], profile(), profile(bytes_rate=5e7), closed)
    assert (found.before.feasible, found.after.feasible) == (True, True)
    assert (found.before.units, found.after.units) == (2, 3)
    assert found.after.good_servers == frozenset()


def test_a_job_that_tolerates_less_has_fewer_good_servers() -> None:
    # on 16 units the pressure is the sum over 15, on 8 over 7: 45, 0, 10 and 0 points
    found = previewed(tolerating(19.0), snapshot=noisy(675.0, 0.0, 150.0, 0.0))
    assert found.before.good_servers == frozenset({1, 2, 3})  # 50 tolerated, a margin of 10 kept
    assert found.after.good_servers == frozenset({1, 3})
    assert found.is_changed


def test_a_job_that_causes_more_wants_quieter_servers() -> None:
    louder = replace(profile(), caused=np.full(N_SOURCES, 95.0))
    found = previewed(louder, snapshot=noisy(600.0, 0.0, 150.0, 0.0))
    assert found.after.good_servers == frozenset({1, 3})


def test_busy_servers_are_not_good_for_anybody() -> None:
    free = IDLE.unit_free.copy()
    free[:16] = False
    found = previewed(profile(), snapshot=replace(IDLE, unit_free=frozen(free)))
    assert found.after.good_servers == frozenset({1, 2, 3})


def test_a_running_job_is_held_against_its_neighbours() -> None:
    # two of its units cause 20 each, others 280: 15 others of 16 units bear (280 + 20) / 15 = 20
    there = Holding(0, 2, FLAT)
    (stand,) = previewed(tolerating(15.0), there, snapshot=noisy(320.0, 0.0, 0.0, 0.0)).stands
    assert stand.server == 0
    assert stand.before == pytest.approx(50.0 - 20.0)
    # afterwards its other unit is said to cause 50: (280 + 50) / 15 = 22
    assert stand.after == pytest.approx(15.0 - 22.0)
    assert stand.is_changed


def test_the_tightest_source_is_named() -> None:
    tolerated = np.full(N_SOURCES, 60.0)
    tolerated[3] = 5.0
    after = replace(profile(), tolerated=tolerated, tolerated_low=tolerated)
    (stand,) = previewed(after, Holding(0, 1, FLAT), snapshot=noisy(170.0, 0, 0, 0)).stands
    assert stand.source == SOURCES[3]
    assert stand.after == pytest.approx(5.0 - 10.0)


def test_alone_on_a_server_of_one_unit_there_is_no_pressure() -> None:
    single = idle(topology((1, 1)))
    (stand,) = previewed(tolerating(0.0), Holding(0, 1, FLAT), snapshot=single).stands
    assert (stand.before, stand.after) == (50.0, 0.0)


def test_a_running_job_changes_with_its_server_alone() -> None:
    found = previewed(tolerating(5.0), Holding(0, 1, FLAT), snapshot=noisy(170.0, 0, 0, 0))
    assert found.before.units == found.after.units
    assert found.is_changed
    assert found.after.good_servers == frozenset()


def test_a_size_fixed_by_its_submitter_stays() -> None:
    found = previewed(profile(bytes_rate=5e7), units=7)
    assert (found.before.units, found.after.units) == (7, 7)
    assert found.after.predicted is None
    assert found.after.platforms == ("A", "J")
    assert not found.is_changed


@pytest.mark.parametrize(
    ("target", "unit_count"), [(InstructionRate(1.5e8), (2, 4)), (BestEffort(), (1, 1))]
)
def test_every_kind_of_target_is_sized(target: Any, unit_count: tuple[int, int]) -> None:
    found = previewed(profile(base_rate=5e7), target=target)
    assert (found.before.units, found.after.units) == unit_count


def test_on_a_cluster_without_servers_nothing_is_possible() -> None:
    found = previewed(profile(bytes_rate=5e7), snapshot=idle(topology(())))
    assert (found.before.feasible, found.after.feasible) == (False, False)
    assert not found.is_changed


def test_jobs_alike_are_answered_alike_whatever_they_hold() -> None:
    jobs = [
        (ask(job="a"), ()),
        (ask(job="b"), (Holding(0, 1, FLAT),)),
        (ask(job="c", elapsed_s=10.0), ()),
        (ask(job="d"), ()),
    ]
    first, held, later, again = preview(jobs, profile(), profile(bytes_rate=5e7), IDLE)
    assert (first, len(first.after.good_servers)) == (again, 4)
    assert held.after.good_servers == frozenset()
    assert first.before.predicted == pytest.approx((50.0, 50.0, 50.0))
    assert later.before.predicted == pytest.approx((60.0, 60.0, 60.0))


def test_the_beliefs_stay_as_they_were() -> None:
    one, other = profile(), tolerating(5.0)
    list(preview([(ask(), ())], one, other, IDLE))
    assert one.tolerated.tolist() == [50.0] * N_SOURCES
    assert other.tolerated.tolist() == [5.0] * N_SOURCES
