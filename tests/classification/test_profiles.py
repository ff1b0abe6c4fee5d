"""The library and the profiles inferred from it, in the database."""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from django.db import transaction

from apps.classification import selectors
from apps.classification.core.estimates import Estimates
from apps.classification.core.matrix import MatrixName, columns_of
from apps.classification.core.profile import Profile
from apps.classification.models import MatrixRevision, Revision
from apps.classification.models import Profile as ProfileRow
from apps.classification.selectors import NoLibraryError, cells_of, current_library, from_row
from apps.classification.services import (
    classify,
    request_folds,
    request_profiles,
    requeue_waiting_jobs,
    store_library,
)
from apps.emulation.core.draws import application_truth
from apps.emulation.core.platforms import catalogue
from apps.profiling.models import ProfilingRun
from apps.profiling.services import record_measurements, request_runs
from apps.workloads.models import Application
from tests import factories
from tests.classification.core.profiles import profile as believed

pytestmark = pytest.mark.django_db

SMALL = ("cr1.8xlarge", "m1.large", "m1.small")


def small_cluster() -> tuple[str, ...]:
    """Three platforms with a server each, and a library measured on them; the names."""
    for rank, name in enumerate(SMALL):
        factories.server(of=factories.platform(name, cores=32 >> rank, rank=rank))
    factories.library(SMALL)
    return SMALL


def profiled(about: Application) -> ProfileRow:
    """The profile after one more profiling run."""
    with transaction.atomic():
        request_runs([about.id])
        run = ProfilingRun.objects.get(application=about, state="queued")
        record_measurements(run.id, at_s=60.0, cells=factories.cells(about, run=run))
        return classify(about)


def same(first: Profile, other: Profile) -> bool:
    """Whether two profiles are equal to the last bit, arrays and their types included."""
    pairs = zip(leaves(first), leaves(other), strict=True)
    return all(
        np.array_equal(a, b) and np.asarray(a).dtype == np.asarray(b).dtype for a, b in pairs
    )


def leaves(of: Profile | Estimates) -> list[Any]:
    """Values of all fields, those of estimates one by one."""
    values = [getattr(of, field.name) for field in fields(of)]
    return [
        leaf
        for value in values
        for leaf in (leaves(value) if isinstance(value, Estimates) else [value])
    ]


def test_a_new_library_replaces_the_current_one() -> None:
    first, second = factories.library(SMALL), factories.library(SMALL)
    assert (first, second) == (1, 2)
    assert list(Revision.objects.order_by("number").values_list("number", "is_current")) == [
        (1, False),
        (2, True),
    ]
    assert MatrixRevision.objects.filter(revision=2).count() == len(MatrixName)
    assert current_library().revision == 2


def test_the_library_is_read_as_it_was_measured() -> None:
    factories.library(SMALL, seed=5)
    library = current_library()
    speed = library.matrices[MatrixName.HETEROGENEITY]
    assert speed.columns == SMALL
    truth = application_truth(5, "library-batch-01", "batch", catalogue(SMALL, seed=5))
    measured = speed.values[speed.rows.index("library-batch-01")]
    # a ratio of two means of eight samples of 4 % has an error of 2 %; the tolerance is 10 %
    assert measured == pytest.approx(truth.platform_speed, rel=0.1)
    # an inconclusive ramp leaves its cell out; everything else was measured
    shares = [np.isnan(matrix.values).mean() for matrix in library.matrices.values()]
    assert max(shares) < 0.02
    assert {
        name for name, matrix in library.matrices.items() if np.isnan(matrix.values).any()
    } <= {
        MatrixName.TOLERATED,
        MatrixName.CAUSED,
    }


def test_a_missing_library_is_an_error() -> None:
    with pytest.raises(NoLibraryError, match="profile_library"):
        current_library()


def test_storing_an_empty_library_changes_nothing() -> None:
    store_library({}, platforms=SMALL)
    assert current_library().matrices[MatrixName.CAUSED].values.shape == (0, 10)


def test_an_application_gets_a_numbered_profile() -> None:
    small_cluster()
    about = factories.application("sort", kind="analytics")
    row = profiled(about)
    assert (row.number, row.revision, row.is_current) == (1, 1, True)
    assert selectors.current_profile_ids([about.id]) == {about.id: row.id}
    assert set(row.cells) == {name.value for name in MatrixName}


def test_a_new_profile_replaces_the_current_one() -> None:
    small_cluster()
    about, other = factories.application(), factories.application()
    first, others, second = profiled(about), profiled(other), profiled(about)
    first.refresh_from_db()
    assert (first.is_current, second.is_current, second.number) == (False, True, 2)
    assert selectors.current_profile_ids([about.id, other.id]) == {
        about.id: second.id,
        other.id: others.id,
    }


