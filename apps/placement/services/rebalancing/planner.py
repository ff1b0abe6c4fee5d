"""Search for migrations that improve the placement of the running cluster; writes nothing."""

import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

import numpy as np

from apps.execution.core.migration import migration_s
from apps.inventory.core.snapshot import Ints
from apps.inventory.models import Server
from apps.inventory.selectors import cluster_now
from apps.placement.core.rebalancing.bound import bound, gap
from apps.placement.core.rebalancing.bundles import Bundle, BundlePurpose
from apps.placement.core.rebalancing.cluster import RunningCluster, metrics_json, objective_value
from apps.placement.core.rebalancing.executor import bundles_without_room
from apps.placement.core.rebalancing.planner import RebalancingResult, improve
from apps.placement.core.rebalancing.prediction import prediction
from apps.placement.core.solver.migrations import ContainerMigration
from apps.placement.models import (
    Activation,
    MigrationPurpose,
    PlanCause,
    PlannedMigration,
    RebalancingLoop,
)
from apps.placement.selectors import plans as selectors
from apps.placement.selectors.cluster import RebalancingScope, read_cluster
from apps.placement.selectors.objectives import effective_weights
from apps.placement.selectors.preferences import racks_in_scope
from apps.placement.services.rebalancing.plans import NewPlan

MAX_SEARCHES: Final = 2  # the second only if the first returns containers to where they were


@dataclass(frozen=True, slots=True)
class NoGain:
    """No plan is worth carrying out."""

    reason: str


