"""Data of a plan's page: its effect, its migrations by bundle, and their progress."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apps.dashboard.core import formats
from apps.dashboard.core.migration_counts import MigrationCounts
from apps.dashboard.figures.plan_progress import MigrationSpan, PlanProgress
from apps.inventory.selectors import cluster_now, cluster_time, server_names
from apps.placement.core.rebalancing import changes
from apps.placement.core.rebalancing.executor import migration_spans
from apps.placement.core.rebalancing.lifecycle import STARTED, PlanState, possible_actions
from apps.placement.core.rebalancing.verdicts import reduction
from apps.placement.models import (
    MigrationPurpose,
    Plan,
    PlannedMigration,
    PlannedMigrationState,
)
from apps.placement.selectors import plans as placement_plans

TURN_S: Final = 2.0  # wall time, measured: worker and backend each poll every second
CONFIRM_ABOVE: Final = 50  # migrations; larger plans must be confirmed by typing their number
PURPOSES: Final = {
    MigrationPurpose.EMPTY: "Empty",
    MigrationPurpose.PROTECT: "Protect",
    MigrationPurpose.GATHER: "Consolidate",
    MigrationPurpose.IMPROVE: "Improve",
    MigrationPurpose.REVERSE: "Roll back",
    MigrationPurpose.TARGET: "Bring back to target",
}


# ---- counts ----


def counts_of(count: Mapping[PlannedMigrationState, int], *, excluded: int) -> MigrationCounts:
    """Return migration counts from counts by state and the number of excluded migrations."""
    return MigrationCounts(
        waiting=count[PlannedMigrationState.WAITING],
        moving=count[PlannedMigrationState.MOVING],
        done=count[PlannedMigrationState.DONE],
        failed=count[PlannedMigrationState.FAILED],
        cancelled=count[PlannedMigrationState.CANCELLED],
        skipped=count[PlannedMigrationState.SKIPPED] - excluded,
        excluded=excluded,
    )


def migration_counts(moves: Sequence[PlannedMigration]) -> MigrationCounts:
    """Count the migrations of a plan by state."""
    count = {state: sum(move.state == state for move in moves) for state in PlannedMigrationState}
    return counts_of(count, excluded=sum(placement_plans.is_left_out(move) for move in moves))


def sides(change: Mapping[str, Any]) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """Return the measures before and after a change; empty if not known."""
    return change.get("before") or {}, change.get("after") or {}


# ---- effect ----


@dataclass(frozen=True, slots=True)
class Effect:
    """One measure: current, predicted and realised, as texts with units; "" if unknown.

    ``tone`` is "ok" for an improvement; ``proposed`` is the change predicted when the plan was
    proposed; ``more`` explains why it does not improve further.
    """

    name: str
    label: str
    before: str
    after: str
    change: str
    tone: str
    without: str = ""
    now: str = ""
    realised: str = ""
    proposed: str = ""
    more: str = ""


# name, label, unit, digits, whether higher is better
_MEASURES: Final = (
    ("watts", "Power, modelled", " W", 0, False),
    ("diversity", "Diversity", "", 2, True),
    ("crossing", "Crossing traffic, containers outside their job's server or rack", "", 0, False),
    ("servers_on", "Servers in use", "", 0, False),
    ("targets_met", "Targets met", "", 0, True),
    ("F", "F, the solver's objective", "", 4, False),
)


def effects(plan: Plan) -> list[Effect]:
    """Return the predicted and realised effects of a plan."""
    before, after = sides(plan.predicted)
    without, now = sides(plan.realised or {})
    first_before, first_after = sides(plan.proposed)
    rows = []
    for name, label, unit, digits, is_higher_better in _MEASURES:
        if name not in before or name not in after:
            continue
        change = after[name] - before[name]
        rows.append(
            Effect(
                name=name,
                label=label,
                before=_number(before[name], unit, digits),
                after=_number(after[name], unit, digits),
                change=formats.signed(change, digits) + unit,
                tone=_tone(change, digits, is_higher_better=is_higher_better),
                without=_without(without, name, unit, digits),
                now=_number(now[name], unit, digits) if name in now else "",
                realised=_realised(without, now, name, unit, digits),
                proposed=_change(first_before, first_after, name, unit, digits),
                more=_remaining_crossing(plan) if name == "crossing" else "",
            )
        )
    return rows


def _remaining_crossing(plan: Plan) -> str:
    """Explain the remaining crossing traffic; "" for plans of earlier versions."""
    explanation: str = plan.predicted.get("apart", {}).get("meaning", "")
    return explanation


def _without(without: Mapping[str, float], name: str, unit: str, digits: int) -> str:
    """Return a measure without the migrations; targets met are only known as measured."""
    if name not in without or name == "targets_met":
        return ""
    return _number(without[name], unit, digits)


def _realised(
    without: Mapping[str, float], now: Mapping[str, float], name: str, unit: str, digits: int
) -> str:
    return "" if name == "targets_met" else _change(without, now, name, unit, digits)


def _change(
    before: Mapping[str, float], after: Mapping[str, float], name: str, unit: str, digits: int
) -> str:
    if name not in before or name not in after:
        return ""
    return formats.signed(after[name] - before[name], digits) + unit


def _number(value: float, unit: str, digits: int) -> str:
    return formats.thousands(value, digits) + unit


def _tone(change: float, digits: int, *, is_higher_better: bool) -> str:
    if abs(change) < 0.5 * 10.0**-digits:
        return ""
    return "ok" if (change > 0) == is_higher_better else "warn"


@dataclass(frozen=True, slots=True)
class ApprovalSummary:
    """Effects to confirm before approval; ``harm`` is the effect on targets, or ""."""

    effects: Sequence[Effect]
    harm: str


def approval_summary(plan: Plan) -> ApprovalSummary:
    """Return the predicted effect of a plan on power and targets."""
    before, after = sides(plan.predicted)
    fall = int(before.get("targets_met", 0) - after.get("targets_met", 0))
    fewer = f"{formats.plural(fall, 'fewer job')} would meet their target"
    return ApprovalSummary(
        effects=[effect for effect in effects(plan) if effect.name in {"watts", "targets_met"}],
        harm=fewer if fall > 0 else "",
    )


@dataclass(frozen=True, slots=True)
class MigrationRow:
    """One migration with server names.

    Attributes
    ----------
    state : displayed
    lost : work that a restart loses, a text; "" = a live migration
    """

    move: PlannedMigration
    source: str
    target: str
    state: str
    lost: str


@dataclass(frozen=True, slots=True)
class BundleRow:
    """Migrations that are only useful together.

    Attributes
    ----------
    is_dropped : a re-base dropped it; it cannot be included again
    rewritten : why a re-base rewrote it; "" = it did not
    """

    number: int
    purpose: str
    about: str
    gain: float
    migrations: Sequence[MigrationRow]
    is_taken: bool
    is_dropped: bool
    why: str
    rewritten: str

    @property
    def first(self) -> int:
        """Ordinal of its first migration, which identifies the bundle."""
        return self.migrations[0].move.ordinal


def bundles(plan: Plan, moves: Sequence[PlannedMigration]) -> list[BundleRow]:
    """Return the migrations of a plan by bundle, in order."""
    rewritten = {
        entry["bundle"]: entry["reason"]
        for entry in plan.changes
        if entry["change"] == changes.REWRITTEN
    }
    names = server_names(s for m in moves for s in (m.from_server_id, m.to_server_id))
    grouped: dict[int, list[MigrationRow]] = {}
    losses = placement_plans.restart_losses(moves)
    for move in moves:
        source = names.get(move.from_server_id, f"#{move.from_server_id}")
        target = names.get(move.to_server_id, f"#{move.to_server_id}")
        lost_s = losses.get(move.pk)
        lost = "" if lost_s is None else formats.duration(lost_s)
        row = MigrationRow(move, source, target, shown(move), lost)
        grouped.setdefault(move.bundle, []).append(row)
    return [
        _bundle(number, migrations, rewritten.get(number, ""))
        for number, migrations in grouped.items()
    ]


def shown(move: PlannedMigration) -> str:
    """Return the displayed state of a migration; excluded ones differ from skipped ones."""
    if move.state != PlannedMigrationState.SKIPPED:
        return str(move.state)
    if placement_plans.is_dropped(move):
        return "dropped"
    return "excluded" if placement_plans.is_left_out(move) else "skipped"


def _bundle(number: int, migrations: Sequence[MigrationRow], rewritten: str) -> BundleRow:
    first = migrations[0].move
    is_taken = any(
        migration.move.state != PlannedMigrationState.SKIPPED for migration in migrations
    )
    return BundleRow(
        number=number,
        purpose=PURPOSES[MigrationPurpose(first.purpose)],
        about=first.about,
        gain=first.gain,
        migrations=migrations,
        is_taken=is_taken,
        is_dropped=placement_plans.is_dropped(first),
        rewritten=rewritten,
        why="" if is_taken else first.message,
    )


@dataclass(frozen=True, slots=True)
class Impact:
    """Jobs and servers affected by a plan.

    Attributes
    ----------
    duration : a text
    restarts : jobs that restart
    lost : work that they lose, a text
    """

    moves: int
    jobs: int
    servers: int
    units: int
    duration: str
    needs_confirmation: bool
    restarts: int
    lost: str


def impact(moves: Sequence[PlannedMigration]) -> Impact:
    """Return the jobs and servers affected by migrations that are not excluded."""
    included = [move for move in moves if not placement_plans.is_left_out(move)]
    losses = placement_plans.restart_losses(included)
    seconds = max((end for _, end in _spans(included)), default=0.0)
    return Impact(
        moves=len(included),
        jobs=len({move.job_id for move in included}),
        servers=len({s for m in included for s in (m.from_server_id, m.to_server_id)}),
        units=sum(move.units for move in included),
        duration=formats.duration(seconds),
        needs_confirmation=len(included) > CONFIRM_ABOVE,
        restarts=len(losses),
        lost=formats.duration(sum(losses.values())),
    )


def _spans(moves: Sequence[PlannedMigration]) -> list[tuple[float, float]]:
    """Return the expected start and end of each migration, in cluster seconds from now."""
    return migration_spans(
        [(move.job_id, move.predicted_s) for move in moves],
        per_minute=placement_plans.loop_settings().moves_per_minute,
        turn_s=TURN_S * cluster_time().speed,
    )


@dataclass(frozen=True, slots=True)
class PlanStatus:
    """Status and possible actions of a plan; ``badge`` is the displayed state."""

    badge: str
    counts: MigrationCounts
    sentence: str
    actions: frozenset[str]
    is_finishing: bool


def plan_status(plan: Plan, moves: Sequence[PlannedMigration]) -> PlanStatus:
    """Return the status of a plan."""
    counts = migration_counts(moves)
    actions = {str(action) for action in possible_actions(plan.state)}
    if plan.ended_s is not None and counts.done:
        actions.add("rollback")
    is_finishing = plan.began_s is not None and plan.ended_s is None and plan.state not in STARTED
    return PlanStatus(
        badge=counts.badge(plan.state),
        counts=counts,
        sentence=_sentence(plan, counts.done, counts.planned),
        actions=frozenset(actions),
        is_finishing=is_finishing,
    )


def _sentence(plan: Plan, done: int, total: int) -> str:
    if plan.verdict:
        return plan.verdict
    if plan.state in {PlanState.RUNNING, PlanState.PAUSED}:
        return f"{done:,} of {formats.plural(total, 'migration')} done."
    gain = reduction(plan.predicted, "watts")
    if plan.state == PlanState.PROPOSED and gain >= 0.5:
        return f"Would save {gain:,.0f} W with {formats.plural(total, 'migration')}."
    if plan.state == PlanState.PROPOSED and gain <= -0.5:
        return f"Would use {-gain:,.0f} W more, with {formats.plural(total, 'migration')}."
    if plan.state == PlanState.PROPOSED:
        return f"{formats.plural(total, 'migration')}, with no change in power."
    return plan.message[:1].upper() + plan.message[1:]


def progress(key: str) -> PlanProgress:
    """Return when each migration of a plan began and ended.

    Raises
    ------
    NotFoundError : there is no such plan.
    """
    plan = placement_plans.plan_by_key(key)
    all_moves = list(placement_plans.migrations_of(plan.pk))
    moves = [move for move in all_moves if not placement_plans.is_left_out(move)]
    names = server_names(s for m in moves for s in (m.from_server_id, m.to_server_id))
    now_s = cluster_now() if plan.ended_s is None else plan.ended_s
    waiting = [m for m in moves if m.state == PlannedMigrationState.WAITING]
    spans = zip(waiting, _spans(waiting), strict=True)
    expected = {move.pk: (now_s + begin, now_s + end) for move, (begin, end) in spans}
    return PlanProgress(
        plan=str(plan),
        now_s=now_s,
        is_over=plan.ended_s is not None,
        counts=migration_counts(all_moves),
        spans=tuple(
            MigrationSpan(
                label=move.job.name,
                route=" → ".join(
                    names.get(server, "?") for server in (move.from_server_id, move.to_server_id)
                ),
                state=shown(move),
                began_s=move.began_s,
                ended_s=move.ended_s,
                expected_s=expected.get(move.pk),
            )
            for move in moves
        ),
    )
