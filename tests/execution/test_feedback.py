"""The feedback loop in the database: observed once, learnt, told when an application drifts."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from django.db import transaction
from django.utils import timezone

from apps.classification.core.drift import REASON
from apps.classification.core.feedback import (
    NEIGHBOURS,
    POINT_COST,
    POINT_DEVIATION,
    Observation,
    Part,
)
from apps.classification.core.matrix import MatrixName
from apps.classification.models import Drift, PendingFold, PredictionError, Profile
from apps.classification.selectors import known_cells_of, profile_named
from apps.classification.selectors.known import profiled_cells_of
from apps.classification.services import set_overrides
from apps.classification.services.feedback import Achieved, record_achieved
from apps.classification.services.overrides import NewOverride
from apps.common.core.interference import SOURCES
from apps.execution import feedback
from apps.execution.core.telemetry import EVERY_S
from apps.execution.feedback import give_feedback
from apps.execution.models import Migration
from apps.execution.services import draw_profiles, take_measurements
from apps.inventory.models import Cluster, Server
from apps.operations.models import Event
from apps.profiling.models import Measurement, ProfilingRun
from apps.profiling.services import request_runs
from apps.scheduling.models import Allocation, Decision
from apps.workloads.models import Application, Job
from tests import factories
from tests.scheduling.world import at_once

pytestmark = pytest.mark.django_db

PLATFORMS = ("cr1.8xlarge", "m1.large", "c1.medium")
UNMEASURED = PLATFORMS[2]
PLAN = {
    "runs": [
        {"platform": name, "servers": 1, "units": units, "sources": []}
        for name, units in ((PLATFORMS[0], 1), (PLATFORMS[0], 4), (PLATFORMS[1], 1))
    ]
}
BYTES = 10**12


@dataclass(frozen=True)
class World:
    """One profiled application, and a server of each platform."""

    about: Application
    servers: tuple[Server, ...]

    def ran(self, relative: float = 1.0, *, on: int = 1, **values: Any) -> Job:
        """A job that just ended after 1,000 s; at ``relative`` times the rate of its profile."""
        finished_s = now() - 1.0
        rate = relative * self.believed(on)
        ended = {
            "state": "succeeded",
            "input_bytes": int(rate * 1000.0),
            "finished_s": finished_s,
            "finished_at": timezone.now(),
        }
        begun_s = finished_s - 1000.0
        job = self._job(started_s=begun_s, **{**ended, **values})
        factories.allocation(
            job,
            self.servers[on],
            acquired_s=begun_s - 1.0,
            released_s=finished_s,
            released_seq=10**9,
        )
        return job

    def running(self, *, since_s: float) -> Job:
        """A job on one unit of a server."""
        job = self._job(state="running", input_bytes=BYTES, started_s=since_s)
        factories.allocation(job, self.servers[1], acquired_s=since_s - 1.0)
        return job

    def _job(self, **values: Any) -> Job:
        return factories.job(application=self.about, units=1, attempts=1, **values)

    def believed(self, on: int) -> float:
        """What profiling alone predicts of one unit of a server, undisturbed."""
        first = Profile.objects.filter(application=self.about).earliest("number")
        cells = first.cells
        return float(
            NEIGHBOURS * cells["base_rate"]["value"][1] * cells["heterogeneity"]["value"][on]
        )


def now() -> float:
    return Cluster.objects.get().seen_cluster_s


def wall() -> Any:
    return timezone.now()


def later(seconds: float) -> None:
    factories.cluster(seen_cluster_s=now() + seconds)


@pytest.fixture
def world() -> World:
    """An application of which one platform is not measured."""
    factories.cluster(seen_cluster_s=10_000.0)
    servers = [
        factories.server(of=factories.platform(name, cores=8, rank=rank))
        for rank, name in enumerate(PLATFORMS)
    ]
    factories.library(PLATFORMS)
    about = factories.application("sort")
    profiled(about)
    return World(about, tuple(servers))


def profiled(about: Application) -> None:
    with transaction.atomic():
        request_runs([about.id])
    measured(about)


def measured(about: Application) -> None:
    """Let the open run be measured, and the profile drawn."""
    run = ProfilingRun.objects.get(application=about, state="queued")
    run.plan, run.seed = PLAN, 7  # whatever was drawn: the same cells each time
    found = [cell for cell in factories.cells(about, run=run) if cell.column != UNMEASURED]
    with transaction.atomic():
        take_measurements(run.id, now(), found)
    draw_profiles()


def test_a_job_is_held_against_its_profile_once(world: World) -> None:
    job = world.ran(0.5)
    assert (give_feedback(), give_feedback()) == (1, 0)
    found = PredictionError.objects.get()
    assert (found.job_id, found.number, found.cluster_s) == (job.id, 1, now() - 1.0)
    assert found.profile == Profile.objects.get(application=world.about, number=1)
    assert found.measured / found.predicted == pytest.approx(0.5, rel=1e-6)
    assert found.predicted == pytest.approx(world.believed(1))
    assert 0.05 < found.deviation < 0.5


def disturbed(job: Job, points: float) -> None:
    """It was put where one source of its only unit is so far beyond what it tolerates."""
    chosen = {"verdict": "chosen", "headroom": [3.0, -points, 9.0]}
    passed = {"verdict": "outranked", "headroom": [-90.0, 1.0, 1.0]}
    Decision.objects.filter(job=job).update(candidates=[chosen, passed])


def test_who_was_put_beside_too_much_is_expected_to_be_slower(world: World) -> None:
    job = world.ran(0.5)
    disturbed(job, 20.0)
    give_feedback()
    found = PredictionError.objects.get()
    assert found.beyond == 20.0
    slowed = math.exp(-20.0 * POINT_COST)
    assert found.predicted == pytest.approx(slowed * world.believed(1))
    assert found.deviation > 20.0 * POINT_DEVIATION


def test_where_neighbours_are_to_blame_the_application_is_not(world: World) -> None:
    for _ in range(15):
        later(100.0)
        disturbed(world.ran(0.5, on=0), 30.0)
        give_feedback()
        draw_profiles()
    found = Drift.objects.get(application=world.about)
    assert found.flagged_s is None
    assert not ProfilingRun.objects.filter(reason=REASON).exists()


def test_after_a_move_nothing_is_known_of_the_neighbours(world: World) -> None:
    job = world.ran(0.5)
    disturbed(job, 20.0)
    first = Allocation.objects.get(job=job)
    begun_s = first.acquired_s + 300.0
    factories.allocation(
        job, world.servers[0], by=first.decision, acquired_s=begun_s, moved_from=first.id,
        moved_s=begun_s, released_seq=10**9, released_s=first.released_s,
    )  # fmt: skip
    give_feedback()
    assert PredictionError.objects.get().beyond == 0.0


def test_the_same_observation_again_is_nothing_new(world: World) -> None:
    job = world.ran()
    seen = Observation("a", (Part(PLATFORMS[1], 1),), "bytes", 1e6, 0.01)
    one = Achieved(world.about.id, job.id, 1, now(), seen)
    assert record_achieved([one]) == {world.about.id}
    assert record_achieved([replace(one, at_s=now() + 60.0)]) == set()
    assert PredictionError.objects.get().cluster_s == now()


def test_long_runners_are_observed_again_and_at_their_end(world: World) -> None:
    job = world.running(since_s=now() - 700.0)
    factories.sample(job, now() - 10.0, progress=0.1)
    give_feedback()
    assert give_feedback() == 0
    later(EVERY_S)
    factories.sample(job, now(), progress=0.4)
    give_feedback()
    Job.objects.filter(id=job.id).update(
        state="succeeded", finished_s=now() + 500.0, finished_at=wall()
    )
    later(501.0)
    give_feedback()
    found = PredictionError.objects.order_by("number")
    assert list(found.values_list("number", flat=True)) == [1, 2, 3]
    spans = np.diff([9300.0, *found.values_list("cluster_s", flat=True)])
    shares = np.array(found.values_list("measured", flat=True)) * spans / BYTES
    assert shares == pytest.approx([0.1, 0.3, 0.6])


def test_the_running_are_not_observed_before_their_time(world: World) -> None:
    job = world.running(since_s=now() - 60.0)
    factories.sample(job, now(), progress=0.1)
    assert give_feedback() == 0


@pytest.mark.parametrize(
    "values",
    [
        {"state": "failed"},
        {"input_bytes": 0},
        {"target": {"kind": "ips", "ips": 1e9}},
        {"target": {"kind": "throughput_latency", "qps": 9.0, "latency_seconds": 1.0}},
    ],
)
def test_jobs_whose_reports_tell_no_rate_are_left_alone(
    world: World, values: dict[str, Any]
) -> None:
    job = world.ran()
    kind = values.get("target", job.target)["kind"]
    Job.objects.filter(id=job.id).update(target_kind=kind, **values)
    assert give_feedback() == 0


def test_jobs_of_applications_without_a_profile_are_left_alone(world: World) -> None:
    world.ran()
    Profile.objects.all().delete()
    assert give_feedback() == 0


def test_a_job_whose_server_is_gone_is_left_alone(world: World) -> None:
    job = world.ran()
    job.allocations.update(server_id=10**9)
    assert give_feedback() == 0


def test_a_job_is_held_against_the_servers_of_its_last_run(world: World) -> None:
    job = world.ran(1.0, on=1)
    before: dict[str, Any] = {"acquired_s": 8000.0, "released_s": 8500.0, "released_seq": 10**9}
    factories.allocation(job, world.servers[0], **before)
    give_feedback()
    assert PredictionError.objects.get().predicted == pytest.approx(world.believed(1))


def moved(
    job: Job, to: Server, *, at_s: float, state: str = "done", told_s: float = 6.0
) -> Migration:
    """A migration that took a minute; the control plane heard of its end a little later."""
    source = job.allocations.filter(released_seq=None).latest("id")
    is_done = state == "done"
    begun_s = at_s - 60.0
    target = factories.allocation(
        job, to, by=source.decision, acquired_s=begun_s - 5.0, moved_from=source.id,
        moved_s=at_s if is_done else None,
    )  # fmt: skip
    gone, there = (source, target) if is_done else (target, source)
    if state != "running":
        gone.released_seq, gone.released_s = 10**9, at_s + told_s
        gone.save()
    ended_s = None if state == "running" else at_s
    return Migration.objects.create(
        job=job, launch=factories.launch(job, attempt=factories.number()),
        source_allocation_id=source.id, target_allocation_id=target.id,
        from_server_id=source.server_id, to_server_id=to.id, units=there.cores, predicted_s=60.0,
        state=state, requested_s=begun_s - 5.0, started_s=begun_s, ended_s=ended_s,
    )  # fmt: skip


def reports(job: Job, *, until_s: float, per_s: float) -> None:
    """A report each ten seconds up to a moment, the progress going on evenly."""
    started_s = job.started_s or 0.0
    for at_s in np.arange(started_s + 10.0, until_s + 1.0, 10.0).tolist():
        progress = per_s * (at_s - started_s) / BYTES
        factories.sample(job, at_s, progress=progress)


def test_a_job_that_moved_is_held_against_where_it_is_since(world: World) -> None:
    job = world.running(since_s=now() - 500.0)
    moved(job, world.servers[0], at_s=now() - 200.0)
    reports(job, until_s=now(), per_s=1e5)
    assert give_feedback() == 1
    found = PredictionError.objects.get()
    assert found.predicted == pytest.approx(world.believed(0))
    assert found.measured == pytest.approx(1e5)


def test_what_it_did_while_it_moved_is_nobodys_rate(world: World) -> None:
    job = world.running(since_s=now() - 500.0)
    moved(job, world.servers[0], at_s=now() - 200.0)
    for at_s, progress in ((-490.0, 0.01), (-210.0, 0.5), (-190.0, 0.5), (-10.0, 0.59)):
        factories.sample(job, now() + at_s, progress=progress)
    give_feedback()
    assert PredictionError.objects.get().measured == pytest.approx(0.09 * BYTES / 180.0)


@pytest.mark.parametrize("ago_s", [0.0, 30.0, 100.0])
def test_a_job_that_moves_or_has_just_moved_is_not_observed(world: World, ago_s: float) -> None:
    job = world.running(since_s=now() - 5000.0)
    moved(job, world.servers[0], at_s=now() - ago_s)
    reports(job, until_s=now(), per_s=1e5)
    assert give_feedback() == 0


def test_a_job_under_way_is_not_observed_before_it_arrived(world: World) -> None:
    job = world.running(since_s=now() - 5000.0)
    moved(job, world.servers[0], at_s=now() + 50.0, state="running")
    reports(job, until_s=now(), per_s=1e5)
    assert give_feedback() == 0


def test_a_move_that_begins_while_reports_are_read_is_seen(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = world.running(since_s=now() - 500.0)
    reports(job, until_s=now(), per_s=1e5)
    read = feedback._samples

    def begin(due: Any) -> Any:
        moved(job, world.servers[0], at_s=now() + 50.0, state="running")
        return read(due)

    monkeypatch.setattr(feedback, "_samples", begin)
    assert give_feedback() == 0


def test_what_was_only_reserved_is_not_what_a_job_held(world: World) -> None:
    job = world.running(since_s=now() - 500.0)
    moved(job, world.servers[0], at_s=now() - 300.0, state="failed")
    reports(job, until_s=now(), per_s=1e5)
    give_feedback()
    assert PredictionError.objects.get().predicted == pytest.approx(world.believed(1))


def test_past_observations_keep_what_was_held_then(world: World) -> None:
    job = world.running(since_s=now() - 500.0)
    reports(job, until_s=now(), per_s=1e5)
    give_feedback()
    at_s = PredictionError.objects.get().cluster_s
    moved(job, world.servers[0], at_s=at_s + 60.0)
    later(300.0)
    before, on_the_way, since = feedback._held(
        [(job.id, at_s), (job.id, at_s + 59.0), (job.id, at_s + 61.0)]
    )
    assert before == on_the_way
    assert before is not None
    assert since is not None
    assert [part.platform for part in before.parts] == [PLATFORMS[1]]
    assert [part.platform for part in since.parts] == [PLATFORMS[0]]
    assert before.run != since.run


def test_parts_that_met_on_one_server_are_one_part(world: World) -> None:
    job = world.running(since_s=now() - 500.0)
    factories.allocation(
        job, world.servers[1], cores=2, by=job.allocations.get().decision, acquired_s=9000.0
    )
    (found,) = feedback._held([(job.id, now())])
    assert found is not None
    assert found.parts == (Part(PLATFORMS[1], 3),)


def test_what_jobs_did_becomes_measured_cells_and_a_new_profile(world: World) -> None:
    for _ in range(6):
        later(100.0)
        world.ran(0.8, on=2)
        give_feedback()
        draw_profiles()
    told = Measurement.objects.filter(source="telemetry", column=UNMEASURED)
    assert told.exists()
    profile = profile_named("sort")
    assert profile is not None
    rate = NEIGHBOURS * profile.rate(1, platform=UNMEASURED, in_bytes=True).value
    assert abs(math.log(rate / (0.8 * world.believed(2)))) < 0.1
    cell = next(c for c in known_cells_of(world.about.id) if c.column == UNMEASURED)
    assert cell.value == told.latest("id").value


def test_what_jobs_taught_is_not_taken_for_profiled(world: World) -> None:
    factories.measurement(
        world.about, matrix="heterogeneity", column=UNMEASURED, source="telemetry"
    )
    assert UNMEASURED in {cell.column for cell in known_cells_of(world.about.id)}
    assert UNMEASURED not in {cell.column for cell in profiled_cells_of(world.about.id)}


def test_jobs_that_run_as_predicted_make_few_new_profiles(world: World) -> None:
    for _ in range(12):
        later(100.0)
        world.ran(1.0)
        give_feedback()
        draw_profiles()
    assert PredictionError.objects.count() == 12
    assert Profile.objects.filter(application=world.about).count() <= 6


@pytest.mark.parametrize(
    ("matrix", "column", "other"),
    [
        (MatrixName.HETEROGENEITY, UNMEASURED, "bytes"),
        (MatrixName.BASE_RATE, "bytes", UNMEASURED),
    ],
)
def test_overrides_are_never_moved(
    world: World, matrix: MatrixName, column: str, other: str
) -> None:
    profile = profile_named("sort")
    assert profile is not None
    value = profile.bytes_rate if column == "bytes" else float(profile.platform_speed[2])
    cell = NewOverride(matrix, column, value)
    set_overrides(world.about.id, [cell], reason="known", by=factories.user().id)
    draw_profiles()
    for _ in range(4):
        later(100.0)
        world.ran(0.85, on=2)
        give_feedback()
    told = Measurement.objects.filter(source="telemetry")
    assert not told.filter(column=column).exists()
    assert told.filter(column=other).exists()


def drifted(world: World) -> Drift:
    """Let ten jobs run as predicted, and then five at half that."""
    for i in range(15):
        later(100.0)
        world.ran(1.0 if i < 10 else 0.5, on=0)
        give_feedback()
        draw_profiles()
    return Drift.objects.get(application=world.about)


def test_an_application_that_changed_is_told_and_measured_anew(world: World) -> None:
    found = drifted(world)
    assert found.flagged_s is not None
    assert found.slower > found.faster
    assert found.mean_error < -0.2
    told = Event.objects.get(kind="application.drifted")
    assert told.subject == str(world.about.id)
    run = ProfilingRun.objects.get(reason=REASON)
    assert (run.state, run.requested_s >= found.flagged_s) == ("queued", True)
    assert Profile.objects.filter(application=world.about, is_current=True).exists()


def test_while_it_is_measured_anew_nothing_is_learnt(world: World) -> None:
    drifted(world)
    before = Measurement.objects.count()
    for _ in range(8):
        later(100.0)
        world.ran(0.5, on=0)
        give_feedback()
    assert (Measurement.objects.count(), PendingFold.objects.count()) == (before, 0)
    assert ProfilingRun.objects.filter(reason=REASON).count() == 1


def test_once_it_is_measured_anew_the_past_counts_no_more(world: World) -> None:
    first = _counts(world)
    drifted(world)
    assert _counts(world) != first
    later(60.0)
    measured(world.about)
    assert _counts(world) == first
    later(2000.0)
    world.ran(1.0, on=0)
    give_feedback()
    since_s = ProfilingRun.objects.get(reason=REASON).requested_s
    counted = PredictionError.objects.filter(cluster_s__gte=since_s).count()
    found = Drift.objects.get(application=world.about)
    assert (found.flagged_s, found.observations) == (None, counted)
    assert counted < PredictionError.objects.count() / 2


def _counts(world: World) -> dict[str, int]:
    """How many measurements are behind what is known of each platform and rate."""
    return {
        cell.column: cell.samples
        for cell in known_cells_of(world.about.id)
        if cell.matrix in {MatrixName.BASE_RATE, MatrixName.HETEROGENEITY}
    }


def test_a_profiling_run_that_failed_is_asked_again_after_a_while(world: World) -> None:
    drifted(world)
    ProfilingRun.objects.filter(reason=REASON).update(state="failed")
    world.ran(0.5, on=0)
    give_feedback()
    assert ProfilingRun.objects.filter(reason=REASON).count() == 1
    later(4000.0)
    world.ran(0.5, on=0)
    give_feedback()
    assert ProfilingRun.objects.filter(reason=REASON).count() == 2


def test_an_application_that_drifts_again_waits_longer_each_time(world: World) -> None:
    drifted(world)
    later(60.0)
    measured(world.about)
    later(100.0)
    assert drifted(world).flagged_s is not None
    assert ProfilingRun.objects.filter(reason=REASON).count() == 1
    learnt = Measurement.objects.filter(source="telemetry").count()
    assert learnt > 0
    later(4000.0)
    world.ran(0.5, on=0)
    give_feedback()
    assert ProfilingRun.objects.filter(reason=REASON).count() == 2


def test_what_drifted_is_measured_thoroughly(world: World) -> None:
    drifted(world)
    run = ProfilingRun.objects.get(reason=REASON)
    assert sorted(run.plan["runs"][0]["sources"]) == sorted(SOURCES)


@pytest.mark.django_db(transaction=True)
def test_two_at_once_observe_each_job_once(world: World) -> None:
    for _ in range(5):
        world.ran()
    assert at_once(give_feedback, give_feedback, give_feedback) == []
    numbers = PredictionError.objects.values_list("number", flat=True)
    assert list(numbers) == [1] * 5


@pytest.mark.django_db(transaction=True)
def test_whoever_comes_while_another_looks_leaves_at_once(world: World) -> None:
    world.ran()
    with feedback._alone() as mine:
        assert mine
        found: list[int] = []
        assert at_once(lambda: found.append(give_feedback())) == []
    assert found == [0]
    assert give_feedback() == 1


def test_the_look_is_a_few_queries(world: World, django_assert_max_num_queries: Any) -> None:
    for _ in range(10):
        world.ran()
    with django_assert_max_num_queries(40):
        give_feedback()
