"""Reads of applications, jobs and batches."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast
from uuid import UUID

from django.conf import settings
from django.db.models import Count, Q, QuerySet
from django.utils import timezone
from django.utils.module_loading import import_string

from apps.accounts.core.principal import Principal
from apps.accounts.models import Project
from apps.common.infrastructure.database import fetch_rows
from apps.workloads.core.archives import Archive as ArchiveSpec
from apps.workloads.core.constraints import Constraints
from apps.workloads.core.deleted import missing_job_text
from apps.workloads.core.guarantees import JobLimits, QualityGuarantee
from apps.workloads.core.lifecycle import TERMINAL_STATES, WAITING_STATES
from apps.workloads.core.reasons import Reason
from apps.workloads.core.spec import JobSpec
from apps.workloads.core.targets import read_target
from apps.workloads.infrastructure.name_search import words_query
from apps.workloads.models import NEW_JOB, OPEN_STATES, Application, Archive, Batch, BatchMode, Job

NEWEST: Final = 2_000  # jobs in which words of a search are counted
COMMON_FROM: Final = 40
# progress of the launch of a job j: share done of the work that was left at its start
LAUNCH_PROGRESS: Final = "(j.progress - j.progress_before) / (1 - j.progress_before)"
NOT_ENDED = ~Q(state__in=[state.value for state in TERMINAL_STATES])


def visible_jobs(principal: Principal) -> QuerySet[Job]:
    """Return the jobs a caller may see, joined with the rows their JSON refers to."""
    jobs = Job.objects.select_related("application", "project", "created_by")
    if principal.sees_everything():
        return jobs
    return jobs.filter(project_id__in=list(principal.projects))


def visible_job(principal: Principal, job_id: UUID) -> Job | None:
    """Return one job, or None if the caller may not see it or it does not exist."""
    return visible_jobs(principal).filter(pk=job_id).first()


def missing_job(job_id: UUID) -> str:
    """Return a sentence about a job that does not exist or that the caller may not see."""
    return missing_job_text(job_id, now=timezone.now(), kept_days=settings.BERTH_JOB_DAYS)


def locked_generation(job_id: UUID) -> int | None:
    """Lock a job and return its generation; None if it no longer exists."""
    locked = Job.objects.select_for_update().filter(pk=job_id)
    return locked.values_list("generation", flat=True).first()


def jobs_matching(principal: Principal, where: Q, *, limit: int) -> list[tuple[UUID, UUID]]:
    """Return (job, project) ids of matching jobs the caller may see, at most ``limit``."""
    matching = visible_jobs(principal).filter(where)
    return list(matching.values_list("id", "project_id")[:limit])


def count_waiting_shapes() -> int:
    """Count the request shapes whose jobs could not be placed."""
    ((count,),) = fetch_rows("SELECT count(*) FROM workloads_waitingshape")
    return int(count)


class Pending(NamedTuple):
    """What waits for agents: any new job, any job that lacks units, and the number of shapes."""

    has_new: bool
    has_incomplete: bool
    shapes: int


# ORDER BY: the planner takes half of all jobs for new ones, and EXISTS would read the whole table.
_PENDING: Final = f"""
SELECT (SELECT j.project_id FROM workloads_job j WHERE {NEW_JOB.format(job="j.")}
        ORDER BY j.project_id LIMIT 1) IS NOT NULL,
       EXISTS (SELECT FROM workloads_job
               WHERE state IN ('starting', 'running') AND units_missing > 0),
       (SELECT count(*) FROM workloads_waitingshape)
