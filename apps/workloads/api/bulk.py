"""Submission of a batch in one transaction: jobs, items, their keys, and an operation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.db import transaction

from apps.accounts.core.principal import Principal
from apps.accounts.models import Project
from apps.common.core.errors import FieldProblem, TransientError
from apps.common.core.keyed_requests import KeyedRequest, KeyedResponse, body_digest
from apps.common.infrastructure.database import insert_prepared
from apps.common.infrastructure.request_id import current_request_id
from apps.operations.models import Operation
from apps.operations.selectors import stored_responses
from apps.operations.services import NewEvent, completed_operation, record_events, store_responses
from apps.workloads.api.representations import represent_batch
from apps.workloads.api.submission import Parsed, caller_as_user, job_url
from apps.workloads.models import Batch
from apps.workloads.services import NewJob, Submission, store_jobs, submitted_events

ITEM_ROUTE: Final = "POST /api/v1/jobs/#item"
_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class Bulk:
    """A parsed and checked batch request."""

    principal: Principal
    project: Project
    mode: str
    total: int
    parsed: Parsed
    items: Sequence[Any]
    defaults: Mapping[str, Any] | None = None


class _KeyTaken(Exception):  # noqa: N818 - control flow: rolls the attempt back
    pass


def submit_batch(bulk: Bulk) -> tuple[dict[str, Any], UUID]:
    """Insert the jobs of a batch; returns the response body and the id of the operation.

    An item whose client_id was used before is not submitted again: the response names its first
    job. If another request uses one of the keys at the same time, the attempt is rolled back and
    retried.
    """
    keyed = _keyed_items(bulk)
    for _ in range(_TRIES):
        try:
            # without keys of items, no attempt is rolled back alone
            with transaction.atomic(savepoint=bool(keyed)):
                return _attempt(bulk, keyed)
        except _KeyTaken:
            continue
    raise TransientError("Other requests are using the same client_ids; try again.")


def _attempt(bulk: Bulk, keyed: Mapping[int, KeyedRequest]) -> tuple[dict[str, Any], UUID]:
    known = stored_responses(bulk.principal.user_id, ITEM_ROUTE, [k.key for k in keyed.values()])
    replayed: dict[int, Any] = {}
    reused: dict[int, Any] = {}
    for i, key in keyed.items():
        if key.key in known:
            first, digest = known[key.key]
            is_same = digest == key.body_digest and _is_there(first, bulk.project)
            (replayed if is_same else reused)[i] = first
    fresh = [i for i in bulk.parsed.specs if i not in replayed and i not in reused]
    batch = Batch(
        project=bulk.project,
        created_by=caller_as_user(bulk.principal),
        mode=bulk.mode,
        total=bulk.total,
        accepted=len(fresh) + len(replayed),
    )
    submitted = store_jobs(
        [bulk.parsed.specs[i] for i in fresh],
        Submission(bulk.project, batch.created_by, current_request_id(), batch),
    )
    jobs = dict(zip(fresh, submitted, strict=True))
    batch.items = _items(bulk, jobs, replayed, reused)
    insert_prepared(batch)  # after its jobs: the reference is checked at the commit
    responses = [
        (keyed[i], _keyed_response(job, bulk.project)) for i, job in jobs.items() if i in keyed
    ]
    if store_responses(responses) != len(responses):
        raise _KeyTaken
    operation, events = _operation(bulk, batch)
    record_events([*submitted_events(submitted), *events])
    counts = {"replayed": len(replayed), "operation": str(operation.pk)}
    return represent_batch(batch) | counts, operation.pk


def _operation(bulk: Bulk, batch: Batch) -> tuple[Operation, list[NewEvent]]:
    rejected = batch.total - batch.accepted
    return completed_operation(
        kind="batch.submit",
        created_by=bulk.principal.user_id,
        project_id=bulk.project.pk,
        total=bulk.total,
        result={"batch": str(batch.pk), "accepted": batch.accepted, "rejected": rejected},
    )


def _keyed_items(bulk: Bulk) -> dict[int, KeyedRequest]:
    """Return the requests of the items with a client_id: the item and the batch's defaults."""
    # the digest stands for the defaults: they may hold an archive
    more = [body_digest(bulk.defaults).hex()] if bulk.defaults else []
    return {
        i: KeyedRequest(
            principal_id=bulk.principal.user_id,
            route=ITEM_ROUTE,
            key=spec.client_id,
            body_digest=body_digest([bulk.items[i], *more] if more else bulk.items[i]),
        )
        for i, spec in bulk.parsed.specs.items()
        if spec.client_id is not None
    }


def _keyed_response(job: NewJob, project: Project) -> KeyedResponse:
    response = {"job": str(job.id), "project": str(project.pk)}
    return KeyedResponse(status=201, location=job_url(job.id), response=response)


def _is_there(first: Mapping[str, Any], project: Project) -> bool:
    """Return True if the first job of a client_id is in a project, or if that is not stored."""
    return first.get("project") in {None, str(project.pk)}


def _items(
    bulk: Bulk,
    jobs: Mapping[int, NewJob],
    replayed: Mapping[int, Any],
    reused: Mapping[int, Any],
) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for i in range(bulk.total):
        spec = bulk.parsed.specs.get(i)
        item: dict[str, Any] = {"client_id": spec.client_id} if spec and spec.client_id else {}
        if i in jobs:
            item |= {"status": "accepted", "job": str(jobs[i].id)}
        elif i in replayed:
            item |= {"status": "replayed", "job": replayed[i]["job"]}
        else:
            problems = _KEY_REUSED if i in reused else bulk.parsed.problems[i]
            item |= {"status": "rejected", "problems": [_problem(p) for p in problems]}
        items.append(item)
    return items


_KEY_REUSED: Final = (
    FieldProblem("/client_id", "key_reused", "this client_id was already used for another job"),
)


def _problem(problem: FieldProblem) -> dict[str, str]:
    return {"pointer": problem.pointer, "code": problem.code, "detail": problem.detail}
