"""What running jobs teach about the cells behind their predictions (Quasar §3.2, Q5).

The logarithm of an undisturbed rate is a sum of logarithms of cells:

    ln rate = ln base + ln out(servers) + ln Σ_s speed(platform of s) · up(units on s) + ln waves
              + ln setting

with n cells in all, the curves interpolated in log-log. A job that ran at a measured rate is one
linear observation of them, h·x + noise, so the conditional Gaussian of x given all observations is
known exactly (the Kalman update); the sum over servers is linearised at the present estimate.

The noise is what h·x cannot explain: the monitor, and the neighbours. A unit placed within its
tolerance loses at most 5 % (Paragon §2.2, P3) and one beyond it more; what is expected of them and
how far they scatter are the constants below, from docs/classification.md, "Feedback and drift".
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from apps.classification.core.matrix import RATE_COLUMNS, Cell, MatrixName
from apps.classification.core.profile import HALF_WIDTH_90, LOG_POINTS, Profile, point_labels
from apps.inventory.core.snapshot import Floats

# what neighbours leave of a rate, and the deviation of its logarithm: for one server, and what
# all servers of a job have in common
NEIGHBOURS: Final = 0.96
SERVER_DEVIATION: Final = 0.06
COMMON_DEVIATION: Final = 0.02
# where a job was knowingly put beside too much: what each point of pressure beyond its tolerance
# costs the logarithm of its rate, and the deviation of that; some applications feel it far more
POINT_COST: Final = 0.015
POINT_DEVIATION: Final = 0.01
# a profiling run lasts a minute: the rate of whole runs differs from it by this much
RUN_DEVIATION: Final = 0.05
# from one observation to the next the rate of an application wanders by this much: what its
# neighbours cost changes with the load of the cluster, so old observations must count less
WALK: Final = 0.01
# beyond so many deviations an observation counts less: one bad neighbour is not an application
CREDIBLE: Final = 3.0
# some applications feel their neighbours more: their noise is scaled by what their own innovations
# scatter, of which the constants above weigh as much as so many observations
SCATTER_WEIGHT: Final = 8.0
# what makes a new profile: no more than this share of a variance left, or a move of so many
# deviations; and what else is told with it
SHRUNK: Final = 0.5
MOVED: Final = 1.0
TOLD_SHRUNK: Final = 0.9
TOLD_MOVED: Final = 0.25

METRIC, BYTES = RATE_COLUMNS


class Place(NamedTuple):
    """Which cell."""

    matrix: MatrixName
    column: str


class Part(NamedTuple):
    """What a job holds on one server."""

    platform: str
    units: int


@dataclass(frozen=True, slots=True)
class Observation:
    """One job seen at work for a while.

    Attributes
    ----------
    run : which run of which job; observations of one run share its neighbours
    parts : by server, at least one
    column : of the base rate: the application's own metric, or input bytes
    rate : work per second of the whole job, > 0
    deviation : of the logarithm of ``rate`` as the monitor measures it, >= 0
    busy : share of the units at work, in (0, 1]: tasks in waves leave some idle
    setting : label of the framework setting it ran with; empty = the default
    beyond : points of pressure beyond what its units tolerate when they were chosen: the worst
        source of each unit, on average, >= 0
    """

    run: str
    parts: tuple[Part, ...]
    column: str
    rate: float
    deviation: float
    busy: float = 1.0
    setting: str = ""
    beyond: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Belief:
    """Logarithms of the n cells of one application, jointly normal.

    Attributes
    ----------
    platforms : names
    settings : labels of framework settings
    places : n; two base rates, the platforms, the two curves, the settings
    up, out : K, L points of the curves
    mean : (n,)
    covariance : (n, n); zero in the rows of cells that nothing can move
    """

    platforms: tuple[str, ...]
    settings: tuple[str, ...]
    places: tuple[Place, ...]
    up: int
    out: int
    mean: Floats
    covariance: Floats

    @property
    def deviation(self) -> Floats:
        """(n,) of each logarithm."""
        return np.sqrt(np.diag(self.covariance))


class Prediction(NamedTuple):
    """What is expected of an observation.

    Attributes
    ----------
    log_rate : its logarithm
    gradient : (n,) h, how it moves with each cell
    deviation : of the logarithm, cells and noise together
    """

    log_rate: float
    gradient: Floats
    deviation: float

    @property
    def rate(self) -> float:
        """Work per second."""
        return math.exp(self.log_rate)


@dataclass(frozen=True, slots=True, eq=False)
class Followed:
    """What k observations in a row did to a belief.

    Attributes
    ----------
    belief : after the last
    innovations : (k,) each observation's distance from what was expected of it just then, in
        deviations: standard normal where the belief is right
    errors : (k,) ln(measured / expected)
    """

    belief: Belief
    innovations: Floats
    errors: Floats


def believed(profile: Profile, *, fixed: Collection[Place] = (), tied: bool = True) -> Belief:
    """Turn a profile into the belief that observations start from.

    Parameters
    ----------
    fixed : cells set by hand: never moved
    tied : both base rates come from the same runs, so that what moves one moves the other
    """
    rates = np.array([profile.base_rate, profile.bytes_rate])
    errors = np.array([profile.base_rate_se, profile.bytes_rate_se])
    curves = (
        (profile.platform_speed, profile.platform_low, profile.platform_high),
        (profile.scale_up, profile.scale_up_low, profile.scale_up_high),
        (profile.scale_out, profile.scale_out_low, profile.scale_out_high),
        (profile.framework, profile.framework_low, profile.framework_high),
    )
    widths = [np.log(high / low) / (2.0 * HALF_WIDTH_90) for _, low, high in curves]
    covariance = np.diag(np.concatenate([errors, *widths]) ** 2)
    covariance[:2, :2] += RUN_DEVIATION**2
    if tied:
        covariance[0, 1] = covariance[1, 0] = errors.prod() + RUN_DEVIATION**2
    up, out = profile.scale_up.size, profile.scale_out.size
    places = (
        *(Place(MatrixName.BASE_RATE, column) for column in RATE_COLUMNS),
        *(Place(MatrixName.HETEROGENEITY, name) for name in profile.platforms),
        *(Place(MatrixName.SCALE_UP, column) for column in point_labels(up)),
        *(Place(MatrixName.SCALE_OUT, column) for column in point_labels(out)),
        *(Place(MatrixName.FRAMEWORK, label) for label in profile.settings),
    )
    held = [i for i, place in enumerate(places) if place in fixed]
    covariance[held, :] = covariance[:, held] = 0.0
    mean = np.log(np.concatenate([rates, *(value for value, _, _ in curves)]))
    return Belief(profile.platforms, profile.settings, places, up, out, mean, covariance)


def predict(belief: Belief, seen: Observation, *, repeats: int = 1) -> Prediction | None:
    """Expect the rate of an observation; None where nothing is known of its platform or setting.

    Parameters
    ----------
    repeats : observations of the same run, this one included. They share their neighbours, so
        together they must not weigh more than one: each has the neighbours' variance this many
        times.
    """
    if any(part.platform not in belief.platforms for part in seen.parts):
        return None
    if seen.setting and seen.setting not in belief.settings:
        return None
    up, out, end = _offsets(belief)
    gradient = np.zeros(belief.mean.size)
    kinds = Counter(seen.parts)
    rows = np.zeros((len(kinds), belief.mean.size))
    for row, part in zip(rows, kinds, strict=True):
        row[len(RATE_COLUMNS) + belief.platforms.index(part.platform)] = 1.0
        row[up:out] = _curve_weights(part.units, belief.up)
    logs = rows @ belief.mean + np.log(list(kinds.values()))
    total = np.logaddexp.reduce(logs)
    gradient += np.exp(logs - total) @ rows
    gradient[out:end] = _curve_weights(len(seen.parts), belief.out)
    if seen.setting:
        gradient[end + belief.settings.index(seen.setting)] = 1.0
    gradient[RATE_COLUMNS.index(seen.column)] = 1.0
    log_rate = (
        belief.mean[RATE_COLUMNS.index(seen.column)]
        + total
        + gradient[out:] @ belief.mean[out:]
        + math.log(seen.busy * NEIGHBOURS)
        - POINT_COST * seen.beyond
    )
    common = math.hypot(COMMON_DEVIATION, POINT_DEVIATION * seen.beyond)
    neighbours = SERVER_DEVIATION**2 / len(seen.parts) + common**2
    noise = seen.deviation**2 + repeats * neighbours
    spread = float(gradient @ belief.covariance @ gradient)
    return Prediction(float(log_rate), gradient, math.sqrt(spread + noise))


def follow(belief: Belief, observations: Sequence[Observation]) -> Followed:
    """Take observations in, oldest first; those that cannot be predicted are left out. O(k·n²)."""
    repeats = Counter(seen.run for seen in observations)
    mean, covariance = belief.mean.copy(), belief.covariance.copy()
    now = replace(belief, mean=mean, covariance=covariance)
    walks = np.ix_(*2 * [[i for i in range(len(RATE_COLUMNS)) if covariance[i, i] > 0.0]])
    innovations, errors, scatter = [], [], _Scatter()
    for seen in observations:
        expected = predict(now, seen, repeats=repeats[seen.run])
        if expected is None:
            continue
        error = math.log(seen.rate) - expected.log_rate
        innovation = scatter.standard(error / expected.deviation)
        innovations.append(innovation)
        errors.append(error)
        moved = covariance @ expected.gradient
        explained = float(expected.gradient @ moved)
        noise = (expected.deviation**2 - explained) * scatter.scale**2
        variance = explained + noise * max(1.0, (innovation / CREDIBLE) ** 2)
        mean += moved * (error / variance)
        covariance -= np.outer(moved, moved) / variance
        covariance[walks] += WALK**2
    return Followed(now, np.array(innovations), np.array(errors))


class _Scatter:
    """How far innovations of one application scatter, 1 or more; each by those before it."""

    def __init__(self) -> None:
        self._sum = self._weight = SCATTER_WEIGHT
        self.scale = 1.0

    def standard(self, innovation: float) -> float:
        """Divide by the scatter so far, then count the innovation in; far ones are clipped."""
        self.scale = max(1.0, math.sqrt(self._sum / self._weight))
        self._sum += min(innovation**2, (CREDIBLE * self.scale) ** 2)
        self._weight += 1.0
        return innovation / self.scale


def taught(before: Belief, after: Belief, written: Mapping[Place, Cell]) -> list[Cell]:
    """Cells to tell, with what observations taught of them; none unless it is worth a new profile.

    It is where a cell has no more than half of its variance left, compared to what was told of it
    last, else to the belief before, or has moved by a deviation since it was told. Then every cell
    is told that has clearly less variance than before or moved. So profiles are drawn anew some
    log(jobs) times, not with every job.

    Parameters
    ----------
    before, after : the belief without any observation and with all of them
    written : the cells as they were told last
    """
    lessons = [
        _lesson(after, i, float(before.deviation[i]), written.get(place))
        for i, place in enumerate(after.places)
    ]
    if not any(lesson.left <= SHRUNK or lesson.moved >= MOVED for lesson in lessons):
        return []
    return [
        lesson.cell
        for lesson in lessons
        if lesson.left <= TOLD_SHRUNK or lesson.moved >= TOLD_MOVED
    ]


class _Lesson(NamedTuple):
    """What was learnt of a cell: the share of its variance left, and its move in deviations."""

    cell: Cell
    left: float
    moved: float


def _lesson(after: Belief, i: int, before: float, last: Cell | None) -> _Lesson:
    place, value = after.places[i], math.exp(after.mean[i])
    deviation = math.sqrt(after.covariance[i, i])
    cell = Cell(place.matrix, place.column, value, value * deviation)
    reference = before if last is None else _relative(last)
    if reference == 0.0:
        return _Lesson(cell, 1.0, 0.0)
    moved = 0.0 if last is None else abs(after.mean[i] - math.log(last.value)) / reference
    return _Lesson(cell, (deviation / reference) ** 2, moved)


def _relative(cell: Cell) -> float:
    return cell.standard_error / cell.value


def _offsets(belief: Belief) -> tuple[int, int, int]:
    """Where the two curves and the settings begin."""
    up = len(RATE_COLUMNS) + len(belief.platforms)
    return up, up + belief.up, up + belief.up + belief.out


@lru_cache(maxsize=256)
def _curve_weights(size: int, points: int) -> Floats:
    """Weights of a curve's first points whose sum is its logarithm at ``size`` (see `Profile`)."""
    x, last = math.log2(size), points - 1
    left = min(int(np.searchsorted(LOG_POINTS[:points], x, side="right")) - 1, last - 1)
    share = (x - LOG_POINTS[left]) / (LOG_POINTS[left + 1] - LOG_POINTS[left])
    weights = np.zeros(points)
    weights[left], weights[left + 1] = 1.0 - share, share
    weights.setflags(write=False)
    return weights
