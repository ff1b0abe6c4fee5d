"""Requests to measure a pair: a job that measures two commands, or an emulated run.

The job holds a whole server, so no other job of Berth runs next to the pair. It is an ordinary
job: agents need nothing new, and a restart of any part of Berth loses no measurement.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from django.db import transaction

from apps.accounts.models import Project, User
from apps.accounts.services.audit import Act, record_act
from apps.common.core.errors import ConflictError, FieldProblem, InvalidInputError
from apps.common.infrastructure.advisory_locks import AdvisoryLock, acquire
from apps.common.infrastructure.notifications import notify
from apps.common.infrastructure.request_id import current_request_id
from apps.operations.models import Operation
from apps.operations.services import operation_created, record_events
from apps.testbed.core.pairs.rounds import MIN_ROUNDS
from apps.testbed.infrastructure import pair_program
from apps.testbed.models import MeasuredPair
from apps.testbed.selectors.pairs import (
    KIND,
    PairServer,
    open_pairs,
    pair_by_id,
    predictions,
    server_for_pair,
)
from apps.workloads.core.constraints import Constraints
from apps.workloads.core.spec import JobSpec
from apps.workloads.core.targets import BestEffort
from apps.workloads.models import Application, Job
from apps.workloads.services import submit_jobs

TASK: Final = "testbed.pairs"
QUEUE: Final = "placement"
APPLICATION: Final = "berth-pair"  # of the jobs that measure
MAX_OPEN: Final = 10
MAX_ROUNDS: Final = 50
BATCH: Final = 100  # pairs of one transaction


@dataclass(frozen=True, slots=True)
class PairRequest:
    """What to measure.

    Attributes
    ----------
    sides : the two applications: name, units, and of programs the command
    platform : of the server; None = of the smallest server that suffices
    rounds : that must count, at least 3
    window_s : min wall seconds of a window; it is longer if a run takes longer
    patience_s : max wall seconds that a window waits for the first complete run
    max_foreign : largest share of the cores that other programs may use in a round that counts
    """

    sides: tuple[JobSpec, JobSpec]
    platform: str | None = None
    rounds: int = 8
    window_s: float = 1.0
    patience_s: float = 60.0
    max_foreign: float = 0.05

    def __post_init__(self) -> None:
        if not MIN_ROUNDS <= self.rounds <= MAX_ROUNDS:
            raise ValueError(f"rounds must be {MIN_ROUNDS} to {MAX_ROUNDS}, got {self.rounds}")

    @property
    def is_emulated(self) -> bool:
        """Whether the applications are emulated, hence without a command."""
        return not self.sides[0].command

    @property
    def units(self) -> tuple[int, int]:
        """Units of both applications."""
        return self.sides[0].units or 1, self.sides[1].units or 1

    def as_json(self) -> dict[str, Any]:
        """Return plain values: what `infrastructure.pair_program` reads."""
        return {
            "sides": [
                {
                    "command": list(side.command),
                    "environment": dict(side.environment),
                    "working_directory": side.working_directory,
                    "units": units,
                }
                for side, units in zip(self.sides, self.units, strict=True)
            ],
            "rounds": self.rounds,
            "window_s": self.window_s,
            "patience_s": self.patience_s,
            "max_foreign": self.max_foreign,
        }


def begin_pair(request: PairRequest, *, user: User, project: Project | None) -> MeasuredPair:
    """Predict a pair, and request its measurement.

    Parameters
    ----------
    project : of the job that measures commands; None if the applications are emulated

    Raises
    ------
    InvalidInputError : one application has a command and the other has none, or an emulated
        application is not known.
    ConflictError : no server suffices, too many pairs are open, or the project takes no jobs.
    """
    _require_one_nature(request)
    names = [side.application for side in request.sides]
    server = server_for_pair(
        sum(request.units), is_emulated=request.is_emulated, platform=request.platform
    )
    with transaction.atomic():
        acquire(AdvisoryLock.MEASURED_PAIRS)
        if open_pairs().count() >= MAX_OPEN:
            raise ConflictError(f"{MAX_OPEN} pairs wait or run; cancel one or wait.")
        operation = Operation.objects.create(
            kind=KIND,
            created_by_id=user.pk,
            total=request.rounds,
            message="waiting for a worker" if request.is_emulated else "waiting for a server",
            request_id=current_request_id(),
        )
        job = None if project is None else _submit(request, server, user, project)
        pair = MeasuredPair.objects.create(
            first=names[0],
            second=names[1],
            is_emulated=request.is_emulated,
            platform=server.platform,
            server_units=server.units,
            request=request.as_json(),
            predictions=predictions(names, request.units, server.units),
            job=job,
            operation=operation,
            created_by_id=user.pk,
        )
        record_act(Act("pair.requested", str(pair.pk), str(pair)), by=user.pk)
        record_events([operation_created(operation)])
        notify(TASK, queue=QUEUE)
    return pair_by_id(pair.pk)


def _submit(request: PairRequest, server: PairServer, user: User, project: Project) -> Job:
    """Submit the job that measures: it holds all units of one server."""
    first, second = (side.application for side in request.sides)
    source = Path(pair_program.__file__).read_text()
    spec = JobSpec(
        application=APPLICATION,
        application_kind="batch",
        target=BestEffort(),
        name=f"{first} and {second}"[:127],
        units=server.units,
        constraints=Constraints(platforms=(server.platform,), locality="server"),
        command=("python3", "-c", source, json.dumps(request.as_json())),
    )
    (job,) = submit_jobs([spec], project=project, user=user, correlation_id=current_request_id())
    notify("scheduling.agent", queue="agents")
    return job


def _require_one_nature(request: PairRequest) -> None:
    first, second = request.sides
    if bool(first.command) != bool(second.command):
        detail = "both applications need a command, or none: an emulated one has none"
        raise InvalidInputError([FieldProblem("/second/command", "contradiction", detail)])
    if request.is_emulated:
        known = _emulated([side.application for side in request.sides])
        problems = [
            FieldProblem(
                f"/{at}/application", "unknown_value", "must be an emulated application, or "
                f"have a command; {side.application} is not an emulated one"
            )
            for at, side in (("first", first), ("second", second))
            if side.application not in known
        ]  # fmt: skip
        if problems:
            raise InvalidInputError(problems)


def _emulated(names: Sequence[str]) -> set[str]:
    rows = Application.objects.filter(name__in=names, runs_commands=False)
    return set(rows.values_list("name", flat=True))


def prune_pairs(*, before: datetime | None) -> int:
    """Delete pairs that ended before; returns their number. None: keep all."""
    if before is None:
        return 0
    with transaction.atomic():
        acquire(AdvisoryLock.MEASURED_PAIRS)
        old = MeasuredPair.objects.filter(operation__finished_at__lt=before)
        keys = list(old.order_by("id").values_list("pk", flat=True)[:BATCH])
        return MeasuredPair.objects.filter(pk__in=keys).only("pk").delete()[0]
