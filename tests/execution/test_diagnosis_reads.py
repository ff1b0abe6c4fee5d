"""Diagnosis of a job from its rows."""

import numpy as np
import pytest

from apps.execution.core.diagnosis.attribution import Kind
from apps.execution.core.diagnosis.case import Wait
from apps.execution.core.diagnosis.remedies import RemedyKind
from apps.execution.core.diagnosis.text import NO_SPEED
from apps.execution.models import JobSample, Migration
from apps.execution.selectors.case import LATEST, MAX_OF_PART, MAX_SAMPLES, TAIL_S, samples
from apps.execution.selectors.diagnosis import diagnosis
from apps.scheduling.models import Allocation
from apps.scheduling.selectors import ClusterFollower
from apps.workloads.models import Job
from tests import factories
from tests.execution.miss_world import BEGIN_S, DIP_S, NOW_S, STEP_S, Missed, missed

pytestmark = pytest.mark.django_db
COUNTERS = ("memory_rate", "network_wait", "disk_wait")


@pytest.fixture(autouse=True)
def _new_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process's copy of the cluster outlives the tests."""
    monkeypatch.setattr("apps.scheduling.services.dry_run._COPY", ClusterFollower())


@pytest.fixture
def world() -> Missed:
    return missed()


def test_the_neighbour_that_arrived_with_the_dip_is_the_first_suspect(world: Missed) -> None:
    found = diagnosis(world.job, Job.objects.all())
    assert found.dip is not None
    assert (found.dip.begin_s, found.dip.is_open) == (DIP_S, True)
    assert found.finding is not None
    first = found.finding.suspects[0]
    assert (first.kind, first.title) == (Kind.NEIGHBOUR, "shuffle-88 on srv-0212")
    assert first.confidence > 0.8


def test_the_pressure_rises_with_the_neighbour(world: Missed) -> None:
    found = diagnosis(world.job, Job.objects.all()).finding
    assert found is not None
    assert found.pressure.before[3] == pytest.approx(0.0)
    assert found.pressure.at_dip[3] == pytest.approx(72.0)
    assert found.pressure.crossed.tolist() == [i == 3 for i in range(10)]


def test_the_units_can_move_to_the_empty_server(world: Missed) -> None:
    found = diagnosis(world.job, Job.objects.all())
    move = next(r for r in found.remedies if r.kind is RemedyKind.MOVE)
    assert (move.from_server, move.to_server, move.units) == (world.here.id, world.empty.id, 2)
    assert move.predicted is not None
    assert found.unchanged is not None
    assert move.probability > 0.5 > found.unchanged.probability
    assert found.names.server(world.empty.id) == "srv-0317"


def test_a_closed_server_is_not_proposed(world: Missed) -> None:
    world.empty.state = "cordoned"
    world.empty.save(update_fields=["state"])
    factories.change(1)  # of the servers: copies of the cluster are read again
    kinds = {r.kind for r in diagnosis(world.job, Job.objects.all()).remedies}
    assert RemedyKind.MOVE not in kinds


def test_a_job_without_a_dip_has_only_its_reports(world: Missed) -> None:
    JobSample.objects.filter(cluster_s__gte=DIP_S).delete()
    found = diagnosis(world.job, Job.objects.all())
    assert (found.dips, found.dip, found.finding, found.remedies) == ((), None, None, ())
    assert found.shown.at_s[0] == BEGIN_S


def test_a_dip_that_ended_has_no_remedies(world: Missed) -> None:
    for at_s in (NOW_S + 10.0, NOW_S + 20.0):
        factories.sample(world.job, at_s, attainment=1.1, performance=1.1e9)
    found = diagnosis(world.job, Job.objects.all())
    assert found.dip is not None
    assert not found.dip.is_open
    assert found.remedies == ()
    assert found.finding is not None


def test_a_dip_that_has_just_begun_is_not_mixed_with_the_time_before_it(world: Missed) -> None:
    JobSample.objects.filter(cluster_s__gt=DIP_S + 10.0).delete()
    in_dip = JobSample.objects.filter(cluster_s__gte=DIP_S)
    speeds = [row.performance or 0.0 for row in in_dip]
    assert len(speeds) == 2
    unchanged = diagnosis(world.job, Job.objects.all()).unchanged
    assert unchanged is not None
    assert unchanged.predicted is not None
    assert unchanged.predicted.value == pytest.approx(np.sqrt(np.prod(speeds)))


