"""A library, profiled and classified applications, and their prediction errors."""

from datetime import timedelta

import numpy as np
from django.db import transaction
from django.utils import timezone

from apps.accounts.models import User
from apps.classification.core.matrix import MatrixName
from apps.classification.models import Drift, PredictionError, Profile, Revision, RevisionReason
from apps.classification.services import (
    classify,
    complete_revision,
    retrain,
    set_overrides,
)
from apps.classification.services.overrides import NewOverride
from apps.profiling.models import ProfilingRun
from apps.profiling.services import record_measurements, request_runs
from apps.workloads.models import Application, Job
from tests import factories
from tests.browser.recordings import NOW_S

DRIFTED, BY_HAND, FAILED, UNKNOWN = "web-leaf", "memcached-carts", "spec-mcf", "nightly-index"
REVISIONS = 3


def write_classification(apps: list[Application], jobs: list[Job], operator: User) -> None:
    """Write classification data of all applications but the last."""
    factories.library(factories.platform_names())
    known = [app for app in apps if app.name != UNKNOWN]
    for turn in range(REVISIONS):
        for i, app in enumerate(known):
            if turn == 0 or i % 3 == turn:
                measure(app, at_s=NOW_S - 9000.0 + 3000.0 * turn + 40.0 * i)
        if turn:
            retrain(reason=RevisionReason.ROWS, report=lambda message: None)
    for number in Revision.objects.values_list("number", flat=True):
        for matrix in MatrixName:
            complete_revision(number, matrix)
    _override(next(app for app in apps if app.name == BY_HAND), operator)
    for app in known:
        with transaction.atomic():
            classify(app)
    _runs(apps)
    _errors(known, jobs)


def measure(app: Application, *, at_s: float) -> None:
    """Record one finished profiling run of an application and infer its profile."""
    with transaction.atomic():
        request_runs([app.id])
        run = ProfilingRun.objects.get(application=app, state="queued")
        ProfilingRun.objects.filter(id=run.id).update(
            state="running", requested_s=at_s - 70.0, started_s=at_s - 61.0
        )
        record_measurements(run.id, at_s=at_s, cells=factories.cells(app, run=run))
        classify(app)


def _override(app: Application, operator: User) -> None:
    cells = [
        NewOverride(MatrixName.TOLERATED, "llc_capacity", 35.0),
        NewOverride(MatrixName.SCALE_OUT, "16", 0.72),
    ]
    set_overrides(app.id, cells, reason="load test of 12 November", by=operator.id)


def _runs(apps: list[Application]) -> None:
    """Write one failed and one running profiling run."""
    by_name = {app.name: app for app in apps}
    factories.profiling_run(
        by_name[FAILED],
        state="failed",
        requested_s=NOW_S - 300,
        started_s=NOW_S - 290,
        finished_s=NOW_S - 200,
        message="no backend finished the run in 5 attempts",
    )
    with transaction.atomic():
        request_runs([by_name[UNKNOWN].id])
    ProfilingRun.objects.filter(application=by_name[UNKNOWN]).update(
        state="running", requested_s=NOW_S - 30, started_s=NOW_S - 24
    )


def _errors(known: list[Application], jobs: list[Job]) -> None:
    rng = np.random.default_rng(5)
    for app in known:
        profile = Profile.objects.get(application=app, is_current=True)
        mine = [job for job in jobs if job.application_id == app.id and job.started_s is not None]
        rows = []
        for job in mine:
            for number in range(1, 6):
                at_s = min(NOW_S, (job.started_s or 0.0) + 60.0 * number)
                shift = -0.28 if app.name == DRIFTED and at_s > NOW_S - 6000 else 0.01
                predicted = 1e6
                rows.append(
                    PredictionError(
                        application=app,
                        job=job,
                        profile=profile,
                        number=number,
                        cluster_s=at_s,
                        predicted=predicted,
                        measured=predicted * float(np.exp(shift + 0.06 * rng.normal())),
                        deviation=0.07,
                    )
                )
        PredictionError.objects.bulk_create(rows)
        Drift.objects.create(
            application=app,
            observations=len(rows),
            mean_error=-0.28 if app.name == DRIFTED else 0.01,
            slower=9.0 if app.name == DRIFTED else 0.4,
            flagged_s=NOW_S - 5400 if app.name == DRIFTED else None,
        )
    Revision.objects.update(created_at=timezone.now() - timedelta(minutes=22))