"""  # noqa: S608 - constants


def pending() -> Pending:
    """Return what waits for agents, in one statement."""
    ((has_new, has_incomplete, shapes),) = fetch_rows(_PENDING)
    return Pending(has_new, has_incomplete, shapes)


def is_key_optional(project_id: UUID) -> bool:
    """Return True if service accounts may submit to a project without an Idempotency-Key."""
    return Project.objects.filter(pk=project_id, key_optional=True).exists()


@lru_cache(maxsize=1)
def _limits_from(path: str) -> Callable[[list[str], int], JobLimits]:
    return cast("Callable[[list[str], int], JobLimits]", import_string(path))


def job_limits() -> JobLimits:
    """Return the limits of the installation on the policy, R and guarantee of a job."""
    limits = _limits_from(settings.JOB_LIMITS)
    return limits(settings.JOB_POLICIES, settings.MAX_SAMPLE)


def spec_of(job: Job) -> JobSpec:
    """Return the current specification of a job."""
    return JobSpec(
        application=job.application.name,
        target=read_target(job.target),
        input_bytes=job.input_bytes,
        tasks=job.tasks_total,
        units=job.units_requested,
        duration_s=job.duration_s,
        priority=job.priority,
        gang=job.gang,
        policy=job.policy or None,
        sample_size=job.sample_size,
        guarantee=None if job.guarantee is None else QualityGuarantee(**job.guarantee),
        constraints=Constraints(
            platforms=tuple(job.constraints.get("platforms", ())),
            labels=job.constraints.get("labels", {}),
            locality=job.constraints.get("locality"),
            spread=job.constraints.get("spread"),
            max_cost=job.constraints.get("max_cost"),
            excluded=tuple(job.constraints.get("excluded", ())),
        ),
        labels=job.labels,
        annotations=job.annotations,
        unit_memory_bytes=job.unit_memory_bytes,
        unit_network_bps=job.unit_network_bps,
        unit_storage_bytes=job.unit_storage_bytes,
        **_program(job),
    )


def _program(job: Job) -> dict[str, Any]:
    """Return the fields of a job's command; empty without one."""
    if job.program is None:
        return {}
    files = None if job.files_id is None else ArchiveSpec(job.files_id)
    # a job that measured a copy is run again as the command itself
    program = {name: value for name, value in job.program.items() if name != "probe"}
    progress = program.pop("progress_command", None)
    every_s = program.pop("progress_every_seconds", None)
    return {
        **program,
        "command": tuple(job.program["command"]),
        "files": files,
        "progress_command": None if progress is None else tuple(progress),
        "progress_every_s": every_s,
    }


def files_of(job: Job) -> bytes | None:
    """Return the archive of a job; None if it has none."""
    found = Archive.objects.filter(pk=job.files_id).values_list("data", flat=True).first()
    return None if found is None else bytes(found)


def submission_of(job: Job) -> dict[str, Any]:
    """Return the document that would submit the same job again."""
    spec: dict[str, Any] = {"application": job.application.name, "target": job.target}
    optional = {
        "input_bytes": job.input_bytes,
        "tasks": job.tasks_total,
        "duration_seconds": job.duration_s,
        "units": job.units_requested,
        "priority": job.priority,
        "unit_memory_bytes": job.unit_memory_bytes,
        "unit_network_bps": job.unit_network_bps,
        "unit_storage_bytes": job.unit_storage_bytes,
        "constraints": job.constraints,
        "policy": job.policy,
        "sample_size": job.sample_size,
        "guarantee": job.guarantee,
        **{name: value for name, value in (job.program or {}).items() if name != "probe"},
        "files": job.files_id,
    }
    spec |= {name: value for name, value in optional.items() if value}
    spec["gang"] = job.gang
    metadata: dict[str, Any] = {"name": job.name, "project": job.project.name}
    metadata |= {n: v for n in ("labels", "annotations") if (v := getattr(job, n))}
    return {"metadata": metadata, "spec": spec}


@dataclass(frozen=True, slots=True)
class JobCounts:
    """Exact numbers of jobs, from counters: their cost does not depend on the number of jobs.

    Attributes
    ----------
    by_state, by_target : without values that no job has
    """

    by_state: Mapping[str, int]
    by_target: Mapping[str, int]

    @property
    def all(self) -> int:
        """Number of all jobs."""
        return sum(self.by_state.values())

    def of(self, states: Iterable[str]) -> int:
        """Return the number of jobs in any of the states."""
        return sum(self.by_state.get(state, 0) for state in states)


def job_counts(projects: Collection[UUID] | None) -> JobCounts:
    """Return the numbers of jobs of these projects; None: of all.

    Cost: one statement over the counters, a few rows per application.
    """
    counted = fetch_rows(_COUNTS, _of_projects(projects))
    return JobCounts(
        by_state={state: n for state, _, n in counted if state is not None and n},
        by_target={kind: n for _, kind, n in counted if kind is not None and n},
    )


