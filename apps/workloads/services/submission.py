"""Submission of jobs and job arrays, and creation of the applications they name."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from apps.accounts.core.roles import Role, includes
from apps.accounts.models import Project, User
from apps.accounts.selectors import archived_projects
from apps.accounts.services import keep_open
from apps.common.core.errors import ConflictError, FieldProblem, InvalidInputError
from apps.common.infrastructure.database import fetch_prepared
from apps.inventory.core.backends import Capability
from apps.inventory.selectors import cluster_time, has_servers_with
from apps.operations.services import NewEvent, record_events
from apps.workloads.core.addresses import require_addressable
from apps.workloads.core.arrays import ArraySpec, member_name
from apps.workloads.core.commands import owned_application
from apps.workloads.core.lifecycle import JobState
from apps.workloads.core.spec import JobSpec
from apps.workloads.models import Application, Batch, Job
from apps.workloads.services.archives import store_archives
from apps.workloads.services.arrays import new_array, release_after
from apps.workloads.services.new_jobs import (
    Member,
    NewJob,
    Submission,
    as_model,
    insert_jobs,
    new_job,
)
from apps.workloads.services.rows import row_event


def submit_jobs(
    specs: Sequence[JobSpec], *, project: Project, user: User, correlation_id: str
) -> list[Job]:
    """Insert jobs and their events in the caller's transaction; raises as `store_jobs`."""
    return _submit(specs, Submission(project, user, correlation_id))


def _submit(
    specs: Sequence[JobSpec], submission: Submission, members: Sequence[Member] = ()
) -> list[Job]:
    jobs = store_jobs(specs, submission, members=members)
    record_events(submitted_events(jobs))
    return [as_model(job, submission) for job in jobs]


def submitted_events(jobs: Sequence[NewJob]) -> list[NewEvent]:
    """Return the events of jobs that `store_jobs` has inserted; record them last."""
    return [
        row_event(
            "job.submitted",
            (job.id, job.name, job.project_id, JobState.SUBMITTED),
            request_id=job.correlation_id,
        )
        for job in jobs
    ]


def store_jobs(
    specs: Sequence[JobSpec], submission: Submission, *, members: Sequence[Member] = ()
) -> list[NewJob]:
    """Insert jobs, in order, in the caller's transaction, and create new applications.

    The caller records the events of the jobs (`submitted_events`) as its last step.

    Parameters
    ----------
    members : of the array that the batch is, one for each job; empty = no array

    Raises
    ------
    ConflictError : the project is archived, or an application runs no commands, or only commands.
    InvalidInputError : no backend runs the commands, an archive is not stored, or the address of
        a new application would be that of something else.
    """
    project, user, request = submission.project, submission.user, submission.correlation_id
    _require_backend(specs)
    name = keep_open(project.pk)  # it may have been renamed since ``project`` was read
    if name is None:
        raise _archived(project)
    specs = [as_submitted(spec, name, user) for spec in specs]
    applications = _applications(specs)
    store_archives([spec.files for spec in specs if spec.files is not None], project)
    now = cluster_time()
    jobs = [
        new_job(
            spec,
            submission,
            application=applications[spec.application],
            correlation_id=request if len(specs) == 1 else f"{request}.{i}",
            member=members[i] if members else None,
            now=now,
        )
        for i, spec in enumerate(specs)
    ]
    insert_jobs(jobs)
    return jobs


def submit_array(
    spec: JobSpec, array: ArraySpec, *, project: Project, user: User, correlation_id: str
) -> Batch:
    """Insert an array and its members in the caller's transaction; raises as `submit_jobs`.

    The members have consecutive places in the order of the indexes; those beyond the limit wait.
    """
    row = new_array(
        name=spec.name or spec.application, text=array.text, limit=array.limit,
        size=len(array.indexes), project=project, user=user,
    )  # fmt: skip
    limit = len(array.indexes) if array.limit is None else array.limit
    waiting = set(sorted(array.indexes)[limit:])
    members = [Member(index, index in waiting) for index in array.indexes]
    jobs = store_jobs(
        [replace(spec, name=member_name(row.name, index)) for index in array.indexes],
        Submission(project, user, correlation_id, batch=row),
        members=members,
    )
    row.items = [{"status": "accepted", "job": str(job.id)} for job in jobs]
    row.save(update_fields=["items"])
    record_events(submitted_events(jobs))
    return row


