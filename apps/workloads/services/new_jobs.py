"""Rows of submitted jobs, and their insertion.

A row is a dictionary of the columns that a submission sets. Instances of `Job`, which has more
than sixty fields, took 39 % of the web process's time for a large batch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db.models import JSONField

from apps.accounts.models import Project, User
from apps.common.core.ids import uuid7
from apps.common.infrastructure.database import copy_rows
from apps.inventory.selectors import ClusterTime
from apps.workloads.core.reasons import Reason
from apps.workloads.core.spec import JobSpec
from apps.workloads.models import Application, Batch, Job
from apps.workloads.services.rows import as_json

_SET_BY_TRIGGER: Final = frozenset({"shape_key", "flow_key"})


@dataclass(frozen=True, slots=True)
class Member:
    """Place of a job in its array.

    Attributes
    ----------
    index : of the job
    waits : for earlier members, because of the limit of the array
    """

    index: int
    waits: bool


@dataclass(frozen=True, slots=True)
class Submission:
    """The project, user, request and batch of submitted jobs.

    Attributes
    ----------
    correlation_id : of the request
    batch : that the jobs belong to; None = none
    """

    project: Project
    user: User
    correlation_id: str
    batch: Batch | None = None


class NewJob(NamedTuple):
    """A submitted job.

    Attributes
    ----------
    columns : values by attribute of `Job`; the other columns have the defaults of their fields
    """

    id: UUID
    name: str
    project_id: UUID
    correlation_id: str
    application: Application
    columns: Mapping[str, Any]


def new_job(
    spec: JobSpec,
    submission: Submission,
    *,
    application: Application,
    correlation_id: str,
    member: Member | None,
    now: ClusterTime,
) -> NewJob:
    """Return the job of a specification."""
    job_id = spec.id or uuid7()
    name = spec.name or f"{spec.application[:110]}-{job_id.hex[-8:]}"
    project_id = submission.project.pk
    waits = member is not None and member.waits
    reason = Reason.WAITING_FOR_ARRAY if waits else Reason.WAITING_FOR_AGENT
    columns = {
        "id": job_id,
        "name": name,
        "project_id": project_id,
        "application_id": application.pk,
        "created_by_id": submission.user.pk,
        "batch_id": None if submission.batch is None else submission.batch.pk,
        "array_index": None if member is None else member.index,
        "correlation_id": correlation_id,
        "target": spec.target.as_json(),
        "target_kind": spec.target.kind,
        "input_bytes": spec.input_bytes,
        "tasks_total": spec.tasks,
        "duration_s": spec.duration_s,
        "units_requested": spec.units,
        "unit_memory_bytes": spec.unit_memory_bytes,
        "unit_network_bps": spec.unit_network_bps,
        "unit_storage_bytes": spec.unit_storage_bytes,
        "priority": spec.priority,
        "gang": spec.gang,
        "policy": spec.policy or "",
        "sample_size": spec.sample_size,
        "guarantee": None if spec.guarantee is None else spec.guarantee.as_json(),
        "held": spec.held or waits,
        "constraints": spec.constraints.as_json(),
        "labels": dict(spec.labels),
        "annotations": dict(spec.annotations),
        "backend": spec.backend,
        "program": spec.program(),
        "files_id": None if spec.files is None else spec.files.digest,
        "reason_code": Reason.HELD if spec.held else reason,
        "submitted_s": now.cluster_s,
        "created_at": now.at,
        "updated_at": now.at,
    }
    return NewJob(job_id, name, project_id, correlation_id, application, columns)


def insert_jobs(jobs: Sequence[NewJob]) -> None:
    """Insert jobs with COPY: for many and for one, a third of the time of an insert."""
    layout = _layout()
    copy_rows(Job._meta.db_table, layout.columns, map(layout.row, jobs))


def as_model(job: NewJob, submission: Submission) -> Job:
    """Return an inserted job as an instance, with its related objects."""
    related = {
        "project": submission.project,
        "application": job.application,
        "created_by": submission.user,
        "batch": submission.batch,
    }
    own = {name: value for name, value in job.columns.items() if name[:-3] not in related}
    return Job(**own, **related)


class _Layout(NamedTuple):
    """The columns that a submission writes.

    Attributes
    ----------
    places : of the columns by attribute of `Job`
    json : attributes of the columns of JSON
    defaults : of the columns, as COPY takes them
    """

    columns: list[str]
    places: Mapping[str, int]
    json: frozenset[str]
    defaults: list[Any]

    def row(self, job: NewJob) -> list[Any]:
        """Return the row of a job."""
        values = self.defaults.copy()
        for name, value in job.columns.items():
            values[self.places[name]] = _encoded(value, name in self.json)
        return values


@cache
def _layout() -> _Layout:
    """Return the columns of jobs but those that a trigger sets."""
    fields = [field for field in Job._meta.concrete_fields if field.attname not in _SET_BY_TRIGGER]
    json = frozenset(field.attname for field in fields if isinstance(field, JSONField))
    return _Layout(
        columns=[str(field.column) for field in fields],
        places={field.attname: place for place, field in enumerate(fields)},
        json=json,
        defaults=[_encoded(field.get_default(), field.attname in json) for field in fields],
    )


def _encoded(value: Any, is_json: bool) -> Any:
    """Return a value as COPY takes it."""
    return as_json(value) if is_json and value is not None else value
