"""A cluster with one private project: its objects, their ids, and callers of every kind."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final
from urllib.parse import quote
from uuid import UUID

from django.core.cache import cache
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from apps.accounts.core.roles import Role
from apps.accounts.models import AuditEntry, Project, SignInFailures, User
from apps.accounts.services import create_token, join_project
from apps.classification.models import Drift, Override, PredictionError
from apps.common.core.ids import uuid7
from apps.execution.models import Migration, ServerAgent
from apps.inventory.models import Server
from apps.operations.models import Operation
from apps.operations.services import NewEvent, record_events
from apps.placement.models import CurveObjective
from apps.placement.services.rebalancing.previews import open_preview
from apps.profiling.models import ProfilingRun, ReportKey
from apps.scheduling.models import Decision
from apps.workloads.models import Application, Batch, Job
from tests import factories
from tests.permissions.rules import WITHOUT_SESSION, Who
from tests.placement import rebalancing_world as world
from tests.placement.front_world import searched_front
from tests.scheduling import shadow_rows
from tests.testbed import lab_world
from tests.workloads import archives

MARKER: Final = "zq-secret"  # in every text of the project
APPLICATION: Final = "shared-app"


@dataclass(frozen=True, slots=True)
class Scene:
    """The objects to request, what identifies the private ones, and the callers.

    Attributes
    ----------
    arguments : value of each placeholder; of a route, by the word before its placeholder
    secrets : texts that only those who see the project may find
    operator : owner of the preview
    """

    arguments: dict[str, str | int]
    secrets: frozenset[str]
    operator: UUID
    clients: Mapping[Who, Client] = field(default_factory=dict)

    def filled(self, text: str) -> str:
        """Return a text with its placeholders replaced."""
        for name, value in self.arguments.items():
            text = text.replace(f"{{{name}}}", str(value))
        return text

    def body(self, template: Any) -> str:
        """Return a JSON body with its placeholders replaced; numbers stay numbers."""
        text = json.dumps(template)
        for name, value in self.arguments.items():
            if isinstance(value, int):
                text = text.replace(f'"{{{name}}}"', str(value))
        return self.filled(text)

    def address(self, pattern: str, *, query: str = "") -> str:
        """Return the address of a route for the private objects."""
        parts, last = [], ""
        for part in pattern.split("/"):
            known = self.arguments[last] if part.startswith("<") else part
            parts.append(quote(str(known)))
            last = part
        address = "/" + "/".join(parts)
        if address.startswith("/api/v1"):
            address = address.rstrip("/") + "/"
        return f"{address}?{quote(self.filled(query), safe='=&')}" if query else address

    def empty_cache(self) -> None:
        """Empty the cache, and open the preview again, which is nowhere else."""
        cache.clear()
        self.arguments["previews"] = str(open_preview(self.operator))


def build_scene() -> Scene:
    """Return the scene; takes some seconds."""
    users = _users()
    member, operator = users[Who.MEMBER], users[Who.OPERATOR]
    project = Project.objects.get(name=f"{MARKER}-project")
    servers = world.servers()
    revision = factories.library(("J",))
    application = factories.application(APPLICATION)
    factories.profile(application)
    job = _running_job(application, project, member, servers)
    waiting = _queued_job(application, project, member)
    batch = Batch.objects.create(
        project=project,
        created_by=member,
        total=1,
        accepted=1,
        items=[{"status": "created", "job": str(job.pk), "client_id": f"{MARKER}-item"}],
    )
    Job.objects.filter(pk=job.pk).update(batch=batch)
    array = Batch.objects.create(
        project=project, created_by=member, mode="array", total=1, accepted=1,
        name=f"{MARKER}-array", array_indexes="0",
    )  # fmt: skip
    operation = Operation.objects.create(
        kind="batch.submit", created_by=member, project_id=project.pk, status="failed",
        message=f"{MARKER}-operation", finished_at=timezone.now(),
    )  # fmt: skip
    record_events([NewEvent("jobs", "job.updated", str(job.pk), {"name": job.name}, project.pk)])
    decision = Decision.objects.filter(job=job).latest("at")
    token = create_token(user=member, name=f"{MARKER}-token").token
    shared = _shared_objects(application, operator, job, servers)
    ServerAgent.objects.create(name=servers[0].name, digest=b"of the scene")
    arguments: dict[str, str | int] = {
        "tokens": str(token.pk),
        "sessions": str(uuid7()),  # of nobody
        "users": member.username,
        "members": member.username,
        "projects": project.name,
        "blocked-sign-ins": str(_blocked_sign_in().pk),
        "audit": AuditEntry.objects.latest("id").pk,
        "operations": str(operation.pk),
        "jobs": str(job.pk),
        "batches": str(batch.pk),
        "arrays": str(array.pk),
        "decisions": str(decision.pk),
        "servers": servers[0].name,
        "agents": servers[0].name,
        "applications": application.name,
        "application": application.name,
        "project": project.name,
        "revisions": revision,
        "preemptions": factories.preemption_proposal(waiting, job).pk,
        "jobs_of_project": Job.objects.filter(project=project).count(),
        **shared,
    }
    private = [token, operation, job, waiting, batch, array, decision, project]
    return Scene(
        arguments,
        frozenset({MARKER, *(str(row.pk) for row in private)}),
        operator.pk,
        _clients(users),
    )


def _users() -> dict[Who, User]:
    project = factories.project(f"{MARKER}-project")
    elsewhere = factories.project("elsewhere")
    users = {
        Who.NEWCOMER: factories.user("newcomer", role=Role.VIEWER),
        Who.OUTSIDER: factories.user("outsider", role=Role.VIEWER),
        Who.READER: factories.user(f"{MARKER}-reader", role=Role.VIEWER),
        Who.VISITOR: factories.user("visitor", role=Role.VIEWER),
        Who.MEMBER: factories.user(f"{MARKER}-member", role=Role.VIEWER),
        Who.OPERATOR: factories.user("operator", role=Role.OPERATOR),
        Who.ADMIN: factories.user("admin", role=Role.ADMIN),
    }
    for who, of, role in (
        (Who.OUTSIDER, elsewhere, Role.ADMIN),
        (Who.READER, project, Role.VIEWER),
        (Who.VISITOR, project, Role.VIEWER),
        (Who.VISITOR, elsewhere, Role.SUBMITTER),
        (Who.MEMBER, project, Role.SUBMITTER),
    ):
        join_project(user=users[who], project=of, role=role)
    return users | {
        Who.LIMITED_MEMBER: users[Who.MEMBER],
        Who.LIMITED_OPERATOR: users[Who.OPERATOR],
    }


def _blocked_sign_in() -> SignInFailures:
    now = timezone.now()
    return SignInFailures.objects.create(
        subject="address", key="192.0.2.1", failures=30, failed_at=now,
        blocked_until=now + timedelta(hours=1),
    )  # fmt: skip


def _clients(users: Mapping[Who, User]) -> dict[Who, Client]:
    clients: dict[Who, Client] = {Who.ANONYMOUS: Client(raise_request_exception=False)}
    for who, user in users.items():
        client = APIClient(raise_request_exception=False)
        if who in WITHOUT_SESSION:
            secret = create_token(user=user, name="limited", role=Role.VIEWER).secret
            client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
            client.get("/api/v1/me/")  # records the first use of the token
        else:
            client.force_login(user)
        clients[who] = client
    return clients


def _running_job(
    application: Application, project: Project, member: User, servers: list[Server]
) -> Job:
    job = factories.job(
        f"{MARKER}-job",
        state="running",
        application=application,
        project=project,
        created_by=member,
        started_s=3600.0,
        attainment=0.3,
        labels={"team": f"{MARKER}-label"},
        annotations={"note": f"{MARKER}-note"},
        reason_message=f"{MARKER}-reason",
        files=archives.archive({f"{MARKER}-file": b"of the project"}),
    )
    source, target = servers[0], servers[2]
    candidates = [factories.candidate(source, verdict="chosen"), factories.candidate(target)]
    decision = factories.decision(job, candidates=candidates, at=timezone.now())
    held = factories.allocation(job, source, cores=2, by=decision, acquired_seq=world.BEGINNING)
    reserved = factories.allocation(
        job, target, cores=2, by=decision, moved_from=held.pk, acquired_seq=world.BEGINNING
    )
    launch = factories.launch(
        job, order={"parts": [[source.pk, 2]]}, message=f"{MARKER}-launch", claimed_by="e1"
    )
    factories.sample(job, 7000.0, attainment=0.3)
    Migration.objects.create(
        job=job, launch=launch, source_allocation_id=held.pk, target_allocation_id=reserved.pk,
        from_server_id=source.pk, to_server_id=target.pk, units=2, predicted_s=2.0,
        requested_s=7000.0, reason_code="PlanMove", message=f"{MARKER}-migration",
    )  # fmt: skip
    PredictionError.objects.create(
        application=application, job=job, profile=application.profiles.get(), number=1,
        cluster_s=7000.0, predicted=1.0, measured=0.5, deviation=0.1,
    )  # fmt: skip
    return job


def _queued_job(application: Application, project: Project, member: User) -> Job:
    job = factories.job(
        f"{MARKER}-queued",
        application=application,
        project=project,
        created_by=member,
        reason_code="CapacityShort",
        reason_message=f"{MARKER}-reason",
    )
    factories.decision(job, outcome="refused", at=timezone.now() - timedelta(seconds=1))
    failed = factories.job(
        f"{MARKER}-failed", state="failed", application=application, project=project,
        created_by=member,
    )  # fmt: skip
    factories.decision(failed, at=timezone.now() - timedelta(seconds=2))
    return job


def _runs_of_project(application: Application, job: Job) -> ProfilingRun:
    """Return a run that failed; another one is under way."""
    texts = {"reason": f"{MARKER}-run", "project_id": job.project_id}
    operation = Operation.objects.create(
        kind="profiling", status="running", total=4, progress=1, project_id=job.project_id,
        message=f"{MARKER}-stressor",
    )  # fmt: skip
    factories.profiling_run(application, **texts, state="running", operation=operation)
    return factories.profiling_run(
        application, **texts, state="failed", message=f"{MARKER}: no such file"
    )


def _shared_objects(
    application: Application, operator: User, job: Job, servers: list[Server]
) -> dict[str, str | int]:
    """Return ids of the objects that all projects share."""
    Drift.objects.create(
        application=application, observations=9, mean_error=-0.3, flagged_s=6900.0
    )
    override = Override.objects.create(
        application=application, matrix="tolerated", column="cpu", value=50.0,
        cluster_s=7000.0, reason="wrong", created_by=operator,
    )  # fmt: skip
    run = _runs_of_project(application, job)
    factories.measurement(application, matrix="tolerated", column="cpu", run=run)
    activation = world.activate(operator)
    plan = world.create_plan(
        world.new_migration(0, job, servers[1], about=job.name, message=f"{MARKER}-step")
    )
    front = searched_front(operator)
    objective = CurveObjective.objects.create(
        name="price", label="Price", hours=[24.0], curve={"": [0.2]}, weight=0.0,
        created_by=operator,
    )  # fmt: skip
    comparison = lab_world.comparison(by=operator, name=f"{MARKER}-comparison")
    pair = factories.measured_pair()
    shadow = shadow_rows.shadow()
    shadow_rows.shadow_decision(shadow, Decision.objects.filter(job=job).latest("at"))
    return {
        "shadows": str(shadow.pk),
        "scenarios": str(comparison.scenario_id),
        "comparisons": str(comparison.pk),
        "lab": str(comparison.pk),
        "measured-pairs": str(pair.pk),
        "report-keys": str(ReportKey.objects.create(name="workshop", secret=b"k" * 32).pk),
        "pairs": str(pair.pk),
        "platforms": servers[0].platform_id,
        "profiling-runs": str(run.pk),
        "overrides": str(override.pk),
        "matrices": "tolerated",
        "plans": str(plan),
        "previews": str(open_preview(operator.pk)),
        "objectives": objective.name,
        "fronts": str(front.pk),
        "points": 0,
        "preference-sets": str(activation.preference_set_id),
        "activations": activation.pk,
    }
