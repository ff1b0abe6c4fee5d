"""After profiling, waiting jobs are queued with a profile, or get the reason of the failure."""

import time
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from django.db import transaction
from django.utils import timezone

from apps.classification.models import Profile
from apps.classification.selectors import profile_named
from apps.classification.services import store_library
from apps.execution.backends.emulated.control_plane import DatabaseControlPlane
from apps.execution.backends.emulated.emulator import Emulator
from apps.execution.management.commands.run_emulator import _hooks
from apps.execution.services.profiles import infer_profiles, record_measurements
from apps.execution.services.recovery import sweep
from apps.inventory.selectors import topology
from apps.operations.models import Event
from apps.profiling.models import Measurement, ProfilingRun
from apps.profiling.services import MAX_ATTEMPTS, request_runs
from apps.scheduling.core.requests import cluster_facts, request_of, size_of
from apps.scheduling.core.sizing.sizes import Sized
from apps.scheduling.selectors import ClusterFollower
from apps.workloads.core.spec import JobSpec
from apps.workloads.core.targets import CompletionTime
from apps.workloads.models import Application, Job
from tests import factories
from tests.execution.migration_world import holding

pytestmark = pytest.mark.django_db

SMALL = ("cr1.8xlarge", "m1.large")


def small_cluster() -> None:
    """Two platforms with servers, and a clock."""
    factories.cluster(seen_cluster_s=4000.0)
    for rank, name in enumerate(SMALL):
        kind = factories.platform(name, cores=8 >> rank, rank=rank)
        factories.server(of=kind)
        factories.server(of=kind)


def requested_run(about: Application) -> ProfilingRun:
    """A requested run of an application."""
    with transaction.atomic():
        request_runs([about.id])
    return ProfilingRun.objects.get(application=about)


def report(run: ProfilingRun) -> None:
    """Report the measurements of a run and infer the profile."""
    with transaction.atomic():
        record_measurements(run.id, 4060.0, factories.cells(run.application, run=run))
    infer_profiles()


def waiting(about: Application, **values: Any) -> Job:
    return factories.job(application=about, state="profiling", queued_s=None, **values)


def test_jobs_that_waited_are_queued_with_the_time_of_the_profile() -> None:
    small_cluster()
    factories.library(SMALL)
    about = factories.application()
    run, jobs = requested_run(about), [waiting(about), waiting(about, held=True)]
    other = waiting(factories.application())
    report(run)
    rows = Job.objects.filter(application=about).values_list("state", "profiled_s", "queued_s")
    assert list(rows) == [("queued", 4000.0, 4000.0)] * 2
    other.refresh_from_db()
    assert (other.state, other.profiled_s) == ("profiling", None)
    events = Event.objects.exclude(kind="revision.created").order_by("seq")
    event_rows = events.values_list("kind", "subject")
    assert sorted(event_rows[:2]) == sorted(("job.queued", str(job.id)) for job in jobs)
    assert list(event_rows[2:]) == [("application.profiled", str(about.id))]


def test_a_repeated_report_gives_one_profile() -> None:
    small_cluster()
    factories.library(SMALL)
    run = requested_run(factories.application())
    report(run)
    before = Measurement.objects.count(), Event.objects.count()
    report(run)
    assert (Measurement.objects.count(), Event.objects.count()) == before
    assert Profile.objects.count() == 1


def test_without_a_library_jobs_fail_with_a_reason() -> None:
    small_cluster()
    about = factories.application()
    run, job = requested_run(about), waiting(about)
    report(run)
    job.refresh_from_db()
    run.refresh_from_db()
    assert (job.state, job.reason_code, run.state) == ("failed", "Unclassifiable", "done")
    assert "there is no library" in job.reason_message
    assert Measurement.objects.exists()
    assert not Profile.objects.exists()


def test_with_an_empty_library_jobs_fail_too() -> None:
    small_cluster()
    store_library({}, platforms=SMALL)
    about = factories.application()
    run, job = requested_run(about), waiting(about)
    report(run)
    job.refresh_from_db()
    assert (job.state, job.reason_code) == ("failed", "Unclassifiable")