def job_counts_by_application(projects: Collection[UUID] | None, *, limit: int) -> dict[str, int]:
    """Return the names of the applications with most jobs, and their numbers of jobs."""
    return dict(fetch_rows(_COUNTS_BY_APPLICATION, {**_of_projects(projects), "limit": limit}))


@dataclass(frozen=True, slots=True)
class CountFilter:
    """Conditions that the counters of jobs can answer; empty = any."""

    states: tuple[str, ...] = ()
    target_kind: str = ""
    application: str = ""
    project: str = ""


def count_jobs(
    projects: Collection[UUID] | None, where: CountFilter, *, by: str, limit: int | None = None
) -> dict[str, int]:
    """Return exact numbers of matching jobs ``by`` state, target_kind or application, most first.

    Cost: one statement over the counters, a few rows per application.
    """
    column = {"state": "state", "target_kind": "target_kind", "application": "a.name"}[by]
    sql = _COUNTS_BY.format(column=column)
    parameters = {
        **_of_projects(projects),
        "states": list(where.states),
        "target_kind": where.target_kind,
        "application": where.application,
        "project": where.project,
        "limit": limit,
    }
    return dict(fetch_rows(sql, parameters))


def _of_projects(projects: Collection[UUID] | None) -> dict[str, Any]:
    return {"all": projects is None, "projects": list(projects or ())}


_COUNTED: Final = """
SELECT project_id, application_id, target_kind, state, jobs AS n FROM workloads_jobcount
WHERE %(all)s OR project_id = ANY(%(projects)s::uuid[])
UNION ALL
SELECT project_id, application_id, target_kind, state, change FROM workloads_jobcountchange
WHERE %(all)s OR project_id = ANY(%(projects)s::uuid[])
"""
_COUNTS: Final = f"""
SELECT state, target_kind, sum(n)::bigint FROM ({_COUNTED}) AS counted
GROUP BY GROUPING SETS (state, target_kind)
"""  # noqa: S608 - a constant
_COUNTS_BY_APPLICATION: Final = f"""
SELECT a.name, sum(n)::bigint FROM ({_COUNTED}) AS counted
JOIN workloads_application a ON a.id = counted.application_id
GROUP BY a.name HAVING sum(n) > 0 ORDER BY 2 DESC, 1 LIMIT %(limit)s
"""  # noqa: S608
_COUNTS_BY: Final = f"""
SELECT {{column}}, sum(n)::bigint FROM ({_COUNTED}) AS counted
JOIN workloads_application a ON a.id = counted.application_id
JOIN accounts_project p ON p.id = counted.project_id
WHERE (%(states)s::text[] = '{{{{}}}}' OR state = ANY(%(states)s::text[]))
  AND (%(target_kind)s = '' OR target_kind = %(target_kind)s)
  AND (%(application)s = '' OR a.name = %(application)s)
  AND (%(project)s = '' OR p.name = %(project)s)
GROUP BY 1 HAVING sum(n) > 0 ORDER BY 2 DESC, 1 LIMIT %(limit)s
"""  # noqa: S608


def name_search(text: str) -> Q:
    """Return the condition that each word of the text begins a word of a job's name.

    Lists are read newest first: words that many of the newest jobs have are found on the way,
    others by the index on words. PostgreSQL does not estimate the frequency of a beginning, so
    this counts.
    """
    ((common,),) = fetch_rows(_COMMON, [NEWEST, words_query(text)])
    return Q(name__has_words=text) if common >= COMMON_FROM else Q(id__named_with=text)


_COMMON: Final = """
SELECT count(*) FROM (SELECT name FROM workloads_job ORDER BY created_at DESC, id DESC LIMIT %s)
    AS newest WHERE workloads_words(name) @@ %s::tsquery
"""


def is_visible_project(principal: Principal, name: str) -> bool:
    """Return True if there is a project with this name whose jobs the caller may see."""
    if principal.sees_everything():
        return Project.objects.filter(name=name).exists()
    return name in {known for known, _ in principal.projects.values()}


def in_project(name: str) -> Q:
    """Return the condition that a job belongs to the project with this name."""
    return Q(project=Project.objects.filter(name=name).values("pk")[:1])


