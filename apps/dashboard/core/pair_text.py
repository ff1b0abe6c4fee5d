"""Texts of the pages about a measured pair: numbers, verdicts and one sentence."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from apps.classification.core.estimates import Estimate
from apps.common.core.interference import SOURCE_NAMES
from apps.dashboard.core import formats
from apps.testbed.core.pairs.rounds import is_wide

DIGITS: Final = 3  # after the point: slowdowns are mostly close to 1


@dataclass(frozen=True, slots=True)
class SideFacts:
    """One application of a pair.

    Attributes
    ----------
    predicted, measured : slowdown; None if not known, or not yet
    holds, overlaps : verdict on the prediction; None without one
    missing : applications without any score
    unmeasured : sources whose tolerance is inferred or assumed
    """

    application: str
    command: tuple[str, ...]
    units: int
    predicted: Estimate | None
    measured: Estimate | None
    holds: bool | None
    overlaps: bool | None
    missing: tuple[str, ...] = ()
    unmeasured: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """Return whether the prediction holds: a few words."""
        if self.missing:
            return "no prediction"
        if self.holds is None:
            return "not measured yet"
        if self.holds:
            return "prediction holds" if self.is_held else "too wide to tell"
        return "intervals overlap" if self.overlaps else "prediction does not hold"

    @property
    def outcome(self) -> str:
        """Return the verdict as a name for style sheets."""
        if self.holds is None:
            return "none"
        if self.is_held:
            return "holds"
        return "near" if self.holds or self.overlaps else "off"

    @property
    def is_held(self) -> bool:
        """Return whether the prediction holds, and its interval is narrow enough to mean it."""
        if not self.holds or self.predicted is None:
            return False
        return not is_wide(self.predicted.low, self.predicted.high)

    @property
    def missing_text(self) -> str:
        """Return why there is no prediction."""
        return f"No scores of {formats.listed(self.missing)}" if self.missing else ""

    @property
    def unmeasured_text(self) -> str:
        """Return the sources that were not measured."""
        return ", ".join(SOURCE_NAMES[name] for name in self.unmeasured) or "none"


def number(estimate: Estimate | None) -> str:
    """Return a slowdown such as 1.050; a dash without one."""
    return "–" if estimate is None else f"{estimate.value:.{DIGITS}f}"


def interval(estimate: Estimate | None) -> str:
    """Return the 90 % interval; empty without one."""
    if estimate is None:
        return ""
    return f"[{estimate.low:.{DIGITS}f}, {estimate.high:.{DIGITS}f}]"


def finding(sides: Sequence[SideFacts], *, is_emulated: bool) -> str:
    """Return the result of a pair in one sentence."""
    first, second = sides
    if first.measured is None or second.measured is None:
        names = f"{first.application} and {second.application}"
        return f"What {names} cost each other, predicted and measured"
    slowed = " and ".join(
        f"{side.application} {_change(side.measured)}" for side in sides if side.measured
    )
    emulated = "In the emulator, next to each other" if is_emulated else "Next to each other"
    return f"{emulated}, {slowed}: {_holding(sides)}"


def _change(measured: Estimate) -> str:
    """Return "takes 5.0 % longer", or that the interval includes no change."""
    if measured.low <= 1.0 <= measured.high:
        return "takes as long as alone, within noise"
    longer = "longer" if measured.value > 1.0 else "less time"
    return f"takes {formats.percent(abs(measured.value - 1.0))} {longer}"


def _too_wide(names: Sequence[str]) -> str:
    intervals, verb = ("interval", "is") if len(names) == 1 else ("intervals", "are")
    return f"the predicted {intervals} of {formats.listed(names)} {verb} too wide to tell"


def _holding(sides: Sequence[SideFacts]) -> str:
    known = [side for side in sides if side.holds is not None]
    held = sum(side.is_held for side in known)
    if not known:
        return "nothing was predicted"
    wide = [side.application for side in known if side.holds and not side.is_held]
    if wide:
        wrong = [side.application for side in known if not side.holds]
        return "; ".join(
            [*(f"the prediction of {name} does not hold" for name in wrong), _too_wide(wide)]
        )
    if held == len(known):
        return "both predictions hold" if held == 2 else "the only prediction holds"
    if not held:
        return "no prediction holds" if len(known) == 2 else "the only prediction does not hold"
    return f"the prediction of {next(s.application for s in known if s.is_held)} holds"
