"""Dips: periods in which a job misses its target."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats

MIN_REPORTS = 2  # one report below the target is noise, unless it is the mean of several


@dataclass(frozen=True, slots=True)
class Dip:
    """A period below the target.

    Attributes
    ----------
    begin_s, end_s : first and last report below the target
    is_open : whether the last report of the job belongs to it
    reports : number of reports below the target
    lowest : worst performance over target
    """

    begin_s: float
    end_s: float
    is_open: bool
    reports: int
    lowest: float

    def covers(self, at_s: Floats) -> Bools:
        """Whether times lie inside, ends included; same shape."""
        inside: Bools = (at_s >= self.begin_s) & (at_s <= self.end_s)
        return inside


def dips(at_s: Floats, attainment: Floats, readings: Floats) -> tuple[Dip, ...]:
    """Return the dips of a job, oldest first.

    A single report above the target inside a dip does not end it, and a single report below the
    target is no dip, unless it is the mean of several: readings are noisy.

    Parameters
    ----------
    at_s : (T,) ascending
    attainment : (T,) performance over target; NaN = not measured, ignored
    readings : (T,) number of reports that each is the mean of
    """
    known = np.flatnonzero(~np.isnan(attainment))
    below = [bool(attainment[i] < 1.0) for i in known]
    for i in range(1, len(below) - 1):
        below[i] |= below[i - 1] and below[i + 1] and readings[known[i]] <= 1
    runs = [
        [int(known[i]) for i, _ in run]
        for is_below, run in groupby(enumerate(below), key=lambda pair: pair[1])
        if is_below
    ]
    found = []
    for run in runs:
        missed = [i for i in run if attainment[i] < 1.0]
        if readings[missed].sum() >= MIN_REPORTS:
            found.append(
                Dip(
                    begin_s=float(at_s[run[0]]),
                    end_s=float(at_s[run[-1]]),
                    is_open=run[-1] == int(known[-1]),
                    reports=len(missed),
                    lowest=float(attainment[missed].min()),
                )
            )
    return tuple(found)


def shown_dip(found: Sequence[Dip], at_s: float | None = None) -> Dip | None:
    """Return the dip at a time, or else the last one before it; the latest without a time."""
    if at_s is None:
        return found[-1] if found else None
    return next((dip for dip in reversed(found) if dip.begin_s <= at_s), None)