def of_application(name: str) -> Q:
    """Return the condition that a job runs the application with this name."""
    return Q(application=Application.objects.filter(name=name).values("pk")[:1])


def attained(condition: str, value: float) -> Q:
    """Return the condition on attainment (``lt`` or ``gte``) in a form that indexes serve."""
    compared = Q(**{f"attainment__{condition}": value})
    return compared & (Q(finished_at__isnull=False) | Q(state__in=OPEN_STATES))


def visible_projects(principal: Principal) -> list[UUID] | None:
    """Return the projects whose jobs a caller may see; None: all."""
    return None if principal.sees_everything() else list(principal.projects)


def visible_batches(principal: Principal) -> QuerySet[Batch]:
    """Return the batches a caller may see, without their items."""
    batches = Batch.objects.select_related("project", "created_by").defer("items")
    if principal.sees_everything():
        return batches
    return batches.filter(project_id__in=list(principal.projects))


def batch_items(batch_id: UUID, *, start: int, limit: int) -> list[dict[str, Any]]:
    """Return a page of the items of a batch, sliced by the database."""
    rows = fetch_rows(_ITEMS, [start, start + limit, batch_id])
    return [json.loads(item) for (item,) in rows]


_ITEMS = """
SELECT (items -> place)::text
FROM workloads_batch, generate_series(%s, least(%s, jsonb_array_length(items)) - 1) AS place
WHERE id = %s ORDER BY place
"""


def batch_states(batch_id: UUID) -> dict[str, int]:
    """Return the number of jobs of a batch by state."""
    states = Job.objects.filter(batch_id=batch_id).values("state").annotate(n=Count("id"))
    return {row["state"]: row["n"] for row in states}


def visible_arrays(principal: Principal) -> QuerySet[Batch]:
    """Return the job arrays a caller may see."""
    return visible_batches(principal).filter(mode=BatchMode.ARRAY)


def members_of(array_id: UUID) -> Q:
    """Return the condition that a job is a member of an array."""
    return Q(batch=array_id, array_index__isnull=False)


def array_states(array_id: UUID) -> tuple[dict[str, int], int]:
    """Return the number of members of an array by state, and of those that its limit holds."""
    waits = Q(held=True, reason_code=Reason.WAITING_FOR_ARRAY, state__in=OPEN_STATES)
    rows = (
        Job.objects.filter(members_of(array_id))
        .values("state")
        .annotate(n=Count("id"), waiting=Count("id", filter=waits))
    )
    counted = list(rows)
    return {row["state"]: row["n"] for row in counted}, sum(row["waiting"] for row in counted)


def applications() -> QuerySet[Application]:
    """Return all applications: they are visible to every project."""
    return Application.objects.all()


def application_by(key: str) -> Application | None:
    """Return an application by id or by name."""
    try:
        by_id = Application.objects.filter(pk=UUID(key)).first()
    except ValueError:
        by_id = None
    return by_id or Application.objects.filter(name=key).first()


def application_kinds(names: Iterable[str]) -> dict[str, str]:
    """Return the kinds of applications by name, without unknown names."""
    rows = Application.objects.filter(name__in=set(names))
    return dict(rows.values_list("name", "kind"))


_WAITING_PROJECTS = """
SELECT a.id, j.project_id FROM unnest(%s::uuid[]) AS a(id), LATERAL (
    SELECT project_id FROM workloads_job
    WHERE application_id = a.id AND state IN ('submitted', 'queued', 'profiling')
    ORDER BY created_at, id LIMIT 1) j
"""


def waiting_among(jobs: Collection[str]) -> set[str]:
    """Return the ids, of some jobs, of those that wait and are not held."""
    states = [state.value for state in WAITING_STATES]
    found = Job.objects.filter(pk__in=list(jobs), state__in=states, held=False)
    return {str(job_id) for job_id in found.values_list("pk", flat=True)}


def waiting_projects(application_ids: Sequence[UUID]) -> dict[UUID, UUID]:
    """Return the project of the oldest waiting job of each application that has one."""
    return dict(fetch_rows(_WAITING_PROJECTS, [list(application_ids)]))
