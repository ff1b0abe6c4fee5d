"""Contribution of each resource to the match of the chosen unit over the runner-up.

N = 10 sources. U and T are Tarcil's codes of two digits per source, the source the job causes most
first (``scheduling.core.tarcil.encoding``), so source i weighs 100^-(i+1). A decision stores U and
T to six digits: the three sources that can decide.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from apps.common.core.interference import SOURCES
from apps.dashboard.core import formats, labels
from apps.dashboard.core.explanation import CandidateFacts, Decider
from apps.scheduling.core.tarcil import encoding

DECIDING: Final = 3


@dataclass(frozen=True, slots=True)
class Contribution:
    """One source, in the job's order.

    Attributes
    ----------
    name : display name of the source
    weight : of one point in the score
    gain : contribution to the match over the runner-up; None = below the six stored digits
    headroom, other : tolerated minus actual pressure, points, on the chosen unit and the runner-up
    """

    name: str
    weight: float
    gain: float | None
    headroom: float
    other: float

    @property
    def weight_text(self) -> str:
        """The weight of one point, without an exponent."""
        return f"{self.weight:.6f}".rstrip("0")

    @property
    def gain_text(self) -> str:
        """The contribution, with the digits of its weight."""
        digits = {1e-2: 2, 1e-4: 4}.get(round(self.weight, 6), 6)
        return formats.signed(self.gain or 0.0, digits)


@dataclass(frozen=True, slots=True)
class MatchComparison:
    """The chosen unit compared with the runner-up.

    Attributes
    ----------
    title : names the deciding source
    chosen, runner_up : names of the servers
    rows : all N sources in the job's order
    """

    title: str
    chosen: str
    runner_up: str
    rows: tuple[Contribution, ...]

    @property
    def margin(self) -> int:
        """Points of headroom that the policy `tarcil` requires of every source."""
        return round(encoding.MARGIN)

    @property
    def decider(self) -> Decider:
        """The first source that differs: it weighs a hundred times as much as the next."""
        first = _first_different(self.rows)
        return Decider(first.name, first.headroom, first.other, self.runner_up)


def compare(
    candidates: Sequence[CandidateFacts], caused: Sequence[float]
) -> MatchComparison | None:
    """Compare the first chosen unit with the best other unit that has a different score.

    None if the policy computes no quality, if all units have the same score, or if only one of
    the two is good enough: then the rule decided, not a source.

    Parameters
    ----------
    caused : (N,) interference the job causes, 0-100, from its profile
    """
    chosen = next((c for c in candidates if c.verdict == "chosen"), None)
    if chosen is None or not chosen.headroom or not pairs(chosen.quality):
        return None
    others = [
        c
        for c in candidates
        if c.verdict == "outranked" and c.headroom and pairs(c.quality) != pairs(chosen.quality)
    ]
    if not others or chosen.is_enough != others[0].is_enough:
        return None
    other = others[0]
    order = sorted(range(len(SOURCES)), key=lambda i: -caused[i])  # stable, like the encoding
    gains = _gains(chosen, other)
    rows = tuple(
        Contribution(
            name=labels.SOURCE_NAMES[SOURCES[i]],
            weight=100.0 ** -(place + 1),
            gain=gains[place] if place < DECIDING else None,
            headroom=chosen.headroom[i],
            other=other.headroom[i],
        )
        for place, i in enumerate(order)
    )
    return MatchComparison(_title(rows, other), chosen.server, other.server, rows)


def deciding_source(quality: float, target: float, caused: Sequence[float]) -> int | None:
    """Return the index of the source by which a quality U falls below the needed T.

    None if it does not, or only in digits that decisions do not store.

    Parameters
    ----------
    caused : (N,) interference the job causes, 0-100: the order of the sources
    """
    order = sorted(range(len(SOURCES)), key=lambda i: -caused[i])
    for place, (mine, needed) in enumerate(zip(pairs(quality), pairs(target), strict=False)):
        if mine != needed:
            return order[place] if mine < needed else None
    return None


def pairs(code: float) -> tuple[int, ...]:
    """Return the first three digit pairs of a code in [0, 1]; () = not computed."""
    if math.isnan(code):
        return ()
    whole = min(999_999, round(code * 1e6))
    return (whole // 10_000, whole // 100 % 100, whole % 100)


def _gains(chosen: CandidateFacts, other: CandidateFacts) -> tuple[float, ...]:
    """Return the difference of two matches, 1 - (U - T) or U, by digit pair."""
    mine, theirs = pairs(chosen.quality), pairs(other.quality)
    sign = 1 if chosen.is_enough else -1
    return tuple(
        sign * (b - a) * 100.0 ** -(i + 1)
        for i, (a, b) in enumerate(zip(mine, theirs, strict=True))
    )


def _first_different(rows: Sequence[Contribution]) -> Contribution:
    return next((row for row in rows if row.gain), rows[0])


def _title(rows: Sequence[Contribution], other: CandidateFacts) -> str:
    first = _first_different(rows)
    total = sum(row.gain or 0.0 for row in rows)
    return (
        f"{first.name} made the difference: match {formats.signed(total, 4)} over {other.server}"
    )