def resubmit(job: Job, spec: JobSpec, *, user: User, correlation_id: str) -> Job:
    """Submit a job again in the caller's transaction.

    A member of an array is a member again, with the same index and within the limit.
    """
    if job.batch is None or job.array_index is None:
        members, batch = [], None
    else:
        members, batch = [Member(job.array_index, waits=True)], job.batch
    (again,) = _submit([spec], Submission(job.project, user, correlation_id, batch), members)
    if batch is not None:
        release_after([(batch.pk,)])
    return again


def _applications(specs: Sequence[JobSpec]) -> dict[str, Application]:
    kinds = {spec.application: spec.kind for spec in specs}
    commands = {spec.application for spec in specs if spec.command}
    rows = _known_applications(kinds)
    # sorted, because an insert waits for concurrent inserts of the same names
    missing = [
        Application(name=name, kind=kinds[name], runs_commands=name in commands)
        for name in sorted(kinds.keys() - rows)
    ]
    for application in missing:
        require_addressable(application.name, at="/spec/application")
    if missing:
        Application.objects.bulk_create(missing, ignore_conflicts=True)
        rows = _known_applications(kinds)
    for spec in specs:
        _require_same_nature(spec, rows[spec.application])
    return rows


def _known_applications(names: Iterable[str]) -> dict[str, Application]:
    """Return the applications with these names, with the fields of `_OF_APPLICATION` only."""
    rows = fetch_prepared(_APPLICATIONS, [list(names)])
    return {row[1]: Application(**dict(zip(_OF_APPLICATION, row, strict=True))) for row in rows}


_OF_APPLICATION: Final = ("id", "name", "kind", "runs_commands")
_APPLICATIONS: Final = f"""
SELECT {", ".join(_OF_APPLICATION)} FROM workloads_application WHERE name = ANY(%s::text[])
"""  # noqa: S608 - constants


def as_submitted(spec: JobSpec, project: str, user: User) -> JobSpec:
    """Return the job as it is stored.

    A copyable command gets an application of its project, unless an operator submits it. Its
    copies set the scores of the application, which place all jobs of that name: those of other
    projects too.

    Parameters
    ----------
    project : its name
    """
    if not spec.copyable or includes(user.role, Role.OPERATOR):
        return spec
    return replace(spec, application=owned_application(project, spec.application))


def require_accepted(spec: JobSpec, project: Project) -> None:
    """Check what a submission of a job checks when it is stored, without locks.

    Raises
    ------
    ConflictError : the project is archived, or the application runs no commands, or only commands.
    """
    if archived_projects([project.pk]):
        raise _archived(project)
    application = Application.objects.filter(name=spec.application).first()
    if application is not None:
        _require_same_nature(spec, application)


def _archived(project: Project) -> ConflictError:
    return ConflictError(f"The project {project.name} is archived and accepts no jobs.")


def _require_same_nature(spec: JobSpec, application: Application) -> None:
    """Check that the jobs of an application all have a command, or all have none.

    A profile of an emulated application tells nothing about a program, and the other way round.

    Raises
    ------
    ConflictError : the application is of the other nature.
    """
    if bool(spec.command) == application.runs_commands:
        return
    nature = "needs a command" if application.runs_commands else "is emulated: it runs no command"
    raise ConflictError(f"The application {application.name} {nature}; name another application.")


def _require_backend(specs: Sequence[JobSpec]) -> None:
    """Check that a backend of the cluster can run the commands.

    Raises
    ------
    InvalidInputError : none can.
    """
    is_open = any(spec.command and not spec.backend for spec in specs)
    if is_open and not has_servers_with(Capability.COMMANDS):
        detail = "no server of this cluster runs commands; enrol an agent first"
        raise InvalidInputError([FieldProblem("/spec/command", "no_backend", detail)])
