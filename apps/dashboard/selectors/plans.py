"""Plans as their pages show them: the list, one plan with its bundles, what moves to and fro."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import Count

from apps.common.paging import Order, Page, keyset_page
from apps.dashboard.core import words
from apps.dashboard.figures.plan_progress import PlanProgress, Span
from apps.inventory.selectors import cluster_now, server_names
from apps.placement.core.carrying import schedule
from apps.placement.core.plan_states import BEGUN, possible
from apps.placement.core.verdicts import Ended, realised_share, saved
from apps.placement.models import Loop, Mode, Move, MoveState, Plan, PlanState, Purpose
from apps.placement.selectors import plans as read
from apps.placement.selectors.preferences import weights_in_force

ORDER: Final = Order(columns=("created_at", "id"), descending=True)
PAGE_ROWS: Final = 25
CONFIRM_ABOVE: Final = 50  # moves: approving more wants their number typed
LABELS: Final = {"P": "power", "D": "contention", "C": "communication"}
PURPOSES: Final = {
    Purpose.EMPTY: "Empty",
    Purpose.PROTECT: "Protect",
    Purpose.GATHER: "Gather",
    Purpose.IMPROVE: "Improve",
    Purpose.REVERSE: "Take back",
}


# ---- the list ----


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One plan in short; ``share`` realised of the gain predicted, None before it ended."""

    plan: Plan
    total: int
    done: int
    watts_before: float
    watts_after: float
    gain: float
    share: float | None
    says: str


def plans_page(*, cursor: str | None, state: str = "") -> tuple[Page[Plan], list[PlanRow]]:
    """One page of plans, newest first."""
    rows = read.plans()
    if state:
        rows = rows.filter(state=state)
    page = keyset_page(rows, ORDER, limit=PAGE_ROWS, cursor=cursor or None)
    return page, [_row(plan) for plan in page.rows]


def _row(plan: Plan) -> PlanRow:
    before, after = _sides(plan.predicted)
    return PlanRow(
        plan=plan,
        total=sum(getattr(plan, f"moves_{state.value}") for state in MoveState),
        done=getattr(plan, "moves_done", False),
        watts_before=before.get("watts", 0.0),
        watts_after=after.get("watts", 0.0),
        gain=saved(plan.predicted, "F"),
        share=_share(plan),
        says=plan.verdict or plan.message,
    )


def counts() -> list[tuple[str, int]]:
    """How many plans are in each state that any is in, in the order of their life."""
    found = dict(Plan.objects.order_by().values_list("state").annotate(plans=Count("pk")))
    return [(state, found[state]) for state in PlanState.values if found.get(state)]


@dataclass(frozen=True, slots=True)
class LoopState:
    """The loop's settings and what it found last; ``looked`` in words."""

    settings: Loop
    modes: Sequence[tuple[str, str]]
    finding: str
    looked: str
    weights: str
    preference_set: str


def loop_state() -> LoopState:
    """Return how the loop is set, and what it said last."""
    settings, active, look = read.loop(), weights_in_force(), read.last_look()
    return LoopState(
        settings=settings,
        modes=Mode.choices,
        finding=look.data["finding"] if look else "",
        looked=words.cluster_day(settings.looked_s) if settings.looked_s else "",
        weights="" if active is None else weights_text(active.weights),
        preference_set="" if active is None else active.preference_set.name,
    )


def weights_text(weights: Mapping[str, float]) -> str:
    """Return weights in words, e.g. "power 0.22, contention 1, communication 0.36"."""
    order = [*(name for name in LABELS if name in weights), *(weights.keys() - LABELS.keys())]
    return ", ".join(
        f"{LABELS.get(name, name)} {words.trimmed(weights[name], 2)}" for name in order
    )


def thrash() -> read.Thrash:
    """Return what was moved too often within the last hour of cluster time."""
    return read.thrash(cluster_now(), allowed=read.loop().moves_per_job)


