"""Figures of a paper next to our own: values, intervals over seeds, and what they show.

A figure lists quantities with the paper's value, and measures all of them for one seed. A value
that the testbed took from the paper is an input: ours resembles it by construction, so it is never
counted as agreement.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, Protocol

import numpy as np
import scipy

from apps.common.core.errors import ControlPlaneError
from apps.testbed.core.google_tasks import GoogleTasks
from apps.testbed.core.traces import SwimTrace

LEVEL: Final = 0.90  # of the intervals


class ReproductionError(ControlPlaneError, ValueError):
    """A figure does not exist; names those that do."""


class Relation(StrEnum):
    """What the paper says of a quantity."""

    EQUAL = "equal"
    AT_LEAST = "at least"
    AT_MOST = "at most"
    NOT_STATED = "not stated"  # without a number: ours is shown for the others


class Outcome(StrEnum):
    """What a comparison shows."""

    AGREES = "agrees"
    DIFFERS = "differs"
    INPUT = "input"
    NOT_STATED = "not stated"


class DataSets(Protocol):
    """The public data that figures need; read when asked for."""

    def swim(self, file: str) -> SwimTrace:
        """Read a trace of the folder ``swim_facebook``."""
        ...

    def google_hour(self) -> GoogleTasks:
        """Read the first hour of Google 2011 at task level."""
        ...


@dataclass(frozen=True, slots=True)
class Quantity:
    """One number of a figure.

    Attributes
    ----------
    key : in the values that the figure measures
    label, unit : for readers
    paper : the paper's value; None if it states none
    rounding : half of the last digit that the paper gives
    is_input : the testbed took it, or what causes it, from the paper
    why : reason of a difference, if it is known
    """

    key: str
    label: str
    unit: str
    paper: float | None = None
    relation: Relation = Relation.EQUAL
    rounding: float = 0.0
    is_input: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure or table of a paper.

    Attributes
    ----------
    number : as in the paper; tables are ``table-N``
    data : folders of the data that it needs
    measure : values by key, for one seed
    note : on all quantities, for readers
    is_long : takes minutes a seed, so it is only measured if it is named
    small : the same at a reduced size; None = as it is
    """

    number: str
    title: str
    quantities: tuple[Quantity, ...]
    measure: Callable[[int, DataSets], Mapping[str, float]]
    data: tuple[str, ...] = ()
    note: str = ""
    is_long: bool = False
    small: Callable[[int, DataSets], Mapping[str, float]] | None = None

    def reduced(self) -> "Figure":
        """Return the figure at its reduced size, which does not take long."""
        if self.small is None:
            return self
        return replace(self, measure=self.small, is_long=False, title=f"{self.title} (reduced)")


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper with its figures."""

    name: str
    source: str
    figures: tuple[Figure, ...]

    def reduced(self) -> "Paper":
        """Return the paper with every figure at its reduced size."""
        return replace(self, figures=tuple(figure.reduced() for figure in self.figures))

    def chosen(self, number: str | None) -> tuple[Figure, ...]:
        """Return one figure, or all that do not take long.

        Raises
        ------
        ReproductionError : there is no such figure.
        """
        if number is None:
            return tuple(figure for figure in self.figures if not figure.is_long)
        found = tuple(figure for figure in self.figures if figure.number == number)
        if not found:
            known = ", ".join(figure.number for figure in self.figures)
            raise ReproductionError(f"{self.name} has the figures {known}, not {number!r}")
        return found


@dataclass(frozen=True, slots=True)
class Measured:
    """A quantity with our values, one for each seed."""

    quantity: Quantity
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean over the seeds."""
        return float(np.mean(self.values))

    @property
    def is_same(self) -> bool:
        """Whether several seeds gave one value, whose spread is then unknown, not 0."""
        return len(self.values) > 1 and len(set(self.values)) == 1

    @property
    def interval(self) -> tuple[float, float] | None:
        """Student's t interval of the mean at `LEVEL`; None for one seed, or the same values."""
        n = len(self.values)
        if n < 2 or self.is_same:
            return None
        quantile = float(scipy.stats.t.ppf(0.5 + LEVEL / 2, n - 1))
        half = quantile * float(np.std(self.values, ddof=1)) / n**0.5
        return self.mean - half, self.mean + half

    @property
    def outcome(self) -> Outcome:
        """Whether ours agrees with the paper; a mean without an interval counts as a point."""
        what = self.quantity
        if what.is_input:
            return Outcome.INPUT
        if what.paper is None or what.relation is Relation.NOT_STATED:
            return Outcome.NOT_STATED
        low, high = self.interval or (self.mean, self.mean)
        reaches = high >= what.paper - what.rounding
        stays_below = low <= what.paper + what.rounding
        agrees = {
            Relation.EQUAL: reaches and stays_below,
            Relation.AT_LEAST: low >= what.paper - what.rounding,
            Relation.AT_MOST: high <= what.paper + what.rounding,
        }[what.relation]
        return Outcome.AGREES if agrees else Outcome.DIFFERS

    def as_json(self) -> dict[str, Any]:
        """JSON form."""
        what = self.quantity
        return {
            "key": what.key,
            "quantity": what.label,
            "unit": what.unit,
            "paper": what.paper,
            "relation": what.relation.value,
            "ours": self.mean,
            "interval": self.interval and list(self.interval),
            "is_same": self.is_same,
            "outcome": self.outcome.value,
            "why": what.why or None,
        }


def measured(figure: Figure, seeds: Sequence[int], data: DataSets) -> list[Measured]:
    """Measure a figure with each seed.

    Raises
    ------
    TraceError : its data cannot be read.
    """
    runs = [figure.measure(seed, data) for seed in seeds]
    return [
        Measured(what, tuple(float(run[what.key]) for run in runs)) for what in figure.quantities
    ]


def report(
    paper: Paper, seeds: Sequence[int], rows: Mapping[str, list[Measured]]
) -> dict[str, Any]:
    """JSON of the measured figures, by number."""
    return {
        "paper": paper.name,
        "source": paper.source,
        "seeds": list(seeds),
        "level": LEVEL,
        "figures": [
            {
                "figure": figure.number,
                "title": figure.title,
                "note": figure.note or None,
                "quantities": [each.as_json() for each in rows[figure.number]],
            }
            for figure in paper.figures
            if figure.number in rows
        ],
        "not_measured": [figure.number for figure in paper.figures if figure.number not in rows],
    }
