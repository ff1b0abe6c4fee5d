"""A small cluster to rebalance: three servers of four units, jobs and weights in force."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import numpy as np

from apps.accounts.models import User
from apps.classification.core.matrix import MatrixName, columns_of
from apps.classification.models import Profile
from apps.classification.selectors import cells_of
from apps.common.core.interference import N_SOURCES
from apps.execution.core.migration import MigrationOutcome, MigrationReport
from apps.execution.models import Migration, MigrationState
from apps.execution.services.migration_reports import record_migration_reports
from apps.inventory.models import Cluster, Server
from apps.placement.models import (
    Activation,
    MigrationPurpose,
    Plan,
    PlanCause,
    PlannedMigration,
    PlannedMigrationState,
    PreferenceSet,
)
from apps.placement.selectors.preferences import weights_in_force
from apps.placement.services.rebalancing.plans import NewPlan, write_plan
from apps.scheduling.models import Allocation
from apps.scheduling.services import release
from apps.workloads.models import Application, Job
from tests import factories
from tests.classification.core.profiles import exact
from tests.classification.core.profiles import profile as believed

WEIGHTS = {"P": 1.0, "D": 0.2, "C": 0.4}
NOW_S = 7200.0
BEGINNING = 0  # change-log number before all changes of the tests
BEFORE = {"watts": 300.0, "diversity": 0.0, "crossing": 0, "servers_on": 3, "F": 0.4}
AFTER = {"watts": 200.0, "diversity": 0.0, "crossing": 0, "servers_on": 2, "F": 0.3}


def servers() -> list[Server]:
    """s0, s1, s2: 4 units each, two racks, 40 W idle and 120 W full."""
    factories.cluster(seen_cluster_s=NOW_S)
    kind = factories.platform("J", cores=4)
    return [factories.server(f"s{i}", of=kind, rack=f"rack-{i % 2}") for i in range(3)]


def pass_time(seconds: float) -> float:
    """Advance cluster time; returns it."""
    row = Cluster.objects.get(pk=1)
    factories.cluster(seen_cluster_s=row.seen_cluster_s + seconds)
    return row.seen_cluster_s + seconds


def give_profile(about: Application) -> None:
    """Give an application a profile without any interference."""
    belief = replace(
        believed(kind=about.kind, speeds=(1.0,)),
        caused=exact(np.ones(N_SOURCES)),
        tolerated=exact(np.full(N_SOURCES, 99.0)),
    )
    columns = {name: columns_of(name, ("J",)) for name in MatrixName}
    Profile.objects.create(
        application=about,
        number=1,
        revision=belief.revision,
        estimator="test",
        cells=cells_of(belief, factories.known_of(belief, columns), columns),
    )


def running_job(name: str, *parts: tuple[Server, int], **values: object) -> Job:
    """A job that runs on some units of some servers."""
    application = factories.application()
    give_profile(application)
    defaults = {"started_s": 3600.0, "progress": 0.1}
    job = factories.job(name, state="running", application=application, **{**defaults, **values})
    factories.launch(job, order={"parts": [[server.pk, units] for server, units in parts]})
    for server, units in parts:
        there = Server.objects.get(pk=server.pk)  # with the current usage
        factories.allocation(job, there, cores=units, acquired_seq=BEGINNING)
    return job


def allocation_of(job: Job) -> Allocation:
    """The only container of a job."""
    live = Allocation.objects.filter(job=job, released_seq__isnull=True)
    return live.exclude(moved_from__isnull=False, moved_s__isnull=True).get()


def activate(by: User, weights: dict[str, float] | None = None, **values: object) -> Activation:
    """Weights that are in force from now on."""
    chosen = WEIGHTS if weights is None else weights
    preferences = PreferenceSet.objects.create(
        name=f"set {factories.number()}", rule="direct", weights=chosen, created_by=by
    )
    return Activation.objects.create(
        preference_set=preferences,
        weights=chosen,
        message="try",
        created_by=by,
        cluster_s=NOW_S,
        **values,
    )


def deactivate() -> None:
    """Remove all activations."""
    Activation.objects.all().delete()


def new_migration(
    place: int, job: Job, to: Server, *, bundle: int | None = None, **values: object
) -> PlannedMigration:
    """An unsaved migration of the only container of a job."""
    held = allocation_of(job)
    defaults: dict[str, object] = {
        "ordinal": place,
        "bundle": place if bundle is None else bundle,
        "purpose": MigrationPurpose.EMPTY,
        "about": "s0",
        "job_id": job.pk,
        "allocation_id": held.pk,
        "from_server_id": held.server_id,
        "to_server_id": to.pk,
        "units": held.cores,
        "gain": 0.05,
        "predicted_s": 2.0,
    }
    return PlannedMigration(**{**defaults, **values})


def new_plan(moves: Sequence[PlannedMigration], **values: object) -> NewPlan:
    """An unwritten plan for the weights in force."""
    defaults: dict[str, object] = {
        "cause": PlanCause.REQUEST,
        "weights": WEIGHTS,
        "activation": weights_in_force(),
        "predicted": {"before": BEFORE, "after": AFTER, "moves": len(moves)},
        "gap": 0.02,
        "gain": 0.1,
        "seconds": 0.5,
        "snapshot": BEGINNING,
        "cluster_s": NOW_S,
    }
    return NewPlan(migrations=moves, **{**defaults, **values})  # type: ignore[arg-type]  # by name


def create_plan(*moves: PlannedMigration, approve: bool = False, **values: object) -> Plan:
    """A written plan for the weights in force."""
    return write_plan(new_plan(moves, **values), approve=approve)


def plan_to_move(by: User, job: Job) -> Plan:
    """A plan that migrates a job, for newly activated weights."""
    activate(by)
    source = allocation_of(job).server_id
    return create_plan(new_migration(0, job, Server.objects.exclude(pk=source).order_by("pk")[0]))


def states(plan: Plan) -> list[str]:
    """The states of a plan's migrations, in order."""
    return list(plan.migrations.order_by("ordinal").values_list("state", flat=True))


def planned_migration(plan: Plan, place: int) -> PlannedMigration:
    """One migration of a plan."""
    return PlannedMigration.objects.get(plan=plan, ordinal=place)


def open_migrations() -> list[Migration]:
    """Open migrations, oldest first."""
    return list(
        Migration.objects.filter(
            state__in=[MigrationState.REQUESTED, MigrationState.RUNNING]
        ).order_by("pk")
    )


def claim_migrations() -> None:
    """Claim the requested migrations as the backend; they can no longer be cancelled."""
    Migration.objects.filter(state=MigrationState.REQUESTED).update(claimed_by="backend")


def finish_migrations(
    outcome: MigrationOutcome = MigrationOutcome.DONE,
    message: str = "",
    *,
    only: int | None = None,
) -> int:
    """Report on the open migrations as the backend; return their number."""
    migrations = [
        migration for migration in open_migrations() if only is None or migration.pk == only
    ]
    at_s = Cluster.objects.get(pk=1).seen_cluster_s
    record_migration_reports(
        [MigrationReport(migration.pk, at_s, outcome, message) for migration in migrations]
    )
    return len(migrations)


def end_job(job: Job) -> None:
    """End a job successfully; its units are released."""
    release([job.pk])
    Job.objects.filter(pk=job.pk).update(
        state="succeeded", finished_s=NOW_S, finished_at=factories.MOMENT
    )


def count(plan_id: UUID, state: PlannedMigrationState) -> int:
    """The number of migrations of a plan in a state."""
    return PlannedMigration.objects.filter(plan_id=plan_id, state=state).count()