def test_the_wait_and_the_units_still_missing_of_a_job_are_read(world: Missed) -> None:
    due, submitted_s = {"kind": "completion_time", "seconds": 60.0}, world.job.submitted_s
    Job.objects.filter(pk=world.job.pk).update(
        target=due, target_kind=due["kind"], started_s=submitted_s + 100.0, units_missing=3
    )
    world.job.refresh_from_db()
    found = diagnosis(world.job, Job.objects.all())
    assert found.case is not None
    assert (found.case.wanted_units, found.case.wait) == (5, Wait(100.0, 60.0))
    Job.objects.filter(pk=world.job.pk).update(attempts=2)
    world.job.refresh_from_db()
    again = diagnosis(world.job, Job.objects.all())
    assert again.case is not None
    assert again.case.wait is None


def test_an_earlier_dip_can_be_asked_for(world: Missed) -> None:
    JobSample.objects.filter(cluster_s__in=[6100.0, 6110.0, 6120.0]).update(attainment=0.9)
    found = diagnosis(world.job, Job.objects.all(), at_s=6110.0)
    assert [dip.begin_s for dip in found.dips] == [6100.0, DIP_S]
    assert found.dip == found.dips[0]
    assert diagnosis(world.job, Job.objects.all(), at_s=6000.0).dip is None


def frequent(job: Job, begin_s: float, end_s: float, reports: int) -> None:
    """Add reports of a span that say what the ones there say."""
    of_span = JobSample.objects.filter(job=job, cluster_s__range=(begin_s, end_s))
    given = list(of_span.order_by("cluster_s"))
    times = np.linspace(begin_s, end_s, reports + 2)[1:-1]
    JobSample.objects.bulk_create(
        JobSample(
            job=job,
            cluster_s=float(at_s),
            progress=0.5,
            cpu_share=0.9,
            **{
                field: getattr(given[i % len(given)], field)
                for field in ("performance", "attainment", *COUNTERS)
            },
        )
        for i, at_s in enumerate(times)
    )


def test_a_dip_that_began_before_the_latest_reports_is_diagnosed_as_a_whole(world: Missed) -> None:
    few = diagnosis(world.job, Job.objects.all())
    frequent(world.job, BEGIN_S, DIP_S - 10.0, 1_500)
    frequent(world.job, DIP_S, NOW_S, 3_000)
    latest = samples(world.job)
    assert (latest.at_s.size, latest.at_s[0] > DIP_S) == (MAX_SAMPLES, True)
    found = diagnosis(world.job, Job.objects.all())
    assert found.dip is not None
    assert (found.dip.begin_s, found.dip.end_s, found.dip.is_open) == (DIP_S, NOW_S, True)
    assert found.dip.reports == 3_061
    assert (found.shown.at_s[0], found.shown.at_s[-1]) == (BEGIN_S, NOW_S)
    assert found.finding is not None
    before, at_dip = found.shown.at_s[found.finding.before], found.shown.at_s[found.finding.at_dip]
    for at_s, limit in ((before, MAX_OF_PART[0]), (at_dip, MAX_OF_PART[1])):
        assert limit <= at_s.size <= limit + LATEST
        assert np.diff(at_s).max() < 2.0  # evenly spaced, over ten minutes
    every = JobSample.objects.filter(job=world.job).order_by("-cluster_s", "-id")
    newest = list(every.values_list("cluster_s", flat=True)[:LATEST])
    assert at_dip[-LATEST:].tolist() == newest[::-1]
    first = found.finding.suspects[0]
    assert (first.kind, first.title) == (Kind.NEIGHBOUR, "shuffle-88 on srv-0212")
    assert first.confidence > 0.8
    assert few.finding is not None
    assert found.finding.attribution.reference is few.finding.attribution.reference


