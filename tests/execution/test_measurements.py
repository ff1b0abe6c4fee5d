"""What profiling brings: a profile, and jobs that go on; or a reason why there is none."""

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
from apps.execution.services import draw_profiles, sweep, take_measurements
from apps.inventory.selectors import topology
from apps.operations.models import Event
from apps.profiling.models import Measurement, ProfilingRun
from apps.profiling.services import MAX_ATTEMPTS, request_runs
from apps.scheduling.core.ask import Ask, cluster_facts, request_of, size_of
from apps.scheduling.core.sizing import Sized
from apps.scheduling.selectors import ClusterCopy
from apps.workloads.core.spec import Constraints
from apps.workloads.core.targets import CompletionTime
from apps.workloads.models import Application, Job
from tests import factories

pytestmark = pytest.mark.django_db

SMALL = ("cr1.8xlarge", "m1.large")


def small_cluster() -> None:
    """Two platforms with servers, and a clock."""
    factories.cluster(seen_cluster_s=4000.0)
    for rank, name in enumerate(SMALL):
        kind = factories.platform(name, cores=8 >> rank, rank=rank)
        factories.server(of=kind)
        factories.server(of=kind)


def asked(about: Application) -> ProfilingRun:
    """A run wanted of an application."""
    with transaction.atomic():
        request_runs([about.id])
    return ProfilingRun.objects.get(application=about)


def take(run: ProfilingRun) -> None:
    """Hand in what a run measured, and let a worker draw the profile."""
    with transaction.atomic():
        take_measurements(run.id, 4060.0, factories.cells(run.application, run=run))
    draw_profiles()


def waiting(about: Application, **values: Any) -> Job:
    return factories.job(application=about, state="profiling", queued_s=None, **values)


def test_jobs_that_waited_are_queued_with_the_time_of_the_profile() -> None:
    small_cluster()
    factories.library(SMALL)
    about = factories.application()
    run, jobs = asked(about), [waiting(about), waiting(about, held=True)]
    other = waiting(factories.application())
    take(run)
    found = Job.objects.filter(application=about).values_list("state", "profiled_s", "queued_s")
    assert list(found) == [("queued", 4000.0, 4000.0)] * 2
    other.refresh_from_db()
    assert (other.state, other.profiled_s) == ("profiling", None)
    events = Event.objects.exclude(kind="revision.created").order_by("seq")
    told = events.values_list("kind", "subject")
    assert sorted(told[:2]) == sorted(("job.queued", str(job.id)) for job in jobs)
    assert list(told[2:]) == [("application.profiled", str(about.id))]


def test_the_same_report_twice_makes_one_profile() -> None:
    small_cluster()
    factories.library(SMALL)
    run = asked(factories.application())
    take(run)
    before = Measurement.objects.count(), Event.objects.count()
    take(run)
    assert (Measurement.objects.count(), Event.objects.count()) == before
    assert Profile.objects.count() == 1


def test_without_a_library_the_jobs_fail_and_say_so() -> None:
    small_cluster()
    about = factories.application()
    run, job = asked(about), waiting(about)
    take(run)
    job.refresh_from_db()
    run.refresh_from_db()
    assert (job.state, job.reason_code, run.state) == ("failed", "Unclassifiable", "done")
    assert "there is no library" in job.reason_message
    assert Measurement.objects.exists()
    assert not Profile.objects.exists()


def test_with_an_empty_library_too() -> None:
    small_cluster()
    store_library({}, platforms=SMALL)
    about = factories.application()
    run, job = asked(about), waiting(about)
    take(run)
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
    begun = timezone.now().timestamp()
    factories.cluster(seen_cluster_s=0.0, cluster_anchor_s=0.0, wall_anchor_s=begun, speed=60.0)
    plane = DatabaseControlPlane(worker=worker, hooks=_hooks())
    # seeds of runs are drawn: one copy in a hundred would die
    one = Emulator(plane, wall_s=begun, probe_failures=0.0)
    one.tick(begun)
    one.tick(begun + until_s / 60.0)
    draw_profiles()


def test_the_emulator_profiles_what_waits() -> None:
    small_cluster()
    factories.library(SMALL)
    about = factories.application("sort", kind="analytics")
    asked(about)
    job = waiting(about)
    play(until_s=300.0)
    job.refresh_from_db()
    assert job.state == "queued"
    found = profile_named("sort")
    assert found is not None
    assert found.platforms == SMALL


def test_the_emulator_survives_a_cluster_without_a_library() -> None:
    small_cluster()
    about = factories.application("sort", kind="analytics")
    asked(about)
    job = waiting(about)
    play(until_s=300.0)
    job.refresh_from_db()
    assert (job.state, job.reason_code) == ("failed", "Unclassifiable")


def test_an_application_is_scheduled_beside_a_platform_the_library_never_saw() -> None:
    small_cluster()
    factories.library(SMALL)
    strange = factories.platform("new.box", cores=4)
    factories.server(of=strange)
    about = factories.application("sort", kind="analytics")
    # the run that explores another platform may draw the unknown one; here it does
    run = asked(about)
    run.plan["runs"][-1]["platform"] = "new.box"
    run.save()
    take(run)
    profile = profile_named("sort")
    assert profile is not None
    assert profile.platforms == SMALL
    facts = cluster_facts(ClusterCopy().follow().snapshot(), profile.platforms)
    assert facts.units == (16, 8)
    ask = Ask("j", CompletionTime(3600.0), Constraints(), input_bytes=profile.bytes_rate * 600)
    sized = size_of(ask, profile, facts)
    assert isinstance(sized, Sized)
    request = request_of(ask, profile, sized, topology())
    assert request.platforms == frozenset(SMALL)
    speed = request.platform_speed
    assert speed is not None
    assert speed.shape == (3,)
    assert np.isfinite(speed).all()
    assert speed[:2].tolist() == profile.platform_speed.tolist()


def test_an_application_that_cannot_be_folded_holds_up_no_other() -> None:
    small_cluster()
    factories.library(SMALL)
    broken, sound = factories.application(), factories.application()
    runs = [asked(broken), asked(sound)]
    jobs = [waiting(broken), waiting(sound)]
    # no backend of ours reports a speed below zero; another one may
    factories.measurement(broken, matrix="heterogeneity", column="m1.large", value=-1.0)
    for run in runs:
        with transaction.atomic():
            take_measurements(run.id, 4060.0, factories.cells(run.application, run=run)[:2])
    draw_profiles()
    for job in jobs:
        job.refresh_from_db()
    assert [job.state for job in jobs] == ["failed", "queued"]
    assert jobs[0].reason_code == "Unclassifiable"
    assert "positive" in jobs[0].reason_message
