"""Results of a profiling run, in the form that all backends report."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MeasuredCell:
    """One measured cell of one utility matrix.

    Attributes
    ----------
    matrix, column : e.g. ("scale_up", "8"); docs/emulation.md lists the unit of each matrix
    standard_error : standard error of `value`, in its unit
    samples : number of averaged samples
    """

    matrix: str
    column: str
    value: float
    standard_error: float
    samples: int


@dataclass(frozen=True, slots=True)
class MissingCell:
    """One cell whose probe failed or did not converge, and the reason."""

    matrix: str
    column: str
    reason: str


@dataclass(frozen=True, slots=True)
class ProfilingStep:
    """One completed part of a profiling run: a short run, or the ramps of one source.

    Attributes
    ----------
    at_s : cluster seconds since the start of the run; steps are in this order
    done, total : completed steps including this one, and the expected total
    message : one line for the progress display
    failed : reason why the whole run failed; empty if it succeeded
    """

    at_s: float
    done: int
    total: int
    message: str
    cells: tuple[MeasuredCell, ...] = ()
    missing: tuple[MissingCell, ...] = ()
    failed: str = ""