def test_the_reports_before_and_in_a_dip_are_selected_apart(
    world: Missed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.execution.selectors.case.MAX_OF_PART", (300, 300, 300))
    frequent(world.job, BEGIN_S, DIP_S - 10.0, 1_500)
    frequent(world.job, DIP_S, NOW_S, 3_000)
    shown = diagnosis(world.job, Job.objects.all()).shown.at_s
    for part in (shown[shown < DIP_S], shown[shown >= DIP_S]):
        assert 300 <= part.size <= 300 + LATEST


def test_an_earlier_dip_is_found_although_many_reports_follow(world: Missed) -> None:
    for at_s in (NOW_S + 10.0, NOW_S + 20.0):
        factories.sample(world.job, at_s, attainment=1.1, performance=1.1e9)
    frequent(world.job, NOW_S + 10.0, NOW_S + 5000.0, MAX_SAMPLES)
    found = diagnosis(world.job, Job.objects.all())
    assert found.dip is not None
    assert (found.dip.begin_s, found.dip.end_s, found.dip.is_open) == (DIP_S, NOW_S, False)
    assert (found.shown.at_s[0], found.finding is None) == (BEGIN_S, False)
    assert found.shown.at_s[-1] == pytest.approx(NOW_S + TAIL_S, abs=30.0)


def test_dips_are_found_in_the_latest_reports_only(
    world: Missed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.execution.selectors.case.MAX_SAMPLES", 20)
    monkeypatch.setattr("apps.execution.selectors.case.MAX_REPORTS", 50)
    dip = diagnosis(world.job, Job.objects.all()).dip
    assert dip is not None
    assert dip.begin_s == NOW_S - 49 * STEP_S


def test_a_dip_of_unknown_speed_has_no_finding(world: Missed) -> None:
    JobSample.objects.filter(cluster_s__gte=DIP_S).update(performance=None)
    found = diagnosis(world.job, Job.objects.all())
    assert found.dip is not None
    assert (found.dip.begin_s, found.dip.is_open) == (DIP_S, True)
    assert (found.finding, found.unchanged, found.remedies) == (None, None, ())
    assert found.summary == NO_SPEED


def test_one_known_speed_of_a_dip_is_its_speed_now(world: Missed) -> None:
    in_dip = JobSample.objects.filter(cluster_s__gte=DIP_S)
    in_dip.exclude(cluster_s=DIP_S + 100.0).update(performance=None)
    (speed,) = in_dip.exclude(performance=None).values_list("performance", flat=True)
    unchanged = diagnosis(world.job, Job.objects.all()).unchanged
    assert unchanged is not None
    assert unchanged.predicted is not None
    assert unchanged.predicted.value == pytest.approx(speed)


def test_a_neighbour_acts_from_its_start_until_it_leaves(world: Missed) -> None:
    gone = factories.job("gone", state="succeeded", started_s=6010.0)
    factories.allocation(
        gone, world.empty, acquired_s=6000.0, released_seq=10**6, released_s=6300.0
    )
    Allocation.objects.filter(job=gone).update(server_id=world.here.id)
    waits = factories.job("waits", state="starting")
    factories.allocation(waits, world.here, acquired_s=6100.0)
    case = diagnosis(world.job, Job.objects.all()).case
    assert case is not None
    assert {(h.job, h.from_s, h.to_s) for h in case.others if h.job == str(gone.id)} == {
        (str(gone.id), 6010.0, 6300.0)
    }
    assert str(waits.id) not in {h.job for h in case.others}


def test_a_migration_of_the_job_stalls_its_units(world: Missed) -> None:
    source = Allocation.objects.get(job=world.job)
    target = factories.allocation(
        world.job, world.empty, cores=2, moved_from=source.id, moved_s=6700.0, acquired_s=6600.0
    )
    Migration.objects.create(
        job=world.job,
        launch=world.job.launches.get(),
        source_allocation_id=source.id,
        target_allocation_id=target.id,
        from_server_id=world.here.id,
        to_server_id=world.empty.id,
        units=2,
        predicted_s=60.0,
        state="done",
        requested_s=6600.0,
        started_s=6610.0,
        ended_s=6700.0,
        reason_code="plan",
    )
    case = diagnosis(world.job, Job.objects.all()).case
    assert case is not None
    assert [(h.server, h.from_s, h.to_s) for h in case.own] == [
        (world.here.id, BEGIN_S - 10.0, 6700.0),
        (world.empty.id, 6700.0, float("inf")),
    ]
    assert [(s.begin_s, s.end_s, s.units) for s in case.stalls] == [(6610.0, 6700.0, 2)]


def test_jobs_that_the_reader_may_not_see_are_not_named(world: Missed) -> None:
    found = diagnosis(world.job, Job.objects.filter(id=world.job.id))
    assert found.finding is not None
    assert found.finding.suspects[0].title == "A job of another project on srv-0212"


def test_best_effort_has_no_diagnosis(world: Missed) -> None:
    job = factories.job(state="running", target={"kind": "best_effort"})
    factories.sample(job, 7000.0, attainment=None)
    assert diagnosis(job, Job.objects.all()).dip is None