# ---- one plan ----


@dataclass(frozen=True, slots=True)
class Effect:
    """One measure: now, as predicted, and as realised; texts with units, "" where unknown.

    ``tone`` of the change: ok where it is wanted.
    """

    label: str
    before: str
    after: str
    change: str
    tone: str
    without: str = ""
    now: str = ""
    realised: str = ""


# name, label, unit, digits, whether higher is better
_MEASURES: Final = (
    ("watts", "Power", " W", 0, False),
    ("diversity", "Diversified intensity", "", 2, True),
    ("crossing", "Containers away from their job", "", 0, False),
    ("servers_on", "Servers in use", "", 0, False),
    ("targets_met", "Targets met", "", 0, True),
    ("F", "F, what is minimised", "", 4, False),
)


def effects(plan: Plan) -> list[Effect]:
    """Return what a plan is predicted to change, and what it did."""
    before, after = _sides(plan.predicted)
    without, now = _sides(plan.realised or {})
    rows = []
    for name, label, unit, digits, is_higher_better in _MEASURES:
        if name not in before or name not in after:
            continue
        change = after[name] - before[name]
        rows.append(
            Effect(
                label=label,
                before=_number(before[name], unit, digits),
                after=_number(after[name], unit, digits),
                change=words.signed(change, digits) + unit,
                tone=_tone(change, digits, is_higher_better=is_higher_better),
                without=_without(without, name, unit, digits),
                now=_number(now[name], unit, digits) if name in now else "",
                realised=_realised(without, now, name, unit, digits),
            )
        )
    return rows


def _without(without: Mapping[str, float], name: str, unit: str, digits: int) -> str:
    """Return a measure with the containers put back; of targets there is none but the measured."""
    if name not in without or name == "targets_met":
        return ""
    return _number(without[name], unit, digits)


def _realised(
    without: Mapping[str, float], now: Mapping[str, float], name: str, unit: str, digits: int
) -> str:
    if name not in without or name not in now or name == "targets_met":
        return ""
    return words.signed(now[name] - without[name], digits) + unit


def _number(value: float, unit: str, digits: int) -> str:
    return words.thousands(value, digits) + unit


def _tone(change: float, digits: int, *, is_higher_better: bool) -> str:
    if abs(change) < 0.5 * 10.0**-digits:
        return ""
    return "ok" if (change > 0) == is_higher_better else "warn"


@dataclass(frozen=True, slots=True)
class StepRow:
    """One move, its servers by name."""

    move: Move
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Bundle:
    """Moves that make sense only together."""

    number: int
    purpose: str
    about: str
    gain: float
    steps: Sequence[StepRow]
    is_taken: bool
    why: str

    @property
    def first(self) -> int:
        """Ordinal that stands for all of it."""
        return self.steps[0].move.ordinal


def bundles(moves: Sequence[Move]) -> list[Bundle]:
    """Return the moves of a plan by what they are for, in order."""
    names = server_names(s for m in moves for s in (m.from_server_id, m.to_server_id))
    grouped: dict[int, list[StepRow]] = {}
    for move in moves:
        source = names.get(move.from_server_id, f"#{move.from_server_id}")
        target = names.get(move.to_server_id, f"#{move.to_server_id}")
        grouped.setdefault(move.bundle, []).append(StepRow(move, source, target))
    return [_bundle(number, steps) for number, steps in grouped.items()]


def _bundle(number: int, steps: Sequence[StepRow]) -> Bundle:
    first = steps[0].move
    is_taken = any(step.move.state != MoveState.SKIPPED for step in steps)
    return Bundle(
        number=number,
        purpose=PURPOSES[Purpose(first.purpose)],
        about=first.about,
        gain=first.gain,
        steps=steps,
        is_taken=is_taken,
        why="" if is_taken else first.message,
    )


@dataclass(frozen=True, slots=True)
class Blast:
    """What a plan touches; ``lasts`` in words."""

    moves: int
    jobs: int
    servers: int
    units: int
    lasts: str
    wants_number: bool


