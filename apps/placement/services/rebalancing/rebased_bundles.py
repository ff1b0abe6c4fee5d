"""What becomes of the bundles of a plan on the cluster as it is; writes nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from apps.inventory.selectors import server_names
from apps.placement.core.rebalancing.bundles import BundleCandidate, BundlePurpose
from apps.placement.core.rebalancing.cluster import RunningCluster
from apps.placement.core.rebalancing.executor import bundles_without_room
from apps.placement.core.rebalancing.rebase import (
    ChangeCause,
    PlannedBundle,
    RebasedBundle,
    RebasedBundles,
    rebase,
)
from apps.placement.core.solver.migrations import ContainerMigration
from apps.placement.models import (
    Plan,
    PlanCause,
    PlannedMigration,
)
from apps.placement.selectors import plans as selectors
from apps.placement.selectors.preferences import racks_in_scope
from apps.placement.services.rebalancing.planner import (
    PlanPrediction,
    planned_migrations,
    predict_migrations,
    read_planning_cluster,
    returning_containers,
)
from apps.placement.services.rebalancing.plans import counted
from apps.workloads.core.lifecycle import ACTIVE_STATES

_MAX_NAMED: Final = 2  # containers named in a reason


@dataclass(frozen=True, slots=True)
class BundleOutcome:
    """What becomes of a bundle; dropped if it has no rows.

    Attributes
    ----------
    kept : rows that stay
    new : unsaved rows that replace all others
    reason : why it was rewritten or dropped; "" = kept as it was
    """

    number: int
    kept: tuple[PlannedMigration, ...] = ()
    new: tuple[PlannedMigration, ...] = ()
    reason: str = ""

    @property
    def rows(self) -> tuple[PlannedMigration, ...]:
        """All migrations of the bundle from now on."""
        return self.kept + self.new


@dataclass(frozen=True, slots=True)
class RebasedPlan:
    """The result of a re-base, not stored yet."""

    outcomes: tuple[BundleOutcome, ...]
    prediction: PlanPrediction | None


def rebased_plan(plan: Plan, rows: Sequence[PlannedMigration]) -> RebasedPlan:
    """Re-base the waiting migrations of a plan on the cluster as it is; writes nothing.

    Parameters
    ----------
    rows : in order, with their jobs

    Raises
    ------
    ConflictError : the weights are limited to racks that no longer exist.
    """
    settings = selectors.loop_settings()
    racks = [] if plan.activation is None or plan.is_named else racks_in_scope(plan.activation)
    named = [row.allocation_id for row in rows] if plan.is_named else []
    cluster = read_planning_cluster(settings, racks=racks, named=named)
    by_bundle = _by_bundle(rows)
    if plan.is_named:
        outcomes = _named_outcomes(cluster, by_bundle)
    else:
        limits = {
            "max_migrations": settings.moves_per_plan,
            "migration_cost": settings.migration,
        }
        outcomes = _outcomes(plan, cluster, by_bundle, limits)
    _number_new_rows(outcomes, selectors.last_ordinal(plan.pk))
    outcomes = _without_room(outcomes)
    left = sorted((row for o in outcomes for row in o.rows), key=lambda row: row.ordinal)
    prediction = predict_migrations(cluster, plan.weights, left) if left else None
    return RebasedPlan(tuple(outcomes), prediction)


def _by_bundle(rows: Sequence[PlannedMigration]) -> dict[int, list[PlannedMigration]]:
    bundles: dict[int, list[PlannedMigration]] = {}
    for row in rows:
        bundles.setdefault(row.bundle, []).append(row)
    return bundles


def _named_outcomes(
    cluster: RunningCluster, by_bundle: Mapping[int, list[PlannedMigration]]
) -> list[BundleOutcome]:
    """Drop the containers that ended or moved; the others are migrated at any cost."""
    held = set(cluster.allocation_id.tolist())
    return [
        BundleOutcome(
            number,
            kept=tuple(row for row in rows if row.allocation_id in held),
            reason=_gone_reason([row for row in rows if row.allocation_id not in held]),
        )
        for number, rows in by_bundle.items()
    ]


def _outcomes(
    plan: Plan,
    cluster: RunningCluster,
    by_bundle: Mapping[int, list[PlannedMigration]],
    limits: Mapping[str, Any],
) -> list[BundleOutcome]:
    """Re-base the bundles; again without the containers that would return, for the loop."""
    planned = [_planned(cluster, number, rows) for number, rows in by_bundle.items()]
    result = rebase(cluster, plan.weights, planned, **limits)
    if plan.cause == PlanCause.LOOP:
        built = [rebased.bundle for rebased in result.bundles if rebased.bundle is not None]
        if returning := returning_containers(cluster, built):
            movable = cluster.is_movable.copy()
            movable[returning] = False
            fixed = replace(cluster, is_movable=movable)
            result = rebase(fixed, plan.weights, planned, **limits)
    return _as_rows(cluster, result, by_bundle)


def _planned(
    cluster: RunningCluster, number: int, rows: Sequence[PlannedMigration]
) -> PlannedBundle:
    """Return a bundle in the indices of the present cluster."""
    container = {int(pk): i for i, pk in enumerate(cluster.allocation_id)}
    server = {int(pk): i for i, pk in enumerate(cluster.server_id)}
    steps = tuple(
        ContainerMigration(
            container[row.allocation_id], server[row.from_server_id], server[row.to_server_id]
        )
        for row in rows
        if row.allocation_id in container and row.to_server_id in server
    )
    return PlannedBundle(
        number,
        _candidate(cluster, rows, steps),
        steps,
        missing=len(rows) - len(steps),
        gain=rows[0].gain,
    )


def _candidate(
    cluster: RunningCluster,
    rows: Sequence[PlannedMigration],
    steps: Sequence[ContainerMigration],
) -> BundleCandidate | None:
    """Return how to build a bundle again; None if its server, job or container is gone."""
    purpose, about = BundlePurpose(rows[0].purpose), rows[0].about
    if purpose is BundlePurpose.IMPROVE:
        return BundleCandidate(purpose, steps[0].container) if steps else None
    names = cluster.server_name if purpose is BundlePurpose.EMPTY else cluster.job_name
    found = [index for index, name in enumerate(names) if name[:127] == about]
    return BundleCandidate(purpose, found[0]) if len(found) == 1 else None


def _as_rows(
    cluster: RunningCluster,
    result: RebasedBundles,
    by_bundle: Mapping[int, list[PlannedMigration]],
) -> list[BundleOutcome]:
    """Return the rows of each bundle; migrations that are new get unsaved rows."""
    new = planned_migrations(
        cluster, [rebased.bundle for rebased in result.bundles if rebased.bundle is not None]
    )
    built = _by_bundle(new)
    outcomes, place = [], 0
    for rebased in result.bundles:
        old = by_bundle[rebased.number]
        outcome = BundleOutcome(rebased.number, reason=_reason(cluster, rebased, old))
        if rebased.bundle is not None:
            kept = _kept(old, built[place])
            new_rows = () if kept else tuple(built[place])
            outcome = replace(outcome, kept=kept, new=new_rows)
            for row in outcome.rows:
                row.gain, row.about = rebased.bundle.gain, old[0].about
            place += 1
        outcomes.append(outcome)
    return outcomes


def _kept(
    old: Sequence[PlannedMigration], new: Sequence[PlannedMigration]
) -> tuple[PlannedMigration, ...]:
    """Return the old rows of migrations that are all among them, in the same order; else none.

    All migrations of a bundle that was built again get new rows, as their order matters.
    """
    by_route = {(row.allocation_id, row.to_server_id): row for row in old}
    same = [by_route.get((row.allocation_id, row.to_server_id)) for row in new]
    kept = [row for row in same if row is not None]
    ordinals = [row.ordinal for row in kept]
    return tuple(kept) if len(kept) == len(new) and ordinals == sorted(ordinals) else ()


def _without_room(outcomes: Sequence[BundleOutcome]) -> list[BundleOutcome]:
    """Drop the bundles whose jobs would need more on a target than they hold now."""
    rows = [row for outcome in outcomes for row in outcome.rows]
    in_order = sorted(rows, key=lambda row: row.ordinal)
    infeasible = bundles_without_room(
        selectors.capacity_steps(in_order), selectors.free_capacities(in_order)
    )
    names = server_names({row.to_server_id for row in rows if row.bundle in infeasible})
    return [
        BundleOutcome(o.number, reason=_no_room(names.get(o.rows[-1].to_server_id, "a server")))
        if o.number in infeasible
        else o
        for o in outcomes
    ]


def _number_new_rows(outcomes: Sequence[BundleOutcome], last: int) -> None:
    """Give the new rows the ordinals after ``last``, and the numbers of their bundles."""
    for outcome in outcomes:
        for row in outcome.new:
            last += 1
            row.ordinal, row.bundle = last, outcome.number


# ---- reasons ----


def _reason(
    cluster: RunningCluster, rebased: RebasedBundle, rows: Sequence[PlannedMigration]
) -> str:
    """Explain why a bundle was rewritten or dropped; "" if it was kept."""
    match rebased.cause:
        case None:
            return ""
        case ChangeCause.GONE:
            held = set(cluster.allocation_id.tolist())
            return _gone_reason([row for row in rows if row.allocation_id not in held])
        case ChangeCause.FIXED:
            job = cluster.job_name[cluster.job[rebased.subject]]
            return f"{job} is held, about to end, or was migrated too often"
        case ChangeCause.NO_ROOM:
            return _no_room(cluster.server_name[rebased.subject])
        case ChangeCause.SLOWS:
            return "it would slow down jobs"
        case ChangeCause.NO_GAIN:
            return "it no longer gained enough"


def _gone_reason(rows: Sequence[PlannedMigration]) -> str:
    """Say which containers ended or moved; "" for none."""
    if len(rows) > _MAX_NAMED:
        return f"{counted(len(rows), 'container')} of it ended or moved"
    return " and ".join(dict.fromkeys(map(_why_gone, rows)))  # a job may have several containers


def _why_gone(row: PlannedMigration) -> str:
    if row.job.state not in ACTIVE_STATES:
        return f"{row.job.name} ended"
    if row.job.cancel_requested:
        return f"{row.job.name} is being cancelled"
    return f"a container of {row.job.name} moved"


def _no_room(server: str) -> str:
    return f"{server} no longer has enough free capacity"
