"""Scenarios of the Lab: a copy of a cluster and of jobs."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import numpy as np
from django.conf import settings
from django.db import transaction

from apps.accounts.services.audit import Act, record_act
from apps.common.core.errors import FieldProblem, InvalidInputError
from apps.testbed.core.berth_jobs import berth_lines
from apps.testbed.core.generator import generate_day
from apps.testbed.core.history import History
from apps.testbed.core.replay.clusters import (
    cluster_from_document,
    document_of,
    synthetic_cluster,
)
from apps.testbed.core.replay.errors import ReplayError
from apps.testbed.core.trace_jobs import workload_of_sizes
from apps.testbed.core.traces import TraceError
from apps.testbed.models import LabScenario
from apps.testbed.selectors.lab import cluster_document, compressed, recorded_jobs
from apps.testbed.selectors.lab_plans import parsed


def create_scenario(
    *,
    name: str,
    cluster: Mapping[str, Any],
    workload: Mapping[str, Any],
    world: str | None = None,
    failures: Mapping[str, float] | None = None,
    by: UUID | None,
) -> LabScenario:
    """Store a cluster and jobs.

    Parameters
    ----------
    cluster : {"kind": "now"} or {"kind": "synthetic", "servers": n}
    workload : {"kind": "history", "hours": h} or {"kind": "facebook", "jobs": n, "seed": s}
    world : of the applications' true behaviour; None = that of this installation's emulator
    failures : {"per_day": n, "repair_s": s} of servers; None = none fails

    Raises
    ------
    InvalidInputError : no job was submitted in these hours, or cluster or jobs cannot be replayed.
    NotFoundError : no server is up.
    """
    document = _cluster(cluster)
    history = _jobs(workload)
    lines = list(berth_lines(history.trace))
    _require_readable(lines, workload["kind"])
    with transaction.atomic():
        scenario = LabScenario.objects.create(
            name=name,
            source={
                "cluster": dict(cluster),
                "workload": dict(workload),
                "notes": list(history.trace.notes),
                **({} if failures is None else {"failures": dict(failures)}),
            },
            cluster=document,
            world=world or settings.EMULATED_WORLD,
            jobs=compressed(lines),
            job_ids=b"".join(key.bytes for key in history.ids) or None,
            servers=len(document["servers"]),
            jobs_total=len(history.trace),
            created_by_id=by,
        )
        after = {"jobs": scenario.jobs_total, "servers": scenario.servers}
        record_act(Act("scenario.created", str(scenario.pk), name, after=after), by=by)
    return scenario


def _require_readable(lines: list[str], kind: str) -> None:
    """Refuse jobs that could not be read back, such as an extreme priority or size."""
    try:
        parsed(lines, "the jobs")
    except TraceError as error:
        problem = FieldProblem("/workload/kind", "not_replayable", f"{kind}: {error}")
        raise InvalidInputError([problem]) from error


def _cluster(asked: Mapping[str, Any]) -> dict[str, Any]:
    if asked["kind"] == "synthetic":
        return document_of(synthetic_cluster(asked["servers"]))
    document = cluster_document()
    try:
        cluster_from_document(document, name="cluster")
    except ReplayError as error:
        raise InvalidInputError([FieldProblem("/cluster", "invalid", str(error))]) from error
    return document


def _jobs(asked: Mapping[str, Any]) -> History:
    if asked["kind"] == "facebook":
        rng = np.random.default_rng(asked["seed"])
        return History(workload_of_sizes(generate_day(asked["jobs"], rng)), ())
    try:
        return recorded_jobs(asked["hours"])
    except (TraceError, ValueError) as error:
        detail = f"{asked['hours']:g} hours: {getattr(error, 'detail', error)}"
        raise InvalidInputError([FieldProblem("/workload/hours", "no_jobs", detail)]) from error
