"""Comparison of two units by the terms of the policy `expected`."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from apps.dashboard.core import formats
from apps.dashboard.core.explanation import CandidateFacts
from apps.scheduling.core.expected import performance as expected
from apps.scheduling.core.types import Expectation

WEIGHTS: Final = expected.DEFAULT


@dataclass(frozen=True, slots=True)
class TermRow:
    """One term of the score.

    Attributes
    ----------
    name : of the term
    chosen, other : its values on the chosen unit and on the runner-up, as text
    gain : contribution to the score over the runner-up
    """

    name: str
    chosen: str
    other: str
    gain: float

    @property
    def gain_text(self) -> str:
        """The contribution with two digits."""
        return formats.signed(self.gain, 2)


@dataclass(frozen=True, slots=True)
class ExpectationComparison:
    """The chosen unit compared with the best unit of another server.

    Attributes
    ----------
    title, sentence : name the term that contributes most
    chosen, runner_up : names of the servers
    """

    title: str
    sentence: str
    chosen: str
    runner_up: str
    rows: tuple[TermRow, ...]

    @property
    def weights(self) -> expected.Weights:
        """Weights of the terms."""
        return WEIGHTS


def compare_expectations(candidates: Sequence[CandidateFacts]) -> ExpectationComparison | None:
    """Compare the first chosen unit with the best unit of a server that was not chosen.

    None without such a unit, if both have the same score, or if another policy decided.
    """
    chosen = next((c for c in candidates if c.verdict == "chosen"), None)
    servers = {c.server for c in candidates if c.verdict == "chosen"}
    other = next((c for c in candidates if c.server not in servers), None)
    if chosen is None or other is None or chosen.expectation is None or other.expectation is None:
        return None
    total = chosen.closeness - other.closeness
    if not total > 0.0:
        return None
    rows = _rows(chosen.expectation, other.expectation, total)
    first = max(rows, key=lambda row: row.gain)
    return ExpectationComparison(
        title=f"{first.name} made the difference: score {formats.signed(total, 2)} over "
        f"{other.server}",
        sentence=f"{first.name} made the difference: **{first.chosen}** on {chosen.server}, "
        f"{first.other} on the runner-up {other.server}",
        chosen=chosen.server,
        runner_up=other.server,
        rows=rows,
    )


def _rows(mine: Expectation, theirs: Expectation, total: float) -> tuple[TermRow, ...]:
    known = [
        _row("Platform speed", mine, theirs, speed_text, lambda e: math.log(e.speed)),
        _row("Performance under interference", mine, theirs, own_text, _own),
        _row("Loss of the neighbours", mine, theirs, neighbours_text, _neighbours),
    ]
    # the crowd weighs less the fuller the cluster is: it contributes what the others do not
    rest = total - sum(row.gain for row in known)
    return (*known, TermRow("Busy units of the server", busy_text(mine), busy_text(theirs), rest))


def _row(
    name: str,
    mine: Expectation,
    theirs: Expectation,
    text: Callable[[Expectation], str],
    score: Callable[[Expectation], float],
) -> TermRow:
    return TermRow(name, text(mine), text(theirs), score(mine) - score(theirs))


def _own(expectation: Expectation) -> float:
    """Return the loss of the job and its chance to keep 95 % of its speed, in the score."""
    lost = math.log(max(expectation.own, 1e-9))
    return lost + expected.kept(lost, WEIGHTS)


def _neighbours(expectation: Expectation) -> float:
    return WEIGHTS.neighbours * math.log(max(expectation.neighbours, 1e-9))


def speed_text(expectation: Expectation) -> str:
    """Return the speed of the platform relative to the highest-end one."""
    return f"{formats.significant(expectation.speed)}×"


def own_text(expectation: Expectation) -> str:
    """Return the performance that interference leaves to the job."""
    return formats.percent(expectation.own)


def neighbours_text(expectation: Expectation) -> str:
    """Return what the jobs on the server lose together."""
    return formats.percent(1.0 - expectation.neighbours)


def busy_text(expectation: Expectation) -> str:
    """Return the share of the server's units that was busy."""
    return formats.percent(expectation.busy, 0)


def prediction_texts(expectation: Expectation) -> tuple[str, str, str, str]:
    """Return the four predictions in the order of the columns."""
    return (
        speed_text(expectation),
        own_text(expectation),
        neighbours_text(expectation),
        busy_text(expectation),
    )