def propose_plan(
    active: Activation,
    *,
    cause: PlanCause,
    settings: RebalancingLoop,
    by: UUID | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> NewPlan | NoGain:
    """Search for migrations that lower F by at least ``settings.least_gain``.

    Takes up to ``settings.solve_s`` per search, `MAX_SEARCHES` times.

    Parameters
    ----------
    active : weights and racks of the plan

    Raises
    ------
    ConflictError : the weights are limited to racks that no longer exist.
    """
    weights = effective_weights(active.weights)
    cluster = read_planning_cluster(settings, racks=racks_in_scope(active))
    may_return = cause is not PlanCause.LOOP
    outcome = _search(cluster, weights, settings, should_stop, may_return=may_return)
    outcome = _drop_infeasible_bundles(cluster, weights, outcome)
    gain = outcome.before - outcome.after
    if not outcome.bundles:
        return NoGain(_no_gain_reason(cluster))
    if gain < settings.least_gain:
        return NoGain(
            f"The {outcome.migration_count:,} migrations found lower F by {gain:.2g}; the minimum"
            f" gain of a plan is {settings.least_gain:.2g}."
        )
    return NewPlan(
        cause=cause,
        weights=weights,
        activation=active,
        migrations=planned_migrations(cluster, outcome.bundles),
        predicted=prediction_json(cluster, outcome, weights),
        gap=outcome.gap,
        gain=gain,
        seconds=outcome.seconds,
        snapshot=cluster.sequence,
        cluster_s=cluster.at_s,
        created_by=by,
    )


def read_planning_cluster(
    settings: RebalancingLoop, *, racks: Collection[str] = (), named: Collection[int] = ()
) -> RunningCluster:
    """Read the cluster; jobs too young, about to end or migrated too often are not movable.

    ``named`` : ids of allocations that somebody wants to migrate, as in `read_cluster`
    """
    since_s = cluster_now() - selectors.HOUR_S
    recent = selectors.plans_per_job(None, since_s=since_s)
    pinned = frozenset(job for job, plans in recent.items() if plans >= settings.moves_per_job)
    scope = RebalancingScope(frozenset(racks), settings.youngest_s, pinned)
    return read_cluster(scope=scope, named=named)


def _no_gain_reason(cluster: RunningCluster) -> str:
    movable = int(cluster.is_movable.sum())
    if not cluster.assignment.size:
        return "No running container can be migrated."
    if not movable:
        return (
            f"None of the {cluster.assignment.size:,} containers can be migrated now: their jobs"
            " are too young, about to end, held, constrained, or were migrated too often."
        )
    return f"No migration of the {movable:,} movable containers gains more than it costs."


def _search(
    cluster: RunningCluster,
    weights: Mapping[str, float],
    settings: RebalancingLoop,
    should_stop: Callable[[], bool],
    *,
    may_return: bool,
) -> RebalancingResult:
    """Search for bundles; unless containers may return, search again without those that would."""
    for _ in range(MAX_SEARCHES):
        outcome = improve(
            cluster,
            weights,
            clock=time.perf_counter,
            limit_s=settings.solve_s,
            max_migrations=settings.moves_per_plan,
            migration_cost=settings.migration,
            should_stop=should_stop,
        )
        returning = [] if may_return else returning_containers(cluster, outcome.bundles)
        if not returning:
            return outcome
        movable = cluster.is_movable.copy()
        movable[returning] = False
        cluster = replace(cluster, is_movable=movable)
    return replace(outcome, bundles=(), assignment=cluster.assignment, after=outcome.before)


def _drop_infeasible_bundles(
    cluster: RunningCluster, weights: Mapping[str, float], outcome: RebalancingResult
) -> RebalancingResult:
    """Drop bundles that do not fit on their target servers.

    The search assumes that a container needs on its target what it holds now. A job that requests
    no sizes gets equal shares of the target, which may be more.
    """
    migrations = planned_migrations(cluster, outcome.bundles)
    infeasible = bundles_without_room(
        selectors.capacity_steps(migrations), selectors.free_capacities(migrations)
    )
    if not infeasible:
        return outcome
    feasible = tuple(b for number, b in enumerate(outcome.bundles) if number not in infeasible)
    assignment = cluster.assignment.copy()
    for bundle in feasible:
        for step in bundle.migrations:
            assignment[step.container] = step.target
    return replace(
        outcome,
        bundles=feasible,
        assignment=assignment,
        after=objective_value(cluster, assignment, weights),
    )


def returning_containers(cluster: RunningCluster, bundles: Iterable[Bundle]) -> list[int]:
    """Return the containers that would go back to a server they left within the hour."""
    steps = [step for bundle in bundles for step in bundle.migrations]
    jobs = {UUID(cluster.job_id[cluster.job[step.container]]) for step in steps}
    left = selectors.recently_left_servers(jobs, since_s=cluster.at_s - selectors.HOUR_S)
    return [
        step.container
        for step in steps
        if int(cluster.server_id[step.target])
        in left.get(int(cluster.allocation_id[step.container]), ())
    ]


def planned_migrations(
    cluster: RunningCluster, bundles: Sequence[Bundle]
) -> list[PlannedMigration]:
    """Return the migrations of bundles as unsaved rows without a plan, numbered in order."""
    seconds = iter(
        _migration_seconds(cluster, [s for bundle in bundles for s in bundle.migrations])
    )
    migrations: list[PlannedMigration] = []
    for number, bundle in enumerate(bundles):
        names = cluster.server_name if bundle.purpose is BundlePurpose.EMPTY else cluster.job_name
        migrations += [
            PlannedMigration(
                ordinal=len(migrations) + place,
                bundle=number,
                purpose=MigrationPurpose(bundle.purpose.value),
                about=names[bundle.subject][:127],
                job_id=UUID(cluster.job_id[cluster.job[step.container]]),
                allocation_id=int(cluster.allocation_id[step.container]),
                from_server_id=int(cluster.server_id[step.source]),
                to_server_id=int(cluster.server_id[step.target]),
                units=int(cluster.size[step.container]),
                gain=bundle.gain,
                predicted_s=next(seconds),
            )
            for place, step in enumerate(bundle.migrations)
        ]
    return migrations


def _migration_seconds(
    cluster: RunningCluster, steps: Sequence[ContainerMigration]
) -> list[float]:
    """Return the cluster seconds for which each container is stopped during its migration."""
    network = _network(cluster, (server for x in steps for server in (x.source, x.target)))
    memory = cluster.demand[:, 0]
    return [
        migration_s(float(memory[x.container]), network[x.source], network[x.target])
        for x in steps
    ]


def _network(cluster: RunningCluster, servers: Iterable[int]) -> dict[int, float]:
    """Return the network bandwidth of servers in bits/s, by index."""
    index = {int(cluster.server_id[server]): server for server in set(servers)}
    rows = Server.objects.filter(pk__in=index).values_list("pk", "network_bps")
    return {index[pk]: float(bps) for pk, bps in rows}


# ---- existing plans ----


class StalePlanError(LookupError):
    """No container of a plan is where it was."""


@dataclass(frozen=True, slots=True)
class PlanPrediction:
    """Predicted effect of migrations on the cluster as it is now.

    Attributes
    ----------
    predicted, gap, snapshot, cluster_s : see `models.Plan`
    gain : of F
    """

    predicted: dict[str, Any]
    gap: float
    gain: float
    snapshot: int
    cluster_s: float


def predict_effect(
    weights: Mapping[str, float], migrations: Sequence[PlannedMigration]
) -> PlanPrediction:
    """Predict the effect of migrations on the cluster as it is now, without missing containers.

    Raises
    ------
    StalePlanError : all of their containers ended or moved.
    """
    cluster = read_cluster(named=[migration.allocation_id for migration in migrations])
    held = set(cluster.allocation_id.tolist())
    possible = [migration for migration in migrations if migration.allocation_id in held]
    if migrations and not possible:
        raise StalePlanError("all of its containers ended or moved")
    return predict_migrations(cluster, weights, possible)


def predict_migrations(
    cluster: RunningCluster,
    weights: Mapping[str, float],
    migrations: Sequence[PlannedMigration],
) -> PlanPrediction:
    """Predict the effect of migrations, all of containers of the cluster."""
    index = {int(pk): i for i, pk in enumerate(cluster.allocation_id)}
    server = {int(pk): i for i, pk in enumerate(cluster.server_id)}
    assignment, steps = cluster.assignment.copy(), list[ContainerMigration]()
    for migration in migrations:
        container, to = index[migration.allocation_id], server[migration.to_server_id]
        steps.append(ContainerMigration(container, int(assignment[container]), to))
        assignment[container] = to
    outcome = _outcome(cluster, assignment, steps, dict(weights))
    return PlanPrediction(
        predicted=prediction_json(cluster, outcome, weights),
        gap=outcome.gap,
        gain=outcome.before - outcome.after,
        snapshot=cluster.sequence,
        cluster_s=cluster.at_s,
    )


def _outcome(
    cluster: RunningCluster,
    assignment: Ints,
    steps: Sequence[ContainerMigration],
    weights: dict[str, float],
) -> RebalancingResult:
    """Return given migrations in the form of a search result."""
    before, after = (
        objective_value(cluster, cluster.assignment, weights),
        objective_value(cluster, assignment, weights),
    )
    lower = bound(cluster, weights)
    return RebalancingResult(
        bundles=(Bundle(BundlePurpose.IMPROVE, 0, tuple(steps), before - after),),
        assignment=assignment,
        before=before,
        after=after,
        bound=lower,
        gap=gap(after, lower, weights),
        seconds=0.0,
        is_complete=False,
    )


def measure_effect(
    weights: Mapping[str, float], previous: Mapping[int, int]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Measure the cluster as it is, and as it would be with containers on their previous servers.

    Parameters
    ----------
    previous : allocation id -> previous server id; missing containers are ignored

    Returns
    -------
    Measures of the cluster as it is, and with the containers put back.
    """
    cluster = read_cluster(named=list(previous))
    server = {int(pk): i for i, pk in enumerate(cluster.server_id)}
    assignment = cluster.assignment.copy()
    for place in np.flatnonzero(np.isin(cluster.allocation_id, list(previous))):
        assignment[place] = server[previous[int(cluster.allocation_id[place])]]
    by_name = dict(weights)
    return metrics_json(cluster, cluster.assignment, by_name), metrics_json(
        cluster, assignment, by_name
    )


def prediction_json(
    cluster: RunningCluster, outcome: RebalancingResult, weights: Mapping[str, float]
) -> dict[str, Any]:
    """Return the predicted effect of a plan as JSON."""
    return prediction(
        cluster, outcome.assignment, weights, seconds=math.fsum(downtimes(cluster, outcome))
    )


def downtimes(cluster: RunningCluster, outcome: RebalancingResult) -> list[float]:
    """Return the cluster seconds for which each migration stops its container, in order."""
    steps = [step for bundle in outcome.bundles for step in bundle.migrations]
    return _migration_seconds(cluster, steps)