def test_a_sweep_gives_up_and_repairs() -> None:
    small_cluster()
    hopeless = factories.profiling_run(
        factories.application(),
        state="running",
        attempts=MAX_ATTEMPTS,
        claimed_until=timezone.now() - timedelta(seconds=1),
    )
    failed, stuck = waiting(hopeless.application), waiting(factories.application())
    sweep()
    failed.refresh_from_db()
    assert (failed.state, failed.reason_code) == ("failed", "ProfilingFailed")
    assert ProfilingRun.objects.get(state="queued").application_id == stuck.application_id


def play(*, until_s: float, worker: str = "emulator-1") -> None:
    """Let an emulator run from cluster second 0 to this one, 60 a wall second, in two ticks."""
    now_s = timezone.now().timestamp()
    factories.cluster(seen_cluster_s=0.0, cluster_anchor_s=0.0, wall_anchor_s=now_s, speed=60.0)
    begun = time.monotonic()
    plane = holding(DatabaseControlPlane(worker=worker, hooks=_hooks()))
    # run seeds are random: one copy in a hundred would fail
    backend = Emulator(plane, wall_s=begun, probe_failures=0.0)
    backend.tick(begun)
    backend.tick(begun + until_s / 60.0)
    infer_profiles()


def test_the_emulator_profiles_waiting_applications() -> None:
    small_cluster()
    factories.library(SMALL)
    about = factories.application("sort", kind="analytics")
    requested_run(about)
    job = waiting(about)
    play(until_s=300.0)
    job.refresh_from_db()
    assert job.state == "queued"
    profile = profile_named("sort")
    assert profile is not None
    assert profile.platforms == SMALL


def test_the_emulator_survives_a_cluster_without_a_library() -> None:
    small_cluster()
    about = factories.application("sort", kind="analytics")
    requested_run(about)
    job = waiting(about)
    play(until_s=300.0)
    job.refresh_from_db()
    assert (job.state, job.reason_code) == ("failed", "Unclassifiable")


def test_an_application_is_scheduled_although_the_library_lacks_a_platform() -> None:
    small_cluster()
    factories.library(SMALL)
    strange = factories.platform("new.box", cores=4)
    factories.server(of=strange)
    about = factories.application("sort", kind="analytics")
    # one run explores a random other platform; here it is the unknown one
    run = requested_run(about)
    run.plan["runs"][-1]["platform"] = "new.box"
    run.save()
    report(run)
    profile = profile_named("sort")
    assert profile is not None
    assert profile.platforms == SMALL
    facts = cluster_facts(ClusterFollower().follow().snapshot(), profile.platforms)
    assert facts.units == (16, 8)
    spec = JobSpec("sort", CompletionTime(3600.0), input_bytes=round(profile.bytes_rate * 600))
    sized = size_of(spec, profile, facts)
    assert isinstance(sized, Sized)
    request = request_of(spec, profile, sized, topology(), job="j")
    assert request.platforms == frozenset(SMALL)
    speed = request.platform_speed
    assert speed is not None
    assert speed.shape == (3,)
    assert np.isfinite(speed).all()
    assert speed[:2].tolist() == profile.platform_speed.value.tolist()


def test_an_application_that_cannot_be_folded_does_not_block_others() -> None:
    small_cluster()
    factories.library(SMALL)
    broken, sound = factories.application(), factories.application()
    runs = [requested_run(broken), requested_run(sound)]
    jobs = [waiting(broken), waiting(sound)]
    # no backend of ours reports a speed below zero; another one may
    factories.measurement(broken, matrix="heterogeneity", column="m1.large", value=-1.0)
    for run in runs:
        with transaction.atomic():
            record_measurements(run.id, 4060.0, factories.cells(run.application, run=run)[:2])
    infer_profiles()
    for job in jobs:
        job.refresh_from_db()
    assert [job.state for job in jobs] == ["failed", "queued"]
    assert jobs[0].reason_code == "Unclassifiable"
    assert "positive" in jobs[0].reason_message
