"""Refits of the matrices: contents of a revision, its triggers, and its atomic activation."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from django.db import transaction
from django.utils import timezone

from apps.classification import selectors
from apps.classification.core.cells import SourceCode
from apps.classification.core.matrix import MatrixName
from apps.classification.models import (
    MatrixRevision,
    PendingFold,
    Profile,
    Revision,
    RevisionReason,
)
from apps.classification.selectors import NoLibraryError
from apps.classification.services import (
    begin_reclassification,
    classify,
    complete_revision,
    fold_pending,
    reclassification,
    reclassify_if_due,
    retrain,
)
from apps.classification.services.revisions import STEPS, StaleRevisionError
from apps.common.core.errors import ConflictError
from apps.operations.models import Operation
from apps.operations.services import MAX_ATTEMPTS, cancel_operation
from apps.profiling.models import ProfilingRun
from apps.profiling.services import record_measurements, request_runs
from apps.workloads.models import Application
from tests import factories

pytestmark = pytest.mark.django_db

SMALL = ("cr1.8xlarge", "m1.large", "m1.small")


@pytest.fixture(autouse=True)
def _small_cluster() -> None:
    for rank, name in enumerate(SMALL):
        factories.server(of=factories.platform(name, cores=32 >> rank, rank=rank))
    factories.library(SMALL)


def measured(name: str = "") -> Application:
    """An application with the measurements of one profiling run, and its profile."""
    about = factories.application(name, kind="analytics")
    with transaction.atomic():
        request_runs([about.id])
        run = ProfilingRun.objects.get(application=about, state="queued")
        record_measurements(run.id, at_s=60.0, cells=factories.cells(about, run=run))
        classify(about)
    return about


def ask() -> Operation:
    return begin_reclassification(reason=RevisionReason.REQUEST, by=None)


def stored(name: MatrixName) -> MatrixRevision:
    """A matrix of the active revision."""
    return MatrixRevision.objects.get(revision__is_current=True, matrix=name.value)


def test_live_applications_become_rows_below_the_library() -> None:
    measured("sort")
    ask()
    assert reclassify_if_due() == 2
    row = stored(MatrixName.SCALE_UP)
    assert (row.library_rows, row.rows[28:]) == (28, ["sort"])
    cells = selectors.cells_in(row)[28]
    # one unit and one other size
    assert sorted(cells["source"].tolist()) == [
        *[SourceCode.INFERRED] * 4,
        *[SourceCode.MEASURED] * 2,
    ]
    assert (cells["low"] <= cells["estimate"]).all()
    assert (cells["estimate"] <= cells["high"]).all()
    inferred = cells["source"] == SourceCode.INFERRED
    assert np.isnan(cells["value"][inferred]).all()
    assert (cells["low"] < cells["high"])[inferred].all()


def test_the_library_goes_through_a_revision_unchanged() -> None:
    before = selectors.library_rows()
    ask()
    reclassify_if_due()
    after = selectors.library_rows()
    assert (after.rows, after.platforms) == (before.rows, before.platforms)
    assert (before.number, after.number) == (1, 2)


def test_the_operation_stores_its_result() -> None:
    measured()
    operation = ask()
    reclassify_if_due()
    operation.refresh_from_db()
    assert (operation.status, operation.progress, operation.total) == ("succeeded", STEPS, STEPS)
    assert operation.result == {"revision": 2, "profiles": 1}
    assert Revision.objects.get(number=2).operation_id == operation.pk


def test_every_matrix_is_evaluated() -> None:
    ask()
    reclassify_if_due()
    report = stored(MatrixName.TOLERATED).evaluation
    assert report["rows"] == 28
    assert 0.0 < report["p50"] <= report["p90"] <= report["largest"] <= 1.0
    assert 0.5 < report["covered"] <= 1.0
    assert sorted(report["calibration"]) == report["calibration"]
    values = stored(MatrixName.TOLERATED).singular_values
    assert values == sorted(values, reverse=True)
    assert len(values) == 10


def test_a_matrix_of_two_columns_is_not_evaluated_with_two_entries() -> None:
    ask()
    reclassify_if_due()
    assert stored(MatrixName.BASE_RATE).evaluation == {"rows": 0}


def test_retraining_updates_the_profiles() -> None:
    about = measured()
    ask()
    reclassify_if_due()
    assert PendingFold.objects.get().application_id == about.id
    assert fold_pending() == 1
    assert Profile.objects.get(application=about, is_current=True).revision == 2


def test_only_one_retraining_runs_at_a_time() -> None:
    first = ask()
    with pytest.raises(ConflictError, match=str(first.pk)):
        ask()


def test_retraining_without_a_library_is_refused() -> None:
    Revision.objects.all().delete()
    with pytest.raises(NoLibraryError, match="profile_library"):
        ask()
    assert reclassify_if_due() is None


def test_a_cancelled_retraining_changes_nothing() -> None:
    operation = ask()
    cancel_operation(operation.pk)
    assert reclassify_if_due() is None
    assert Revision.objects.get().number == 1


def test_cancelling_during_training_changes_nothing() -> None:
    operation = ask()
    Operation.objects.filter(pk=operation.pk).update(cancel_requested=True)
    assert reclassify_if_due() is None
    operation.refresh_from_db()
    assert (operation.status, operation.progress) == ("cancelled", 0)
    assert Revision.objects.get().number == 1


def test_another_worker_takes_over_after_a_crash() -> None:
    operation = ask()
    Operation.objects.filter(pk=operation.pk).update(status="running")  # the worker has just died
    assert reclassify_if_due() is None
    Operation.objects.filter(pk=operation.pk).update(status="pending")  # its lease has expired
    assert reclassify_if_due() == 2


def test_a_retraining_that_fails_ends_and_no_other_begins_at_once(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    def broken(**_: object) -> int:
        raise MemoryError

    measured()
    settings.BERTH_RECLASSIFY_ROWS = 1
    monkeypatch.setattr(reclassification, "retrain", broken)
    assert [reclassify_if_due() for _ in range(2)] == [None, None]
    operation = Operation.objects.get(kind=reclassification.KIND)
    assert operation.status == "failed"
    assert "internal error" in str(operation.problem)
    monkeypatch.setattr(reclassification, "retrain", retrain)
    assert reclassify_if_due() is None
    late = timezone.now() - timedelta(seconds=reclassification.PAUSE_S)
    Operation.objects.update(finished_at=late)
    assert reclassify_if_due() == 2


def test_a_retraining_whose_workers_die_is_given_up() -> None:
    operation = ask()
    operation.arguments["attempt"] = MAX_ATTEMPTS
    operation.save()
    assert reclassify_if_due() is None
    operation.refresh_from_db()
    assert operation.status == "failed"
    assert f"The worker died {MAX_ATTEMPTS} times." in str(operation.problem)


class _Once:
    """A function that calls ``act`` the first time it is called."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self._act: Callable[[], Any] | None = act

    def __call__(self, message: str) -> None:
        act, self._act = self._act, None
        if act is not None:
            act()


