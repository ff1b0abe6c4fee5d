"""Reference data: the rows of an installation that has run for months, written within minutes."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone

from apps.accounts.models import User
from apps.classification.core.cells import KnownCell, Source
from apps.classification.core.matrix import RATE_COLUMNS, MatrixName
from apps.classification.selectors import current_number
from apps.classification.services.profiles import infer
from apps.common.core.errors import ConflictError
from apps.inventory.models import Cluster, ResourceUnit, Server
from apps.inventory.selectors import cluster_now
from apps.testbed.services.reference_sql import STATEMENTS
from apps.workloads.models import Application

MAX_JOBS: Final = 10_000_000
RUNNING: Final = 2_200  # jobs at once, if the cluster has the units
WAITING: Final = 300
FRAMES: Final = 20_160  # two weeks of cluster minutes
PROJECTS: Final = 8
NAME: Final = "reference"


def load_reference(
    *, jobs: int, days: int, report: Callable[[str, int], None] = lambda _what, _rows: None
) -> None:
    """Insert ended, running and waiting jobs with their history, in one transaction.

    Cluster time and wall time advance together in it. The cluster clock is set forward if it has
    run for less than ``days``.

    Parameters
    ----------
    jobs : of the last ``days``, at equal distances; the newest wait or run, the others have ended
    report : called after each kind of row with its name and number

    Raises
    ------
    ConflictError : the cluster has no servers, or the database has reference data.
    """
    if not Server.objects.exists():
        raise ConflictError("The cluster has no servers: add some with seed_demo.")
    if Application.objects.filter(name__startswith=f"{NAME}-").exists():
        raise ConflictError("The database already has reference data.")
    with transaction.atomic(), connection.cursor() as cursor:
        values = _parameters(jobs, days)
        for what, statement in STATEMENTS.items():
            if what in ("profiles", "prediction errors") and values["revision"] is None:
                continue
            cursor.execute(statement, values)
            report(what, max(0, cursor.rowcount))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def _parameters(jobs: int, days: int) -> dict[str, Any]:
    """Return the parameters of the statements."""
    span_s = days * 86_400.0
    missing_s = span_s - cluster_now()
    if missing_s > 0:
        Cluster.objects.update(
            cluster_anchor_s=F("cluster_anchor_s") + missing_s,
            seen_cluster_s=F("seen_cluster_s") + missing_s,
        )
    end, end_s = timezone.now(), cluster_now()
    user, _ = User.objects.get_or_create(username=NAME)
    free = ResourceUnit.objects.filter(allocation_id=None).count()
    return {
        "jobs": jobs,
        "running": min(RUNNING, free, jobs // 100),
        "waiting": min(WAITING, jobs // 100),
        "applications": max(4, min(2_000, jobs // 500)),
        "projects": PROJECTS,
        "frames": min(FRAMES, jobs),
        "begin": end - timedelta(days=days),
        "begin_s": end_s - span_s,
        "end": end,
        "end_s": end_s,
        "user": user.pk,
        "revision": current_number(),
        "cells": json.dumps(_cells()),
    }


def _cells() -> dict[str, Any]:
    """Return the cells of a profile for all reference applications; empty without a library."""
    if current_number() is None:
        return {}
    known = [
        KnownCell(MatrixName.BASE_RATE, column, 1e6, 1e4, Source.MEASURED, 8, 60.0)
        for column in RATE_COLUMNS
    ]
    return infer(Application(name=NAME, kind="analytics"), known).cells
