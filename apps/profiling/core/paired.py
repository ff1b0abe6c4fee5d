"""The effect of a stressor on a real program, from pairs of windows next to each other in time.

A pair has one window with the stressor on and one with it off, in alternating order, so that a
slow change of the machine cancels. The difference of the logarithms of both speeds is the unit of
all statistics here; the noise of a difference is first estimated from pairs of off-windows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from scipy.special import stdtrit

from apps.profiling.core.ramp import CONFIDENCE, NoisePrior
from apps.profiling.core.windows import Basis, Fault, Window, fault_of_pair

MIN_DEVIATION = 0.001  # a prior below it would claim a precision that clocks do not have


@dataclass(frozen=True, slots=True)
class Pair:
    """Two windows next to each other; the stressor was on in one of them."""

    on: Window
    off: Window

    def fault(self, basis: Basis) -> Fault | None:
        """Return why the pair does not count; None if it does."""
        return fault_of_pair(self.on, self.off, basis)

    def difference(self, basis: Basis) -> float:
        """Logarithm of the speed with the stressor relative to the speed without it."""
        return math.log(self.on.speed(basis) / self.off.speed(basis))


@dataclass(frozen=True, slots=True)
class Effect:
    """Speed next to a stressor relative to the speed without it, with its 90 % interval."""

    ratio: float
    low: float
    high: float
    pairs: int


def noise_prior(off: Sequence[Window], basis: Basis) -> NoisePrior | None:
    """Return the noise of a pair without any effect; None if too few windows are valid.

    Parameters
    ----------
    off : windows without a stressor, in their order: the first and second are a pair, and so on.
        At least two pairs must be valid.

    Returns
    -------
    The root mean square of the differences, whose expectation is 0 without a stressor; its weight
    is the number of pairs.
    """
    pairs = [
        Pair(on=first, off=second) for first, second in zip(off[::2], off[1::2], strict=False)
    ]
    squares = [pair.difference(basis) ** 2 for pair in pairs if not pair.fault(basis)]
    if len(squares) < 2:
        return None
    return NoisePrior(max(MIN_DEVIATION, math.sqrt(fmean(squares))), weight=len(squares))


def cpu_share(off: Sequence[Window]) -> float | None:
    """Return the median share of a core that the program uses alone; None if it never worked.

    Time in which it waited for the core does not count, so that other programs may run there.

    Parameters
    ----------
    off : windows without a stressor
    """
    times = [
        (window.cpu_s, window.wall_s - (window.wait_s or 0.0))
        for window in off
        if window.fault is None and window.work > 0.0
    ]
    return median(cpu_s / usable_s for cpu_s, usable_s in times) if times else None


def effect(differences: Sequence[float], prior: NoisePrior) -> Effect:
    """Return the mean effect of pairs, with the interval of Student's t.

    The variance is pooled from the differences and the prior: with weight w and n differences, it
    has w + n - 1 degrees of freedom.

    Raises
    ------
    ValueError : no difference.
    """
    if not differences:
        raise ValueError("an effect needs at least one pair")
    mean, count = fmean(differences), len(differences)
    within = sum((difference - mean) ** 2 for difference in differences)
    freedom = prior.weight + count - 1
    variance = (prior.weight * prior.deviation**2 + within) / freedom
    half = float(stdtrit(freedom, 0.5 + CONFIDENCE / 2.0)) * math.sqrt(variance / count)
    return Effect(math.exp(mean), math.exp(mean - half), math.exp(mean + half), count)


def drift(off: Sequence[Window], basis: Basis) -> float:
    """Return by how much the speed without a stressor changed: second half relative to first.

    0 with fewer than four windows. All windows must be valid.
    """
    speeds = [window.speed(basis) for window in off]
    half = len(speeds) // 2
    return median(speeds[half:]) / median(speeds[:half]) - 1.0 if half >= 2 else 0.0
