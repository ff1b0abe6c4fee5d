"""Distances of the times between arrivals of a trace to those of all arrival processes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from apps.testbed.core.arrival_fit import (
    FitProcess,
    fit_diurnal,
    fit_modulated,
    fit_poisson,
    fit_process,
    held_out,
)
from apps.testbed.core.arrival_gaps import fit_gaps
from apps.testbed.core.arrivals import MINUTE_S, arrivals
from apps.testbed.core.fitting import ks_distance
from apps.testbed.core.traces import Floats

FITS: Final[Mapping[str, FitProcess]] = {
    "Poisson": fit_poisson,
    "modulated": fit_modulated,
    "diurnal": fit_diurnal,
    "gaps": fit_gaps,
}
DRAWS: Final = 10
HEAD: Final = (
    "process",
    "distance",
    "held out",
    "two samples, all",
    "two samples, held out",
    "chosen",
)


@dataclass(frozen=True, slots=True)
class ProcessDistance:
    """Kolmogorov-Smirnov distances of the times between arrivals, of one process.

    Attributes
    ----------
    all : mean over draws of the process as fitted to the whole trace
    held_out : mean over windows that it was not fitted to; None with too few arrivals
    same_all, same_held_out : what two samples of one distribution reach in 95 % of cases
    is_chosen : `fit_process` takes this one
    """

    process: str
    all: float
    held_out: float | None
    same_all: float
    same_held_out: float | None
    is_chosen: bool


def process_distances(submit_s: Floats, seed: int = 1) -> list[ProcessDistance]:
    """Fit every process to (n,) non-decreasing arrivals; leave out those that cannot be fitted.

    Raises
    ------
    ValueError : fewer than two arrivals.
    """
    if submit_s.size < 2:
        raise ValueError(f"at least 2 arrivals are needed, not {submit_s.size}")
    span_s = max(float(submit_s[-1]), MINUTE_S)
    chosen = type(fit_process(submit_s, span_s))
    source = np.diff(submit_s)
    rows = []
    for name, fit in FITS.items():
        process = fit(submit_s, span_s, None)
        if process is None:
            continue
        rng = np.random.default_rng(seed)
        drawn = [np.diff(arrivals(process, submit_s.size, span_s, rng)) for _ in range(DRAWS)]
        windows = held_out(submit_s, span_s, fit)
        rows.append(
            ProcessDistance(
                process=name,
                all=float(np.mean([ks_distance(source, each) for each in drawn])),
                held_out=None if windows is None else float(windows.distance.mean()),
                same_all=float(1.358 * np.sqrt(2.0 / source.size)),
                same_held_out=None if windows is None else float(windows.same.mean()),
                is_chosen=isinstance(process, chosen),
            )
        )
    return rows


def table(rows: Sequence[ProcessDistance]) -> list[list[str]]:
    """Rows of text in the order of `HEAD`."""
    return [
        [
            row.process,
            f"{row.all:.3f}",
            _shown(row.held_out),
            f"{row.same_all:.3f}",
            _shown(row.same_held_out),
            "yes" if row.is_chosen else "",
        ]
        for row in rows
    ]


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
