"""Preview of how another profile of an application changes its jobs."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from apps.classification.core.profile import Profile
from apps.common.core.interference import N_SOURCES, SOURCES
from apps.inventory.core.snapshot import Snapshot
from apps.scheduling.core.preview import HeldUnits, JobPreview, preview
from apps.scheduling.core.requests import cluster_facts, size_of
from apps.scheduling.core.sizing.sizes import Sized
from apps.workloads.core.constraints import Constraints
from apps.workloads.core.spec import JobSpec
from apps.workloads.core.targets import BestEffort, CompletionTime, InstructionRate
from tests.classification.core.profiles import exact, profile
from tests.scheduling.core.clusters import frozen, idle, topology

CLUSTER = topology((16, 8, 16, 8))  # platforms J, A by turns
IDLE = idle(CLUSTER)
FLAT = np.full(N_SOURCES, 20.0)


def spec(**fields: Any) -> JobSpec:
    """Specify 9 GB in 100 s: two units at 100 MB/s, of which 90 are counted on."""
    return JobSpec(
        **{
            "application": "sort",
            "target": CompletionTime(100.0),
            "input_bytes": 9_000_000_000,
            **fields,
        }
    )


def previewed(
    after: Profile,
    *held: HeldUnits,
    before: Profile | None = None,
    snapshot: Snapshot = IDLE,
    elapsed_s: float = 0.0,
    **fields: Any,
) -> JobPreview:
    (change,) = preview([(spec(**fields), elapsed_s, held)], before or profile(), after, snapshot)
    return change


def tolerating(points: float, **values: Any) -> Profile:
    scores = np.full(N_SOURCES, points)
    return replace(profile(**values), tolerated=exact(scores))


def noisy(*sums: float) -> Snapshot:
    """Return servers whose busy units cause these totals in every source."""
    caused = np.repeat(np.array(sums, dtype=np.float32)[:, None], N_SOURCES, axis=1)
    return replace(IDLE, server_caused=frozen(caused))


def test_the_same_profile_changes_nothing() -> None:
    change = previewed(profile(), HeldUnits(0, 2, FLAT))
    assert change.before == change.after
    assert not change.is_changed
    assert (change.gained, change.lost) == ((), ())


def test_a_slower_application_needs_more_units() -> None:
    change = previewed(profile(bytes_rate=5e7))
    assert (change.before.units, change.after.units) == (2, 3)
    assert change.is_changed
    assert change.before.predicted is not None
    assert change.before.predicted.value == pytest.approx(9e9 / (2 * 0.9 * 1e8))


def test_sizes_equal_those_of_the_agent() -> None:
    other = profile(bytes_rate=3e7, speeds=(1.0, 0.6), error=0.05)
    sized = size_of(spec(), other, cluster_facts(IDLE, other.platforms))
    change = previewed(other).after
    assert isinstance(sized, Sized)
    assert change.units == sized.units
    assert change.platforms == tuple(sorted(sized.platforms or ()))
    assert change.predicted == (sized.predicted, sized.low, sized.high)


def test_platforms_are_gained_and_lost() -> None:
    fast, slow = profile(speeds=(1.0, 1.0)), profile(speeds=(1.0, 0.5))
    assert previewed(slow, before=fast).lost == ("A",)
    assert previewed(fast, before=slow).gained == ("A",)


def test_a_target_may_become_infeasible() -> None:
    change = previewed(profile(bytes_rate=1e5))
    assert (change.before.feasible, change.after.feasible) == (True, False)
    assert change.lost == ("A", "J")
    assert "request at least" in change.after.suggestion
    assert change.after.predicted is not None
    assert change.after.predicted.value > 100.0
    assert math.isnan(change.after.predicted.low)


def test_a_target_that_closed_servers_could_meet_stays_feasible() -> None:
    closed = replace(IDLE, server_open=frozen(np.array([False, True, False, True])))
    only_j = spec(constraints=Constraints(platforms=("J",)))
    (change,) = preview([(only_j, 0.0, ())], profile(), profile(bytes_rate=5e7), closed)
    assert (change.before.feasible, change.after.feasible) == (True, True)
    assert (change.before.units, change.after.units) == (2, 3)
    assert change.after.good_servers == frozenset()


def test_a_job_that_tolerates_less_has_fewer_good_servers() -> None:
    # on 16 units the pressure is the sum over 15, on 8 over 7: 45, 0, 10 and 0 points
    change = previewed(tolerating(19.0), snapshot=noisy(675.0, 0.0, 150.0, 0.0))
    assert change.before.good_servers == frozenset({1, 2, 3})  # 50 tolerated, a margin of 10 kept
    assert change.after.good_servers == frozenset({1, 3})
    assert change.is_changed


def test_a_job_that_causes_more_interference_has_other_good_servers() -> None:
    louder = replace(profile(), caused=exact(np.full(N_SOURCES, 95.0)))
    change = previewed(louder, snapshot=noisy(600.0, 0.0, 150.0, 0.0))
    assert change.after.good_servers == frozenset({1, 3})


def test_busy_servers_are_not_good() -> None:
    free = IDLE.unit_free.copy()
    free[:16] = False
    change = previewed(profile(), snapshot=replace(IDLE, unit_free=frozen(free)))
    assert change.after.good_servers == frozenset({1, 2, 3})


def test_a_running_job_is_compared_with_its_neighbours() -> None:
    # two of its units cause 20 each, others 280: 15 others of 16 units bear (280 + 20) / 15 = 20
    there = HeldUnits(0, 2, FLAT)
    (headroom,) = previewed(
        tolerating(15.0), there, snapshot=noisy(320.0, 0.0, 0.0, 0.0)
    ).headrooms
    assert headroom.server == 0
    assert headroom.before == pytest.approx(50.0 - 20.0)
    # afterwards its other unit is said to cause 50: (280 + 50) / 15 = 22
    assert headroom.after == pytest.approx(15.0 - 22.0)
    assert headroom.is_changed


def test_the_tightest_source_is_named() -> None:
    tolerated = np.full(N_SOURCES, 60.0)
    tolerated[3] = 5.0
    after = replace(profile(), tolerated=exact(tolerated))
    (headroom,) = previewed(after, HeldUnits(0, 1, FLAT), snapshot=noisy(170.0, 0, 0, 0)).headrooms
    assert headroom.source == SOURCES[3]
    assert headroom.after == pytest.approx(5.0 - 10.0)


def test_alone_on_a_server_of_one_unit_there_is_no_pressure() -> None:
    single = idle(topology((1, 1)))
    (headroom,) = previewed(tolerating(0.0), HeldUnits(0, 1, FLAT), snapshot=single).headrooms
    assert (headroom.before, headroom.after) == (50.0, 0.0)


def test_a_running_job_changes_if_only_its_server_becomes_unacceptable() -> None:
    change = previewed(tolerating(5.0), HeldUnits(0, 1, FLAT), snapshot=noisy(170.0, 0, 0, 0))
    assert change.before.units == change.after.units
    assert change.is_changed
    assert change.after.good_servers == frozenset()


def test_a_size_fixed_by_its_submitter_stays() -> None:
    change = previewed(profile(bytes_rate=5e7), units=7)
    assert (change.before.units, change.after.units) == (7, 7)
    assert change.after.predicted is None
    assert change.after.platforms == ("A", "J")
    assert not change.is_changed


@pytest.mark.parametrize(
    ("target", "unit_count"), [(InstructionRate(1.5e8), (2, 4)), (BestEffort(), (1, 1))]
)
def test_every_kind_of_target_is_sized(target: Any, unit_count: tuple[int, int]) -> None:
    change = previewed(profile(base_rate=5e7), target=target)
    assert (change.before.units, change.after.units) == unit_count


def test_a_cluster_without_servers_makes_all_jobs_infeasible() -> None:
    change = previewed(profile(bytes_rate=5e7), snapshot=idle(topology(())))
    assert (change.before.feasible, change.after.feasible) == (False, False)
    assert not change.is_changed


def test_jobs_with_equal_specifications_have_equal_outcomes() -> None:
    jobs = [
        (spec(), 0.0, ()),
        (spec(), 0.0, (HeldUnits(0, 1, FLAT),)),
        (spec(), 10.0, ()),
        (spec(), 0.0, ()),
    ]
    first, held, later, again = preview(jobs, profile(), profile(bytes_rate=5e7), IDLE)
    assert (first, len(first.after.good_servers)) == (again, 4)
    assert held.after.good_servers == frozenset()
    assert first.before.predicted == pytest.approx((50.0, 50.0, 50.0))
    assert later.before.predicted == pytest.approx((60.0, 60.0, 60.0))


def test_the_profiles_do_not_change() -> None:
    first, other = profile(), tolerating(5.0)
    list(preview([(spec(), 0.0, ())], first, other, IDLE))
    assert first.tolerated.value.tolist() == [50.0] * N_SOURCES
    assert other.tolerated.value.tolist() == [5.0] * N_SOURCES
