"""The feedback loop in the database: observations, learning and drift events."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from apps.classification.core.drift import REASON
from apps.classification.core.feedback import (
    NEIGHBOURS,
    POINT_COST,
    POINT_DEVIATION,
    Observation,
    ServerUnits,
)
from apps.classification.core.matrix import MatrixName
from apps.classification.models import Drift, PendingFold, PredictionError, Profile
from apps.classification.selectors import known_cells_of, profile_named
from apps.classification.selectors.known_cells import profiled_cells_of
from apps.classification.services import set_overrides
from apps.classification.services.feedback import JobObservation, record_observations
from apps.classification.services.overrides import NewOverride
from apps.common.core.interference import SOURCES
from apps.common.infrastructure.advisory_locks import AdvisoryLock, held_if_free
from apps.execution.models import Migration
from apps.execution.services import feedback
from apps.execution.services.feedback import update_from_feedback
from apps.execution.services.profiles import infer_profiles
from apps.inventory.models import Server
from apps.operations.models import Event
from apps.profiling.models import Measurement, ProfilingRun
from apps.scheduling.core.sizing.allowances import estimated
from apps.scheduling.models import Allocation, Decision, SpeedRatio
from apps.scheduling.selectors.allowances import current_allowances
from apps.workloads.models import Job
from apps.workloads.services import delete_job
from tests import factories
from tests.execution.feedback_world import (
    BYTES,
    PLATFORMS,
    UNMEASURED,
    World,
    later,
    make_world,
    measured,
    now,
)
from tests.scheduling.world import at_once

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    return make_world()


def test_a_job_is_compared_with_its_profile_once(world: World) -> None:
    job = world.ran(0.5)
    assert (update_from_feedback(), update_from_feedback()) == (1, 0)
    error = PredictionError.objects.get()
    assert (error.job_id, error.number, error.cluster_s) == (job.id, 1, now() - 1.0)
    assert error.profile == Profile.objects.get(application=world.about, number=1)
    assert error.measured / error.predicted == pytest.approx(0.5, rel=1e-6)
    assert error.predicted == pytest.approx(world.believed(1))
    assert 0.05 < error.deviation < 0.5


def disturbed(job: Job, points: float) -> None:
    """Record that the pressure of one source exceeds the tolerated score by this much."""
    chosen = {"verdict": "chosen", "headroom": [3.0, -points, 9.0]}
    passed = {"verdict": "outranked", "headroom": [-90.0, 1.0, 1.0]}
    Decision.objects.filter(job=job).update(candidates=[chosen, passed])


def test_a_job_placed_beyond_its_tolerance_is_expected_to_be_slower(world: World) -> None:
    job = world.ran(0.5)
    disturbed(job, 20.0)
    update_from_feedback()
    error = PredictionError.objects.get()
    assert error.beyond == 20.0
    slowed = math.exp(-20.0 * POINT_COST)
    assert error.predicted == pytest.approx(slowed * world.believed(1))
    assert error.deviation > 20.0 * POINT_DEVIATION


def test_a_slowdown_by_neighbours_does_not_change_the_profile(world: World) -> None:
    for _ in range(15):
        later(100.0)
        disturbed(world.ran(0.5, on=0), 30.0)
        update_from_feedback()
        infer_profiles()
    drift = Drift.objects.get(application=world.about)
    assert drift.flagged_s is None
    assert not ProfilingRun.objects.filter(reason=REASON).exists()


def test_after_a_migration_the_neighbours_are_unknown(world: World) -> None:
    job = world.ran(0.5)
    disturbed(job, 20.0)
    first = Allocation.objects.get(job=job)
    begun_s = first.acquired_s + 300.0
    factories.allocation(
        job, world.servers[0], by=first.decision, acquired_s=begun_s, moved_from=first.id,
        moved_s=begun_s, released_seq=10**9, released_s=first.released_s,
    )  # fmt: skip
    update_from_feedback()
    assert PredictionError.objects.get().beyond == 0.0


def test_a_repeated_observation_changes_nothing(world: World) -> None:
    job = world.ran()
    observation = Observation("a", (ServerUnits(PLATFORMS[1], 1),), "bytes", 1e6, 0.01)
    job_observation = JobObservation(world.about.id, job.id, 1, now(), observation)
    assert record_observations([job_observation]) == {world.about.id}
    assert record_observations([replace(job_observation, at_s=now() + 60.0)]) == set()
    assert PredictionError.objects.get().cluster_s == now()


def test_an_observation_of_a_job_deleted_meanwhile_is_ignored(world: World) -> None:
    jobs = [world.ran(), world.ran()]
    observation = Observation("a", (ServerUnits(PLATFORMS[1], 1),), "bytes", 1e6, 0.01)
    seen = [JobObservation(world.about.id, job.id, 1, now(), observation) for job in jobs]
    delete_job(jobs[0].id)
    assert record_observations(seen[:1]) == set()
    assert record_observations(seen) == {world.about.id}
    assert PredictionError.objects.get().job_id == jobs[1].id


def test_jobs_of_applications_without_a_profile_are_ignored(world: World) -> None:
    world.ran()
    Profile.objects.all().delete()
    assert update_from_feedback() == 0


def test_a_job_whose_server_was_removed_is_ignored(world: World) -> None:
    job = world.ran()
    job.allocations.update(server_id=10**9)
    assert update_from_feedback() == 0


def test_a_job_is_compared_on_the_servers_of_its_last_run(world: World) -> None:
    job = world.ran(1.0, on=1)
    before: dict[str, Any] = {"acquired_s": 8000.0, "released_s": 8500.0, "released_seq": 10**9}
    factories.allocation(job, world.servers[0], **before)
    update_from_feedback()
    assert PredictionError.objects.get().predicted == pytest.approx(world.believed(1))


def moved(
    job: Job, to: Server, *, at_s: float, state: str = "done", told_s: float = 6.0
) -> Migration:
    """A migration of one minute, whose end is reported to the control plane later."""
    source = job.allocations.filter(released_seq=None).latest("id")
    is_done = state == "done"
    begun_s = at_s - 60.0
    target = factories.allocation(
        job, to, by=source.decision, acquired_s=begun_s - 5.0, moved_from=source.id,
        moved_s=at_s if is_done else None,
    )  # fmt: skip
    left_server, there = (source, target) if is_done else (target, source)
    if state != "running":
        left_server.released_seq, left_server.released_s = 10**9, at_s + told_s
        left_server.save()
    ended_s = None if state == "running" else at_s
    return Migration.objects.create(
        job=job, launch=factories.launch(job, attempt=factories.number()),
        source_allocation_id=source.id, target_allocation_id=target.id,
        from_server_id=source.server_id, to_server_id=to.id, units=there.cores, predicted_s=60.0,
        state=state, requested_s=begun_s - 5.0, started_s=begun_s, ended_s=ended_s,
    )  # fmt: skip


def reports(job: Job, *, until_s: float, per_s: float) -> None:
    """A report every ten seconds up to ``until_s``, with steady progress."""
    started_s = job.started_s or 0.0
    for at_s in np.arange(started_s + 10.0, until_s + 1.0, 10.0).tolist():
        progress = per_s * (at_s - started_s) / BYTES
        factories.sample(job, at_s, progress=progress)


def test_a_migrated_job_is_compared_on_its_new_server(world: World) -> None:
    job = world.running(since_s=now() - 500.0)
    moved(job, world.servers[0], at_s=now() - 200.0)
    reports(job, until_s=now(), per_s=1e5)
    assert update_from_feedback() == 1
    error = PredictionError.objects.get()
    assert error.predicted == pytest.approx(world.believed(0))
    assert error.measured == pytest.approx(1e5)


def test_progress_during_a_migration_is_not_a_rate(world: World) -> None:
    job = world.running(since_s=now() - 500.0)
    moved(job, world.servers[0], at_s=now() - 200.0)
    for at_s, progress in ((-490.0, 0.01), (-210.0, 0.5), (-190.0, 0.5), (-10.0, 0.59)):
        factories.sample(job, now() + at_s, progress=progress)
    update_from_feedback()
    assert PredictionError.objects.get().measured == pytest.approx(0.09 * BYTES / 180.0)


@pytest.mark.parametrize("ago_s", [0.0, 30.0, 100.0])
def test_a_migrating_or_just_migrated_job_is_not_observed(world: World, ago_s: float) -> None:
    job = world.running(since_s=now() - 5000.0)
    moved(job, world.servers[0], at_s=now() - ago_s)
    reports(job, until_s=now(), per_s=1e5)
    assert update_from_feedback() == 0


def test_a_job_is_not_observed_before_its_migration_completes(world: World) -> None:
    job = world.running(since_s=now() - 5000.0)
    moved(job, world.servers[0], at_s=now() + 50.0, state="running")
    reports(job, until_s=now(), per_s=1e5)
    assert update_from_feedback() == 0


def test_a_migration_that_starts_while_reports_are_read_is_noticed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = world.running(since_s=now() - 500.0)
    reports(job, until_s=now(), per_s=1e5)
    read = feedback._samples

    def begin(due: Any) -> Any:
        moved(job, world.servers[0], at_s=now() + 50.0, state="running")
        return read(due)

    monkeypatch.setattr(feedback, "_samples", begin)
    assert update_from_feedback() == 0


def test_reserved_units_are_not_part_of_a_placement(world: World) -> None:
    job = world.running(since_s=now() - 500.0)
    moved(job, world.servers[0], at_s=now() - 300.0, state="failed")
    reports(job, until_s=now(), per_s=1e5)
    update_from_feedback()
    assert PredictionError.objects.get().predicted == pytest.approx(world.believed(1))


def test_past_observations_use_the_placement_of_their_time(world: World) -> None:
    job = world.running(since_s=now() - 500.0)
    reports(job, until_s=now(), per_s=1e5)
    update_from_feedback()
    at_s = PredictionError.objects.get().cluster_s
    moved(job, world.servers[0], at_s=at_s + 60.0)
    later(300.0)
    before, on_the_way, since = feedback._placements(
        [(job.id, at_s), (job.id, at_s + 59.0), (job.id, at_s + 61.0)]
    )
    assert before == on_the_way
    assert before is not None
    assert since is not None
    assert [part.platform for part in before.parts] == [PLATFORMS[1]]
    assert [part.platform for part in since.parts] == [PLATFORMS[0]]
    assert before.run != since.run


def test_allocations_on_one_server_form_one_part(world: World) -> None:
    job = world.running(since_s=now() - 500.0)
    factories.allocation(
        job, world.servers[1], cores=2, by=job.allocations.get().decision, acquired_s=9000.0
    )
    (placement,) = feedback._placements([(job.id, now())])
    assert placement is not None
    assert placement.parts == (ServerUnits(PLATFORMS[1], 3),)


def test_observations_become_measured_cells_and_a_new_profile(world: World) -> None:
    for _ in range(6):
        later(100.0)
        world.ran(0.8, on=2)
        update_from_feedback()
        infer_profiles()
    rows = Measurement.objects.filter(source="telemetry", column=UNMEASURED)
    assert rows.exists()
    profile = profile_named("sort")
    assert profile is not None
    rate = NEIGHBOURS * profile.rate(1, platform=UNMEASURED, in_bytes=True).value
    assert abs(math.log(rate / (0.8 * world.believed(2)))) < 0.1
    cell = next(c for c in known_cells_of(world.about.id) if c.column == UNMEASURED)
    assert cell.value == rows.latest("id").value


def test_cells_from_feedback_do_not_count_as_profiled(world: World) -> None:
    factories.measurement(
        world.about, matrix="heterogeneity", column=UNMEASURED, source="telemetry"
    )
    assert UNMEASURED in {cell.column for cell in known_cells_of(world.about.id)}
    assert UNMEASURED not in {cell.column for cell in profiled_cells_of(world.about.id)}


def test_accurate_predictions_cause_few_new_profiles(world: World) -> None:
    for _ in range(12):
        later(100.0)
        world.ran(1.0)
        update_from_feedback()
        infer_profiles()
    assert PredictionError.objects.count() == 12
    assert Profile.objects.filter(application=world.about).count() <= 6


@pytest.mark.parametrize(
    ("matrix", "column", "other"),
    [
        (MatrixName.HETEROGENEITY, UNMEASURED, "bytes"),
        (MatrixName.BASE_RATE, "bytes", UNMEASURED),
    ],
)
def test_overrides_are_never_changed_by_feedback(
    world: World, matrix: MatrixName, column: str, other: str
) -> None:
    profile = profile_named("sort")
    assert profile is not None
    value = profile.bytes_rate if column == "bytes" else float(profile.platform_speed.value[2])
    cell = NewOverride(matrix, column, value)
    set_overrides(world.about.id, [cell], reason="known", by=factories.user().id)
    infer_profiles()
    for _ in range(4):
        later(100.0)
        world.ran(0.85, on=2)
        update_from_feedback()
    rows = Measurement.objects.filter(source="telemetry")
    assert not rows.filter(column=column).exists()
    assert rows.filter(column=other).exists()


def drifted(world: World) -> Drift:
    """Run ten jobs at the predicted speed and then five at half of it."""
    for i in range(15):
        later(100.0)
        world.ran(1.0 if i < 10 else 0.5, on=0)
        update_from_feedback()
        infer_profiles()
    return Drift.objects.get(application=world.about)


def test_a_drifted_application_is_flagged_and_profiled_again(world: World) -> None:
    drift = drifted(world)
    assert drift.flagged_s is not None
    assert drift.slower > drift.faster
    assert drift.mean_error < -0.2
    event = Event.objects.get(kind="application.drifted")
    assert event.subject == str(world.about.id)
    run = ProfilingRun.objects.get(reason=REASON)
    assert (run.state, run.requested_s >= drift.flagged_s) == ("queued", True)
    assert Profile.objects.filter(application=world.about, is_current=True).exists()


def test_feedback_is_paused_while_an_application_is_profiled_again(world: World) -> None:
    drifted(world)
    before = Measurement.objects.count()
    for _ in range(8):
        later(100.0)
        world.ran(0.5, on=0)
        update_from_feedback()
    assert (Measurement.objects.count(), PendingFold.objects.count()) == (before, 0)
    assert ProfilingRun.objects.filter(reason=REASON).count() == 1


def test_old_observations_are_ignored_after_profiling_again(world: World) -> None:
    first = _counts(world)
    drifted(world)
    assert _counts(world) != first
    later(60.0)
    measured(world.about)
    assert _counts(world) == first
    later(2000.0)
    world.ran(1.0, on=0)
    update_from_feedback()
    since_s = ProfilingRun.objects.get(reason=REASON).requested_s
    counted = PredictionError.objects.filter(cluster_s__gte=since_s).count()
    drift = Drift.objects.get(application=world.about)
    assert (drift.flagged_s, drift.observations) == (None, counted)
    assert counted < PredictionError.objects.count() / 2


def _counts(world: World) -> dict[str, int]:
    """Number of samples behind each known cell of the platforms and the rate."""
    return {
        cell.column: cell.samples
        for cell in known_cells_of(world.about.id)
        if cell.matrix in {MatrixName.BASE_RATE, MatrixName.HETEROGENEITY}
    }


def test_a_failed_profiling_run_is_requested_again_later(world: World) -> None:
    drifted(world)
    ProfilingRun.objects.filter(reason=REASON).update(state="failed")
    world.ran(0.5, on=0)
    update_from_feedback()
    assert ProfilingRun.objects.filter(reason=REASON).count() == 1
    later(4000.0)
    world.ran(0.5, on=0)
    update_from_feedback()
    assert ProfilingRun.objects.filter(reason=REASON).count() == 2


def test_an_application_that_drifts_again_waits_longer_each_time(world: World) -> None:
    drifted(world)
    later(60.0)
    measured(world.about)
    later(100.0)
    assert drifted(world).flagged_s is not None
    assert ProfilingRun.objects.filter(reason=REASON).count() == 1
    recorded = Measurement.objects.filter(source="telemetry").count()
    assert recorded > 0
    later(4000.0)
    world.ran(0.5, on=0)
    update_from_feedback()
    assert ProfilingRun.objects.filter(reason=REASON).count() == 2


def test_a_drifted_application_gets_a_thorough_run(world: World) -> None:
    drifted(world)
    run = ProfilingRun.objects.get(reason=REASON)
    assert sorted(run.plan["runs"][0]["sources"]) == sorted(SOURCES)


@pytest.mark.django_db(transaction=True)
def test_two_at_once_observe_each_job_once(world: World) -> None:
    for _ in range(5):
        world.ran()
    assert at_once(update_from_feedback, update_from_feedback, update_from_feedback) == []
    numbers = PredictionError.objects.values_list("number", flat=True)
    assert list(numbers) == [1] * 5


@pytest.mark.django_db(transaction=True)
def test_a_second_process_returns_at_once(world: World) -> None:
    world.ran()
    with held_if_free(AdvisoryLock.FEEDBACK) as mine:
        assert mine
        counts: list[int] = []
        assert at_once(lambda: counts.append(update_from_feedback())) == []
    assert counts == [0]
    assert update_from_feedback() == 1


def test_feedback_takes_a_few_queries(world: World, django_assert_max_num_queries: Any) -> None:
    for _ in range(10):
        world.ran()
    with django_assert_max_num_queries(40):
        update_from_feedback()


def sized(job: Job, slow_rate: float) -> None:
    """Record the pessimistic rate that the job was sized with, on its platform."""
    own = Server.objects.get(id__in=job.allocations.values("server_id")).platform.name
    rates = {own: slow_rate, "slower platform": slow_rate / 10.0}
    Decision.objects.filter(job=job).update(predicted={"slow_rates": rates})


def test_jobs_slower_than_their_pessimistic_prediction_lower_the_allowance(world: World) -> None:
    job = world.ran()
    rate = job.input_bytes / 1000.0
    sized(job, rate / 0.7)
    update_from_feedback()
    stored = SpeedRatio.objects.get(job_id=job.id)
    assert stored.ratio == pytest.approx(0.7, rel=1e-6)
    assert current_allowances().completion_time == pytest.approx(estimated([0.7]).value)


def test_jobs_that_run_otherwise_than_sized_do_not_change_the_allowance(world: World) -> None:
    restarted, grown = world.ran(), world.ran()
    Job.objects.filter(id=restarted.id).update(attempts=2)
    Job.objects.filter(id=grown.id).update(grown_s=now() - 900.0)
    for job in (restarted, grown):
        sized(job, 1.0)
    fixed = world.ran()  # its units were chosen by its submitter
    update_from_feedback()
    assert PredictionError.objects.filter(job=fixed).exists()
    assert not SpeedRatio.objects.exists()
