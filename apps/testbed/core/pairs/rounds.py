"""Rounds of a measured pair, and the slowdowns that follow from them.

A round measures both applications alone and then together, in an order that rotates. The unit of
all statistics is the logarithm of the time together over the time alone in the same round, so that
a slow change of the machine cancels.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final

from scipy.special import stdtrit

from apps.classification.core.estimates import Estimate

CONFIDENCE: Final = 0.9
MIN_ROUNDS: Final = 3  # an interval of fewer has no use
WIDE: Final = 1.5  # high over low of a predicted slowdown, beyond which it tells little
Two = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Round:
    """One round.

    Attributes
    ----------
    alone, together : seconds per run of the first and of the second application, > 0
    foreign : largest share of the cores that other programs used in one of its windows
    """

    alone: Two
    together: Two
    foreign: float = 0.0

    def ratio(self, side: int) -> float:
        """Time together over the time alone of one application."""
        return self.together[side] / self.alone[side]

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "alone": list(self.alone),
            "together": list(self.together),
            "foreign": self.foreign,
        }


@dataclass(frozen=True, slots=True)
class Report:
    """The output of the job that measures, read so far.

    Attributes
    ----------
    rounds : those that count
    rejected : rounds in which other programs used too much of the cores
    failure : why it gave up; empty if it did not
    is_complete : the job has written its last line
    """

    rounds: tuple[Round, ...] = ()
    rejected: int = 0
    failure: str = ""
    is_complete: bool = False


def read_report(output: str) -> Report:
    """Read the lines of a measuring job; a last incomplete line is ignored.

    Raises
    ------
    ValueError : a line is not from `infrastructure.pair_program`.
    """
    rounds: list[Round] = []
    rejected, failure, is_complete = 0, "", False
    for line in output.splitlines(keepends=True):
        if not line.endswith("\n"):
            break
        found = _line(line)
        if "failed" in found:
            failure, is_complete = str(found["failed"])[:500], True
        elif "done" in found:
            is_complete = True
        elif found.get("counts"):
            rounds.append(round_from_json(found))
        else:
            rejected += 1
    return Report(tuple(rounds), rejected, failure, is_complete)


def _line(line: str) -> Mapping[str, Any]:
    try:
        return {**json.loads(line)}
    except (ValueError, TypeError) as error:
        raise ValueError(f"not a line of a measurement: {line:.80}") from error


def round_from_json(stored: Mapping[str, Any]) -> Round:
    """Read `Round.as_json`.

    Raises
    ------
    ValueError : a field is missing, or a time is not positive.
    """
    try:
        first, second = (_times(stored[name]) for name in ("alone", "together"))
        foreign = float(stored["foreign"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"a round lacks {error}") from error
    return Round(first, second, foreign)


def _times(values: Sequence[Any]) -> Two:
    first, second = map(float, values)
    if not (0.0 < first < math.inf and 0.0 < second < math.inf):
        raise ValueError(f"times must be positive, got {first} and {second}")
    return first, second


def measured_slowdown(rounds: Sequence[Round], side: int) -> Estimate:
    """Return the mean slowdown of one application, with the 90 % interval of Student's t.

    Parameters
    ----------
    side : 0 = the first application, 1 = the second

    Raises
    ------
    ValueError : fewer than two rounds.
    """
    logs = [math.log(each.ratio(side)) for each in rounds]
    count = len(logs)
    if count < 2:
        raise ValueError(f"an interval needs two rounds, got {count}")
    mean = fmean(logs)
    variance = sum((log - mean) ** 2 for log in logs) / (count - 1)
    half = float(stdtrit(count - 1, 0.5 + CONFIDENCE / 2.0)) * math.sqrt(variance / count)
    return Estimate(math.exp(mean), math.exp(mean - half), math.exp(mean + half))


def holds(predicted: Estimate | None, measured: Estimate) -> bool | None:
    """Whether the predicted interval contains the measured value; None without a prediction."""
    return None if predicted is None else predicted.low <= measured.value <= predicted.high


def is_wide(low: float, high: float) -> bool:
    """Whether an interval is so wide that containing the measured value means little."""
    return high > WIDE * low


def overlaps(predicted: Estimate | None, measured: Estimate) -> bool | None:
    """Whether both intervals have a common part; None without a prediction."""
    if predicted is None:
        return None
    return predicted.low <= measured.high and measured.low <= predicted.high


def summary(
    rounds: Sequence[Round], predictions: Iterable[Estimate | None], *, rejected: int
) -> dict[str, Any]:
    """Return the stored result of a pair.

    Raises
    ------
    ValueError : fewer than `MIN_ROUNDS` rounds.
    """
    if len(rounds) < MIN_ROUNDS:
        raise ValueError(f"{len(rounds)} rounds count, and {MIN_ROUNDS} are needed")
    return {
        "sides": [
            _side(predicted, measured_slowdown(rounds, side))
            for side, predicted in enumerate(predictions)
        ],
        "rounds": [each.as_json() for each in rounds],
        "rejected": rejected,
    }


def _side(predicted: Estimate | None, measured: Estimate) -> dict[str, Any]:
    return {
        "measured": measured._asdict(),
        "holds": holds(predicted, measured),
        "overlaps": overlaps(predicted, measured),
    }
