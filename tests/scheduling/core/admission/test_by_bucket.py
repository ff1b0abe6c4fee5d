"""Verdicts of the admission controls `count` and `tarcil_lsh`."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Snapshot
from apps.scheduling.core.admission.registry import make_admission
from apps.scheduling.core.admission.types import (
    ADMITTED,
    Admission,
    Admitted,
    Applicant,
    Control,
    Delayed,
)
from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.registry import make
from apps.scheduling.core.types import RefusalReason, Refused, Within
from tests.scheduling.core.clusters import frozen, idle, request, topology

NOW_S = 1000.0


def cluster(free: list[int], contention: list[float]) -> Snapshot:
    """Servers of five units, with free units and contention in points in all sources."""
    snapshot = idle(topology((5,) * len(free)))
    caused = np.repeat(np.array(contention) * 4.0, N_SOURCES).reshape(-1, N_SOURCES)
    is_free = np.concatenate([np.arange(5) < count for count in free])
    return replace(
        snapshot,
        unit_free=frozen(is_free),
        server_caused=frozen(caused.astype(np.float32)),
    )


def control(kind: Control, snapshot: Snapshot, every_s: float = 1.0, **more: Any) -> Admission:
    """An admission control that saw a unit of each server freed at an interval, until now."""
    made = make_admission(kind, **more)
    assert made is not None
    units = snapshot.topology.server_first_unit.astype(np.int64)
    for i in range(100, 0, -1):
        made.note_freed(snapshot, units, NOW_S - i * every_s)
    return made


def applicant(units: int = 1, waited_s: float = 0.0, **more: Any) -> Applicant:
    """A job that tolerates 30 points in each source unless given."""
    fields = {"tolerated": np.full(N_SOURCES, 30.0), **more}
    return Applicant(request(units, **fields), waited_s)


def verdicts(made: Admission, snapshot: Snapshot, *jobs: Applicant) -> list[Admitted | Delayed]:
    return made.evaluate(jobs, snapshot, TopologyFacts(snapshot.topology), NOW_S)


def delayed(made: Admission, snapshot: Snapshot, *jobs: Applicant) -> list[bool]:
    return [isinstance(each, Delayed) for each in verdicts(made, snapshot, *jobs)]


def test_none_has_no_admission_control() -> None:
    assert make_admission(Control.NONE) is None


def test_a_job_waits_while_only_contended_units_are_free() -> None:
    """At 90 points in ten sources a job that tolerates 30 keeps nothing; at 5 points all."""
    crowded = cluster([3, 0], [90.0, 5.0])
    [verdict] = verdicts(control(Control.TARCIL_LSH, crowded), crowded, applicant())
    assert isinstance(verdict, Delayed)
    assert verdict.reason is RefusalReason.QUALITY_SHORT
    assert verdict.detail.startswith("0 of 1 suitable free units; ")
    quiet = cluster([3, 1], [90.0, 5.0])
    assert verdicts(control(Control.TARCIL_LSH, quiet), quiet, applicant()) == [ADMITTED]


def test_units_that_are_reserved_for_others_are_not_free() -> None:
    """The only suitable free unit is reserved; the next job may backfill it, and takes it."""
    quiet = cluster([3, 1], [90.0, 5.0])
    made = control(Control.TARCIL_LSH, quiet)
    bound = applicant()._replace(seen=cluster([3, 0], [90.0, 5.0]))
    assert delayed(made, quiet, bound, applicant(), applicant()) == [True, False, True]


@pytest.mark.parametrize("resource", [0, 1, 2])
def test_a_job_is_left_to_the_policy_if_no_free_unit_has_the_capacity(resource: int) -> None:
    crowded = cluster([3, 0], [90.0, 5.0])
    left = crowded.server_free.copy()
    left[:, resource] = 0.0
    full = replace(crowded, server_free=frozen(left))
    assert delayed(control(Control.TARCIL_LSH, crowded), crowded, applicant()) == [True]
    assert verdicts(control(Control.TARCIL_LSH, full), full, applicant()) == [ADMITTED]
    [outcome] = make("tarcil").place(full, [applicant().request], np.random.default_rng(1))
    assert isinstance(outcome, Refused)
    assert outcome.reason is RefusalReason.CAPACITY_SHORT


def test_the_wait_is_bounded_by_the_mean_and_two_deviations() -> None:
    """One suitable unit each 8 s: the wait is uniform in 0 to 8, so 4 + 2·8/sqrt(12) = 8.62."""
    snapshot = cluster([3, 0], [90.0, 5.0])
    made = control(Control.TARCIL_LSH, snapshot, every_s=8.0)
    bound = 4.0 + 2.0 * 8.0 / np.sqrt(12.0)
    [verdict] = verdicts(made, snapshot, applicant(waited_s=3.0))
    assert isinstance(verdict, Delayed)
    assert verdict.until_s == pytest.approx(NOW_S + bound - 3.0, abs=0.1)
    assert "within 7 s, and it waits at most 9 s" in verdict.detail
    assert delayed(made, snapshot, applicant(waited_s=bound - 0.5)) == [True]
    assert delayed(made, snapshot, applicant(waited_s=bound + 0.1)) == [False]


def test_the_setting_bounds_every_wait() -> None:
    snapshot = cluster([3, 0], [90.0, 5.0])
    made = control(Control.TARCIL_LSH, snapshot, every_s=8.0, max_wait_s=7.5)
    [verdict] = verdicts(made, snapshot, applicant(waited_s=3.0))
    assert isinstance(verdict, Delayed)
    assert verdict.until_s == NOW_S + 4.5
    assert delayed(made, snapshot, applicant(waited_s=7.5)) == [False]


def test_a_job_does_not_wait_if_the_estimate_reaches_the_bound() -> None:
    """Suitable units each 8 s: 90 % of waits for one take 7.2 s, for two 15.2 s; bound 8.6 s."""
    snapshot = cluster([3, 0], [90.0, 5.0])
    made = control(Control.TARCIL_LSH, snapshot, every_s=8.0)
    first, second = applicant(job="a"), applicant(job="b")
    assert delayed(made, snapshot, first, second) == [True, False]
    assert delayed(made, snapshot, first) == [True], "it is not behind itself"


def test_a_job_does_not_wait_without_a_history() -> None:
    snapshot = cluster([3, 0], [90.0, 5.0])
    made = make_admission(Control.TARCIL_LSH)
    assert made is not None
    assert delayed(made, snapshot, applicant()) == [False]
    old = control(Control.TARCIL_LSH, snapshot)
    late = old.evaluate([applicant()], snapshot, TopologyFacts(snapshot.topology), NOW_S + 7201.0)
    assert late == [ADMITTED]


def test_a_job_that_no_bucket_suits_does_not_wait() -> None:
    snapshot = cluster([3, 0], [90.0, 60.0])
    made = control(Control.TARCIL_LSH, snapshot)
    assert delayed(made, snapshot, applicant()) == [False]


def test_later_jobs_of_a_batch_see_the_units_of_earlier_ones() -> None:
    snapshot = cluster([3, 2], [90.0, 5.0])
    made = control(Control.TARCIL_LSH, snapshot, every_s=8.0)
    jobs = [applicant(job=name) for name in "abc"]
    assert delayed(made, snapshot, *jobs) == [False, False, True]


def test_only_units_that_the_job_may_use_count() -> None:
    """Servers alternate between the platforms J and A; the quiet one is of A."""
    snapshot = cluster([3, 1], [90.0, 5.0])
    made = control(Control.TARCIL_LSH, snapshot)
    assert delayed(made, snapshot, applicant(platforms=frozenset("A"))) == [False]
    both = cluster([3, 1, 0], [90.0, 5.0, 5.0])
    made = control(Control.TARCIL_LSH, both, every_s=8.0)
    assert delayed(made, both, applicant(platforms=frozenset("J"))) == [True]
    shut = replace(both, server_open=frozen(np.array([True, False, True])))
    assert delayed(made, shut, applicant(job="c")) == [True]


@pytest.mark.parametrize(("units", "waits"), [(1, False), (3, False), (4, True), (5, True)])
def test_count_waits_for_the_number_of_units_whatever_their_quality(
    units: int, *, waits: bool
) -> None:
    """3 units are free, 2 are freed each second: the fourth and fifth are expected."""
    snapshot = cluster([3, 0], [90.0, 5.0])
    made = control(Control.COUNT, snapshot)
    [verdict] = verdicts(made, snapshot, applicant(units))
    assert isinstance(verdict, Delayed) == waits
    if isinstance(verdict, Delayed):
        assert verdict.reason is RefusalReason.WAITING_FOR_BUCKET


@pytest.mark.parametrize("kind", [Control.COUNT, Control.TARCIL_LSH])
@pytest.mark.parametrize("whole", [{"gang": True}, {"locality": Within.RACK}])
def test_the_policy_refuses_gangs_that_lack_units_of_any_quality(
    kind: Control, whole: dict[str, Any]
) -> None:
    snapshot = cluster([3, 0], [90.0, 5.0])
    made = control(kind, snapshot)
    assert delayed(made, snapshot, applicant(4, **whole)) == [False]
    full = cluster([0, 0], [90.0, 5.0])
    assert delayed(control(kind, full), full, applicant()) == [False]


def test_the_state_counts_servers_units_and_waiting_jobs() -> None:
    snapshot = cluster([3, 0], [90.0, 5.0])
    made = control(Control.TARCIL_LSH, snapshot, every_s=8.0)
    verdicts(made, snapshot, applicant())
    facts = TopologyFacts(snapshot.topology)
    begun_s = NOW_S - 100 * 8.0
    assert {row.freed_per_s for row in made.state(snapshot, facts, begun_s + 599.0)} == {None}
    rows = [row for row in made.state(snapshot, facts, NOW_S) if row.servers]
    assert [(row.name[:12], row.free_units, row.waiting) for row in rows] == [
        ("0 to 10 poin", 0, 1),
        ("55 to 100 po", 3, 0),
    ]
    assert rows[0].freed_per_s == pytest.approx(100 / 800.0, rel=0.02)
    assert rows[0].mean_s == pytest.approx(4.0, abs=0.05)
    assert rows[0].bound_s == pytest.approx(8.62, abs=0.1)
    assert rows[0].as_json()["waiting"] == 1


def test_the_rate_of_many_freed_units_is_of_those_that_are_kept() -> None:
    """Ten units each 0.1 s for 200 s are more than are kept."""
    snapshot = cluster([5, 5], [0.0, 0.0])
    made = make_admission(Control.COUNT)
    assert made is not None
    for turn in range(2000):
        made.note_freed(snapshot, np.arange(10), NOW_S - 200.0 + 0.1 * turn)
    (row,) = made.state(snapshot, TopologyFacts(snapshot.topology), NOW_S)
    assert row.freed_per_s == pytest.approx(100.0, rel=0.01)


def test_a_job_that_is_not_evaluated_for_long_is_forgotten() -> None:
    snapshot = cluster([3, 0], [90.0, 5.0])
    made = control(Control.TARCIL_LSH, snapshot, every_s=8.0)
    verdicts(made, snapshot, applicant())
    facts = TopologyFacts(snapshot.topology)
    assert sum(row.waiting for row in made.state(snapshot, facts, NOW_S + 1200.0)) == 1
    assert sum(row.waiting for row in made.state(snapshot, facts, NOW_S + 1201.0)) == 0