def blast(moves: Sequence[Move]) -> Blast:
    """Return what the moves that are not left out touch, and how long they should take."""
    taken = [move for move in moves if move.state != MoveState.SKIPPED]
    per_minute = read.loop().moves_per_minute
    spans = schedule([(m.job_id, m.predicted_s) for m in taken], per_minute=per_minute)
    seconds = max((end for _, end in spans), default=0.0)
    return Blast(
        moves=len(taken),
        jobs=len({move.job_id for move in taken}),
        servers=len({s for m in taken for s in (m.from_server_id, m.to_server_id)}),
        units=sum(move.units for move in taken),
        lasts=words.duration(seconds),
        wants_number=len(taken) > CONFIRM_ABOVE,
    )


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a plan stands and what may be done with it."""

    sentence: str
    actions: frozenset[str]
    is_settling: bool


def standing(plan: Plan, moves: Sequence[Move]) -> Standing:
    """Say where a plan stands."""
    count = {state: sum(m.state == state for m in moves) for state in MoveState}
    done, total = count[MoveState.DONE], len(moves) - count[MoveState.SKIPPED]
    actions = {str(action) for action in possible(plan.state)}
    if plan.ended_s is not None and done:
        actions.add("rollback")
    is_settling = plan.began_s is not None and plan.ended_s is None and plan.state not in BEGUN
    return Standing(_sentence(plan, done, total), frozenset(actions), is_settling)


def _sentence(plan: Plan, done: int, total: int) -> str:
    if plan.verdict:
        return plan.verdict
    if plan.state in {PlanState.RUNNING, PlanState.PAUSED}:
        return f"{done:,} of {total:,} moves are done."
    gain = saved(plan.predicted, "watts")
    if plan.state == PlanState.PROPOSED and gain >= 0.5:
        return f"Would save {gain:,.0f} W with {words.plural(total, 'move')}."
    if plan.state == PlanState.PROPOSED and gain <= -0.5:
        return f"Would cost {-gain:,.0f} W with {words.plural(total, 'move')}."
    if plan.state == PlanState.PROPOSED:
        return f"Would make {words.plural(total, 'move')}."
    return plan.message[:1].upper() + plan.message[1:]


def progress(key: str) -> PlanProgress:
    """Return when each move of a plan began and ended.

    Raises
    ------
    NotFoundError : there is no such plan.
    """
    plan = read.plan_by(key)
    moves = [m for m in read.moves_of(plan.pk) if m.state != MoveState.SKIPPED]
    names = server_names(s for m in moves for s in (m.from_server_id, m.to_server_id))
    now_s = cluster_now() if plan.ended_s is None else plan.ended_s
    waiting = [m for m in moves if m.state == MoveState.WAITING]
    spans = schedule(
        [(m.job_id, m.predicted_s) for m in waiting], per_minute=read.loop().moves_per_minute
    )
    expected = {
        m.pk: (now_s + begin, now_s + end) for m, (begin, end) in zip(waiting, spans, strict=True)
    }
    return PlanProgress(
        plan=str(plan),
        now_s=now_s,
        is_over=plan.ended_s is not None,
        spans=tuple(
            Span(
                label=move.job.name,
                way=f"{names.get(move.from_server_id, '?')} → {names.get(move.to_server_id, '?')}",
                state=str(move.state),
                began_s=move.began_s,
                ended_s=move.ended_s,
                expected_s=expected.get(move.pk),
            )
            for move in moves
        ),
    )


def _sides(change: Mapping[str, Any]) -> tuple[Mapping[str, float], Mapping[str, float]]:
    return change.get("before") or {}, change.get("after") or {}


def _share(plan: Plan) -> float | None:
    if not plan.realised or not plan.realised.get("after"):
        return None
    return realised_share(Ended(plan.predicted, plan.realised))