def test_a_profile_is_near_the_truth() -> None:
    small_cluster()
    about = factories.application("sort", kind="batch")
    profiled(about)
    profile = selectors.profile_named("sort")
    assert profile is not None
    truth = application_truth(2011, "sort", "batch", catalogue(SMALL, seed=2011))
    assert profile.base_rate == pytest.approx(truth.metric_per_s, rel=0.08)
    assert profile.platform_speed.value == pytest.approx(truth.platform_speed, rel=0.25)
    assert profile.platform_speed.measured.sum() == 3  # the budget allows both others
    assert profile.tolerated.measured.sum() == profile.caused.measured.sum() == 2


def test_an_unprofiled_application_has_no_profile() -> None:
    factories.application("sort")
    assert selectors.profile_named("sort") is None
    assert selectors.profile_named("unheard of") is None


def test_a_stored_profile_reads_as_it_was() -> None:
    small_cluster()
    about = factories.application(kind="latency_critical")
    row = profiled(about)
    once = from_row(row)
    again = selectors.profiles([row.id])[row.id]
    assert same(once, again)
    columns = {name: columns_of(name, once.platforms) for name in MatrixName}
    assert cells_of(again, selectors.known_cells_of(about.id), columns) == row.cells


@pytest.mark.parametrize("error", [0.0, 1e-9, 0.0123456789, 0.7])
def test_a_profile_goes_through_json_and_back_unchanged(error: float) -> None:
    about = factories.application("kmeans")
    before = replace(believed(base_rate=1 / 3, bytes_rate=1e8 / 7), base_rate_se=error)
    columns = {name: columns_of(name, before.platforms) for name in MatrixName}
    cells = cells_of(before, factories.known_of(before, columns), columns)
    row = ProfileRow.objects.create(
        application=about, number=1, revision=1, estimator="x", cells=cells
    )
    after = selectors.profiles([row.id])[row.id]
    assert same(before, after)
    assert len(leaves(after)) == 10 + 6 * 4


def test_an_application_is_not_inferred_from_its_own_library_row() -> None:
    small_cluster()
    about = factories.application("library-batch-01", kind="batch")
    in_library = profiled(about)
    factories.library(SMALL, leave_out="library-batch-01")
    assert classify(about).cells == in_library.cells


def test_profiles_omit_platforms_missing_from_the_library() -> None:
    small_cluster()
    factories.server(of=factories.platform("new.box", cores=4))
    about = factories.application()
    profile = from_row(profiled(about))
    assert profile.platforms == SMALL
    assert np.isfinite(profile.platform_speed.value).all()


@pytest.mark.parametrize("kind", ["analytics", "latency_critical", "single_node", "batch"])
def test_every_kind_can_be_classified_on_the_demo_platforms(kind: str) -> None:
    names = factories.demo_platforms()
    factories.library(names)
    profile = from_row(profiled(factories.application(kind=kind)))
    rows = profile.estimates.values()
    assert len(rows) >= 5
    assert all(((row.low <= row.value) & (row.value <= row.high)).all() for row in rows)
    assert (profile.base_rate > 0, profile.base_rate_se > 0) == (True, True)
    assert profile.kind == kind


def waiting(about: Application) -> Any:
    return factories.job(application=about, state="profiling")


def test_jobs_waiting_for_an_existing_profile_are_queued() -> None:
    small_cluster()
    about = factories.application()
    profiled(about)
    job = waiting(about)
    assert requeue_waiting_jobs() == 1
    job.refresh_from_db()
    assert job.state == "queued"
    assert job.profiled_s is not None


def test_jobs_waiting_without_a_run_get_one() -> None:
    small_cluster()
    about = factories.application()
    job = waiting(about)
    assert requeue_waiting_jobs() == 1
    job.refresh_from_db()
    assert job.state == "profiling"
    assert ProfilingRun.objects.get().application_id == about.id
    assert requeue_waiting_jobs() == 0


@pytest.mark.parametrize("state", ["queued", "running"])
def test_jobs_with_an_open_run_are_not_changed(state: str) -> None:
    about = factories.application()
    waiting(about)
    factories.profiling_run(about, state=state)
    assert requeue_waiting_jobs() == 0


def test_no_job_is_requeued_if_none_waits() -> None:
    factories.job(state="queued")
    assert requeue_waiting_jobs() == 0
    assert not ProfilingRun.objects.exists()


def test_an_unknown_application_is_measured_once() -> None:
    small_cluster()
    about = factories.application()
    assert [request_profiles([about.id]) for _ in range(2)] == [{about.id}] * 2
    assert ProfilingRun.objects.get().application_id == about.id


def test_an_application_waiting_for_its_fold_is_not_profiled_again() -> None:
    small_cluster()
    about = factories.application()
    request_folds([about.id])
    assert request_profiles([about.id]) == {about.id}
    assert not ProfilingRun.objects.exists()


def test_an_application_that_has_its_profile_is_not_awaited() -> None:
    small_cluster()
    about = factories.application()
    profiled(about)
    assert request_profiles([about.id]) == set()
    assert ProfilingRun.objects.count() == 1
