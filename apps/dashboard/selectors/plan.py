"""One plan as its page shows it: its effect, its moves by bundle, how they stand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apps.dashboard.core import words
from apps.dashboard.core.move_tally import Tally
from apps.dashboard.figures.plan_progress import PlanProgress, Span
from apps.inventory.selectors import cluster_clock, cluster_now, server_names
from apps.placement.core.carrying import schedule
from apps.placement.core.plan_states import BEGUN, possible
from apps.placement.core.verdicts import saved
from apps.placement.models import Move, MoveState, Plan, PlanState, Purpose
from apps.placement.selectors import plans as read

TURN_S: Final = 2.0  # wall time, measured: worker and backend look by turns, each every second
CONFIRM_ABOVE: Final = 50  # moves: approving more wants their number typed
PURPOSES: Final = {
    Purpose.EMPTY: "Empty",
    Purpose.PROTECT: "Protect",
    Purpose.GATHER: "Gather",
    Purpose.IMPROVE: "Improve",
    Purpose.REVERSE: "Take back",
}


# ---- counts ----


def tally_of(count: Mapping[MoveState, int], *, left_out: int) -> Tally:
    """Return a tally from how many moves stand where, and how many were left out."""
    return Tally(
        waiting=count[MoveState.WAITING],
        moving=count[MoveState.MOVING],
        done=count[MoveState.DONE],
        failed=count[MoveState.FAILED],
        cancelled=count[MoveState.CANCELLED],
        passed_over=count[MoveState.SKIPPED] - left_out,
        left_out=left_out,
    )


def tally(moves: Sequence[Move]) -> Tally:
    """Count the moves of a plan by what became of them."""
    count = {state: sum(move.state == state for move in moves) for state in MoveState}
    return tally_of(count, left_out=sum(read.is_left_out(move) for move in moves))


def sides(change: Mapping[str, Any]) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """Return the measures before and after a change; empty where there are none."""
    return change.get("before") or {}, change.get("after") or {}


# ---- what it does ----


@dataclass(frozen=True, slots=True)
class Effect:
    """One measure: now, as predicted, and as realised; texts with units, "" where unknown.

    ``tone`` of the change: ok where it is wanted. ``more``: why it does not change further, or "".
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
    more: str = ""


# name, label, unit, digits, whether higher is better
_MEASURES: Final = (
    ("watts", "Power", " W", 0, False),
    ("diversity", "Diversity", "", 2, True),
    ("crossing", "Crossing traffic, containers away from their job", "", 0, False),
    ("servers_on", "Servers in use", "", 0, False),
    ("targets_met", "Targets met", "", 0, True),
    ("F", "F, what is minimised", "", 4, False),
)


def effects(plan: Plan) -> list[Effect]:
    """Return what a plan is predicted to change, and what it did."""
    before, after = sides(plan.predicted)
    without, now = sides(plan.realised or {})
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
                change=words.signed(change, digits) + unit,
                tone=_tone(change, digits, is_higher_better=is_higher_better),
                without=_without(without, name, unit, digits),
                now=_number(now[name], unit, digits) if name in now else "",
                realised=_realised(without, now, name, unit, digits),
                more=_apart(plan) if name == "crossing" else "",
            )
        )
    return rows


def _apart(plan: Plan) -> str:
    """Return why crossing traffic does not fall to nothing; plans of earlier versions say none."""
    said: str = plan.predicted.get("apart", {}).get("meaning", "")
    return said


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
class Stakes:
    """What whoever approves should know last; ``harm`` what it would do to targets, or ""."""

    effects: Sequence[Effect]
    harm: str


def stakes(plan: Plan) -> Stakes:
    """Return what a plan is predicted to do to power and targets."""
    before, after = sides(plan.predicted)
    fall = int(before.get("targets_met", 0) - after.get("targets_met", 0))
    fewer = f"{fall:,} fewer job{'s' if fall > 1 else ''} would meet their target"
    return Stakes(
        effects=[one for one in effects(plan) if one.name in {"watts", "targets_met"}],
        harm=fewer if fall > 0 else "",
    )


@dataclass(frozen=True, slots=True)
class StepRow:
    """One move, its servers by name; ``state`` as it is shown."""

    move: Move
    source: str
    target: str
    state: str


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
        grouped.setdefault(move.bundle, []).append(StepRow(move, source, target, shown(move)))
    return [_bundle(number, steps) for number, steps in grouped.items()]


def shown(move: Move) -> str:
    """Return the state of a move in words: why it was skipped is told apart."""
    if move.state != MoveState.SKIPPED:
        return str(move.state)
    return "left out" if read.is_left_out(move) else "passed over"


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
    taken = [move for move in moves if not read.is_left_out(move)]
    seconds = max((end for _, end in _spans(taken)), default=0.0)
    return Blast(
        moves=len(taken),
        jobs=len({move.job_id for move in taken}),
        servers=len({s for m in taken for s in (m.from_server_id, m.to_server_id)}),
        units=sum(move.units for move in taken),
        lasts=words.duration(seconds),
        wants_number=len(taken) > CONFIRM_ABOVE,
    )


def _spans(moves: Sequence[Move]) -> list[tuple[float, float]]:
    """Return from when to when moves should go on, in cluster seconds from now."""
    return schedule(
        [(move.job_id, move.predicted_s) for move in moves],
        per_minute=read.loop().moves_per_minute,
        turn_s=TURN_S * cluster_clock().speed,
    )


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a plan stands and what may be done with it; ``badge`` its state as it is shown."""

    badge: str
    tally: Tally
    sentence: str
    actions: frozenset[str]
    is_settling: bool


def standing(plan: Plan, moves: Sequence[Move]) -> Standing:
    """Say where a plan stands."""
    counted = tally(moves)
    actions = {str(action) for action in possible(plan.state)}
    if plan.ended_s is not None and counted.done:
        actions.add("rollback")
    is_settling = plan.began_s is not None and plan.ended_s is None and plan.state not in BEGUN
    return Standing(
        badge=counted.badge(plan.state),
        tally=counted,
        sentence=_sentence(plan, counted.done, counted.asked),
        actions=frozenset(actions),
        is_settling=is_settling,
    )


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
    every = list(read.moves_of(plan.pk))
    moves = [move for move in every if not read.is_left_out(move)]
    names = server_names(s for m in moves for s in (m.from_server_id, m.to_server_id))
    now_s = cluster_now() if plan.ended_s is None else plan.ended_s
    waiting = [m for m in moves if m.state == MoveState.WAITING]
    spans = zip(waiting, _spans(waiting), strict=True)
    expected = {move.pk: (now_s + begin, now_s + end) for move, (begin, end) in spans}
    return PlanProgress(
        plan=str(plan),
        now_s=now_s,
        is_over=plan.ended_s is not None,
        tally=tally(every),
        spans=tuple(
            Span(
                label=move.job.name,
                way=f"{names.get(move.from_server_id, '?')} → {names.get(move.to_server_id, '?')}",
                state=shown(move),
                began_s=move.began_s,
                ended_s=move.ended_s,
                expected_s=expected.get(move.pk),
            )
            for move in moves
        ),
    )