def test_a_library_stored_during_training_is_not_replaced() -> None:
    with pytest.raises(StaleRevisionError, match="revision 1"):
        retrain(reason=RevisionReason.REQUEST, report=_Once(lambda: factories.library(SMALL)))
    assert Revision.objects.get(is_current=True).number == 2


def test_enough_new_applications_make_a_revision(settings: Any) -> None:
    settings.BERTH_RECLASSIFY_ROWS = 2
    measured()
    assert reclassify_if_due() is None
    measured()
    assert reclassify_if_due() == 2
    assert Revision.objects.get(number=2).reason == RevisionReason.ROWS
    assert reclassify_if_due() is None


def test_telemetry_alone_makes_no_revision(settings: Any) -> None:
    settings.BERTH_RECLASSIFY_ROWS = 1
    about = measured()
    assert reclassify_if_due() == 2
    factories.measurement(about, matrix="heterogeneity", column="m1.small", source="telemetry")
    assert reclassify_if_due() is None


def test_a_revision_is_due_after_some_time_if_anything_was_measured() -> None:
    Revision.objects.update(created_at=timezone.now() - timedelta(hours=1))
    assert reclassify_if_due() is None
    measured()
    assert reclassify_if_due() == 2
    assert Revision.objects.get(number=2).reason == RevisionReason.SCHEDULE


def test_known_cells_of_a_stored_library_have_estimates_immediately() -> None:
    cells = selectors.cells_in(stored(MatrixName.SCALE_UP))
    assert cells["estimate"] == pytest.approx(cells["value"])
    assert (cells["low"][:, 1:] < cells["value"][:, 1:]).all()
    assert (cells["value"][:, 1:] < cells["high"][:, 1:]).all()
    assert cells["low"][:, 0] == pytest.approx(1.0)  # exact by definition


def test_a_stored_library_is_completed_in_the_background() -> None:
    untried = MatrixRevision.objects.filter(evaluation={})
    assert untried.count() == len(MatrixName)
    assert reclassify_if_due() is None
    assert untried.count() == 0
    cells = selectors.cells_in(stored(MatrixName.CAUSED))
    assert not np.isnan(cells["estimate"]).any()
    assert complete_revision(1, MatrixName.CAUSED) is False


def test_matrices_completed_together_are_inferred_together() -> None:
    about = measured("sort")
    ask()
    reclassify_if_due()
    fold_pending()
    stored_row = selectors.cells_in(stored(MatrixName.TOLERATED))[28]
    profile = Profile.objects.get(application=about, is_current=True).cells["tolerated"]
    assert stored_row["estimate"] == pytest.approx(profile["value"])
    assert stored_row["low"] == pytest.approx(profile["low"])
