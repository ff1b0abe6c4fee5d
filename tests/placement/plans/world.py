"""A small cluster to re-place: three servers of four units, jobs on them, weights in force."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import numpy as np

from apps.accounts.models import User
from apps.classification.core.matrix import MatrixName, columns_of
from apps.classification.models import Profile
from apps.classification.selectors import cells_of
from apps.common.core.interference import N_SOURCES
from apps.execution.core.migration import MoveOutcome
from apps.execution.models import Migration, MigrationState
from apps.execution.move_reports import Said, take_move_reports
from apps.inventory.models import Cluster, Server
from apps.placement.models import (
    Activation,
    Cause,
    Move,
    MoveState,
    Plan,
    PreferenceSet,
    Purpose,
)
from apps.placement.selectors.preferences import weights_in_force
from apps.placement.services.plans import NewMove, NewPlan, write_plan
from apps.scheduling.models import Allocation
from apps.scheduling.services import release
from apps.workloads.models import Application, Job
from tests import factories
from tests.classification.core.profiles import profile as believed

WEIGHTS = {"P": 1.0, "D": 0.2, "C": 0.4}
NOW_S = 7200.0
BEGINNING = 0  # change-log number before anything the tests do
BEFORE = {"watts": 300.0, "diversity": 0.0, "crossing": 0, "servers_on": 3, "F": 0.4}
AFTER = {"watts": 200.0, "diversity": 0.0, "crossing": 0, "servers_on": 2, "F": 0.3}


def servers() -> list[Server]:
    """s0, s1, s2: 4 units each, two racks, 40 W idle and 120 W full."""
    factories.cluster(seen_cluster_s=NOW_S)
    kind = factories.platform("J", cores=4)
    return [factories.server(f"s{i}", of=kind, rack=f"rack-{i % 2}") for i in range(3)]


def pass_time(seconds: float) -> float:
    """Let cluster time pass; the time then."""
    row = Cluster.objects.get(pk=1)
    factories.cluster(seen_cluster_s=row.seen_cluster_s + seconds)
    return row.seen_cluster_s + seconds


def know(about: Application) -> None:
    """A profile of something that minds no neighbours and is minded by none."""
    quiet, calm = np.ones(N_SOURCES), np.full(N_SOURCES, 99.0)
    belief = replace(
        believed(kind=about.kind, speeds=(1.0,)),
        caused=quiet, caused_low=quiet, caused_high=quiet,
        tolerated=calm, tolerated_low=calm, tolerated_high=calm,
    )  # fmt: skip
    columns = {name: columns_of(name, ("J",)) for name in MatrixName}
    Profile.objects.create(
        application=about,
        number=1,
        revision=belief.revision,
        estimator="test",
        cells=cells_of(belief, factories.known_of(belief, columns), columns),
    )


def running(name: str, *parts: tuple[Server, int], **values: object) -> Job:
    """A job that runs on some units of some servers."""
    application = factories.application()
    know(application)
    defaults = {"started_s": 3600.0, "progress": 0.1}
    job = factories.job(name, state="running", application=application, **{**defaults, **values})
    factories.launch(job, order={"parts": [[server.pk, units] for server, units in parts]})
    for server, units in parts:
        there = Server.objects.get(pk=server.pk)  # as others have left it
        factories.allocation(job, there, cores=units, acquired_seq=BEGINNING)
    return job


def allocation_of(job: Job) -> Allocation:
    """The one container of a job."""
    live = Allocation.objects.filter(job=job, released_seq__isnull=True)
    return live.exclude(moved_from__isnull=False, moved_s__isnull=True).get()


def activated(by: User, weights: dict[str, float] | None = None, **values: object) -> Activation:
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
    """No weights are in force."""
    Activation.objects.all().delete()


def new_move(place: int, job: Job, to: Server, *, bundle: int | None = None) -> NewMove:
    """A move of the one container of a job."""
    held = allocation_of(job)
    return NewMove(
        ordinal=place,
        bundle=place if bundle is None else bundle,
        purpose=Purpose.EMPTY,
        about="s0",
        job_id=job.pk,
        allocation_id=held.pk,
        from_server_id=held.server_id,
        to_server_id=to.pk,
        units=held.cores,
        gain=0.05,
        predicted_s=2.0,
    )


def new_plan(moves: Sequence[NewMove], **values: object) -> NewPlan:
    """A plan by the weights in force."""
    defaults: dict[str, object] = {
        "cause": Cause.REQUEST,
        "weights": WEIGHTS,
        "activation": weights_in_force(),
        "predicted": {"before": BEFORE, "after": AFTER, "moves": len(moves)},
        "gap": 0.02,
        "gain": 0.1,
        "seconds": 0.5,
        "snapshot": BEGINNING,
        "cluster_s": NOW_S,
    }
    return NewPlan(moves=moves, **{**defaults, **values})  # type: ignore[arg-type]  # by name


def written(*moves: NewMove, approve: bool = False, **values: object) -> Plan:
    """A plan that was written down."""
    return write_plan(new_plan(moves, **values), approve=approve)


def planned(by: User, job: Job) -> Plan:
    """A plan, by weights that come into force, to move a job that is there to another server."""
    activated(by)
    taken = allocation_of(job).server_id
    return written(new_move(0, job, Server.objects.exclude(pk=taken).order_by("pk")[0]))


def states(plan: Plan) -> list[str]:
    """The states of a plan's moves, in order."""
    return list(plan.moves.order_by("ordinal").values_list("state", flat=True))


def move(plan: Plan, place: int) -> Move:
    """One move of a plan."""
    return Move.objects.get(plan=plan, ordinal=place)


def open_migrations() -> list[Migration]:
    """Migrations asked for and not ended, oldest first."""
    return list(
        Migration.objects.filter(
            state__in=[MigrationState.REQUESTED, MigrationState.RUNNING]
        ).order_by("pk")
    )


def take_up_migrations() -> None:
    """Let the backend take up the migrations asked for: they cannot be recalled any more."""
    Migration.objects.filter(state=MigrationState.REQUESTED).update(claimed_by="backend")


def end_migrations(
    outcome: MoveOutcome = MoveOutcome.DONE, message: str = "", *, only: int | None = None
) -> int:
    """Let the backend report on the open migrations; how many."""
    found = [one for one in open_migrations() if only is None or one.pk == only]
    at_s = Cluster.objects.get(pk=1).seen_cluster_s
    take_move_reports([Said(one.pk, at_s, outcome, message) for one in found])
    return len(found)


def end_job(job: Job) -> None:
    """Let a job succeed: its units are free again."""
    release([job.pk])
    Job.objects.filter(pk=job.pk).update(
        state="succeeded", finished_s=NOW_S, finished_at=factories.MOMENT
    )


def count(plan_id: UUID, state: MoveState) -> int:
    """How many moves of a plan are in a state."""
    return Move.objects.filter(plan_id=plan_id, state=state).count()
