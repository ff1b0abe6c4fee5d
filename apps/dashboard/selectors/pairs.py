"""Reads for the pages of measured pairs."""

from collections.abc import Iterator
from typing import Final
from uuid import UUID

from apps.common.core.errors import NotFoundError
from apps.dashboard.core.pair_text import SideFacts
from apps.dashboard.figures.pair_deviation import Deviation, Deviations
from apps.dashboard.figures.pair_slowdowns import PairSlowdowns
from apps.operations.core.states import TERMINAL
from apps.testbed.core.pairs.rounds import round_from_json
from apps.testbed.models import MeasuredPair
from apps.testbed.selectors.pairs import estimate_of, pair_by_id, pairs, predicted_estimates
from apps.workloads.models import Application

LISTED: Final = 50
COMPARED: Final = 500  # newest pairs in the figure
OFFERED: Final = 500  # applications that the form suggests


def listed_pairs() -> list[MeasuredPair]:
    """Return the newest pairs."""
    return list(pairs().order_by("-created_at", "-id")[:LISTED])


def offered_applications(*, runs_commands: bool) -> list[str]:
    """Return names of applications, for suggestions."""
    rows = Application.objects.filter(runs_commands=runs_commands).exclude(name="berth-pair")
    return list(rows.order_by("name").values_list("name", flat=True)[:OFFERED])


def pair_named(key: str) -> MeasuredPair:
    """Return the pair with an id from an address.

    Raises
    ------
    NotFoundError : there is none.
    """
    try:
        return pair_by_id(UUID(key))
    except ValueError as error:
        raise NotFoundError(f"There is no measured pair {key}.") from error


def sides_of(pair: MeasuredPair) -> tuple[SideFacts, SideFacts]:
    """Return both applications of a pair with what is known of them."""
    first, second = (_side(pair, side) for side in (0, 1))
    return first, second


def _side(pair: MeasuredPair, side: int) -> SideFacts:
    asked, stored = pair.request["sides"][side], pair.predictions[side]
    found = pair.result["sides"][side] if pair.result else {}
    return SideFacts(
        application=(pair.first, pair.second)[side],
        command=tuple(asked["command"]),
        units=asked["units"],
        predicted=predicted_estimates(pair)[side],
        measured=estimate_of(found["measured"]) if found else None,
        holds=found.get("holds"),
        overlaps=found.get("overlaps"),
        missing=tuple(stored.get("missing", ())),
        unmeasured=tuple(stored.get("unmeasured", ())),
    )


def slowdowns(key: str) -> PairSlowdowns:
    """Return the figure of one pair.

    Raises
    ------
    NotFoundError : there is no such pair.
    """
    pair = pair_named(key)
    rounds = [round_from_json(each) for each in (pair.result or {}).get("rounds", ())]
    return PairSlowdowns(
        sides=sides_of(pair),
        rounds=tuple(tuple(each.ratio(side) for each in rounds) for side in (0, 1)),
        is_open=pair.operation.status not in TERMINAL,
    )


def deviations() -> Deviations:
    """Return predicted and measured slowdowns of the newest pairs, the newest first."""
    rows = pairs().filter(result__isnull=False).order_by("-created_at", "-id")[:COMPARED]
    return Deviations(tuple(point for pair in rows for point in _points(pair)))


def _points(pair: MeasuredPair) -> Iterator[Deviation]:
    first, second = sides_of(pair)
    for side, other in ((first, second), (second, first)):
        if side.predicted is not None and side.measured is not None:
            names = side.application, other.application
            yield Deviation(*names, side.predicted, side.measured, pair.is_emulated)
