"""Update the cells of an application from rates of its running jobs (Quasar §3.2, Q5).

The logarithm of an undisturbed rate is a sum of logarithms of cells:

    ln rate = ln base + ln out(servers) + ln Σ_s speed(platform of s) · up(units on s) + ln waves
              + ln setting

with n cells in all, the curves interpolated in log-log. A job that ran at a measured rate is one
linear observation of them, h·x + noise, so the conditional Gaussian of x given all observations is
known exactly (the Kalman update); the sum over servers is linearised at the present estimate.

The noise comes from the monitor and from neighbours. A unit placed within its tolerance loses at
most 5 % (Paragon §2.3, P3), a unit beyond it more; the constants below give the expected loss and
its deviation, from docs/classification.md, "Feedback and drift".
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from apps.classification.core.estimates import HALF_WIDTH_90
from apps.classification.core.matrix import RATE_COLUMNS, Cell, MatrixName
from apps.classification.core.profile import LOG_POINTS, Profile, point_labels
from apps.common.core.arrays import as_readonly
from apps.inventory.core.snapshot import Floats

# share of the rate left by neighbours, and the deviation of its logarithm: per server, and common
# to all servers of a job
NEIGHBOURS: Final = 0.96
SERVER_DEVIATION: Final = 0.06
COMMON_DEVIATION: Final = 0.02
# for a job placed beyond its tolerance: cost of each point of excess pressure to the logarithm of
# its rate, and the deviation of that cost; it varies much between applications
POINT_COST: Final = 0.015
POINT_DEVIATION: Final = 0.01
# deviation between the rate in a one-minute profiling run and the rate of whole runs
RUN_DEVIATION: Final = 0.05
# random walk of the rate between observations: the cost of neighbours changes with the load of the
# cluster, so old observations lose weight
WALK: Final = 0.01
# observations beyond this many deviations lose weight: one bad neighbour is an outlier
CREDIBLE: Final = 3.0
# applications differ in sensitivity: noise is scaled by the scatter of their own innovations, with
# the constants above as a prior worth this many observations
SCATTER_WEIGHT: Final = 8.0
# a new profile is due if a variance falls to this share or a value shifts by this many deviations;
# the RECORD limits select the cells that are stored with it
SHRUNK: Final = 0.5
MOVED: Final = 1.0
RECORD_SHRUNK: Final = 0.9
RECORD_MOVED: Final = 0.25

METRIC, BYTES = RATE_COLUMNS


class CellKey(NamedTuple):
    """Matrix and column of a cell."""

    matrix: MatrixName
    column: str


class ServerUnits(NamedTuple):
    """Units of a job on one server."""

    platform: str
    units: int


@dataclass(frozen=True, slots=True)
class Observation:
    """Measured rate of one job over an interval.

    Attributes
    ----------
    run : identifies job and run; observations of one run share their neighbours
    parts : units by server, at least one
    column : of the base rate: the application's metric, or input bytes
    rate : work per second of the whole job, > 0
    deviation : measurement error of the logarithm of ``rate``, >= 0
    busy : share of busy units, in (0, 1]: the last wave of tasks leaves units idle
    setting : label of the framework setting it ran with; empty = the default
    beyond : pressure above the tolerance of its units when they were chosen, in points, >= 0: the
        worst source of each unit, averaged
    """

    run: str
    parts: tuple[ServerUnits, ...]
    column: str
    rate: float
    deviation: float
    busy: float = 1.0
    setting: str = ""
    beyond: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Belief:
    """Joint normal distribution of the logarithms of an application's n cells.

    Attributes
    ----------
    platforms : names
    settings : labels of framework settings
    keys : of the n cells: two base rates, the platforms, the two curves, the settings
    up, out : K, L points of the curves
    mean : (n,)
    covariance : (n, n); zero in rows of fixed cells
    """

    platforms: tuple[str, ...]
    settings: tuple[str, ...]
    keys: tuple[CellKey, ...]
    up: int
    out: int
    mean: Floats
    covariance: Floats

    @property
    def deviation(self) -> Floats:
        """(n,) standard deviation of each logarithm."""
        return np.sqrt(np.diag(self.covariance))


class Prediction(NamedTuple):
    """Predicted rate of an observation.

    Attributes
    ----------
    log_rate : its logarithm
    gradient : (n,) h, its derivative by each cell
    deviation : of the logarithm, including noise
    """

    log_rate: float
    gradient: Floats
    deviation: float

    @property
    def rate(self) -> float:
        """Work per second."""
        return math.exp(self.log_rate)


@dataclass(frozen=True, slots=True, eq=False)
class BeliefUpdate:
    """Result of k observations.

    Attributes
    ----------
    belief : after the last observation
    innovations : (k,) prediction errors at the time of each observation, in deviations: standard
        normal if the belief is correct
    errors : (k,) ln(measured / expected)
    """

    belief: Belief
    innovations: Floats
    errors: Floats


def prior_belief(
    profile: Profile, *, fixed: Collection[CellKey] = (), tied: bool = True
) -> Belief:
    """Convert a profile to the prior belief.

    Parameters
    ----------
    fixed : overridden cells, which observations never change
    tied : both base rates were measured in the same runs, so they change together
    """
    rates = np.array([profile.base_rate, profile.bytes_rate])
    errors = np.array([profile.base_rate_se, profile.bytes_rate_se])
    rows = (
        profile.platform_speed,
        profile.scale_up,
        profile.scale_out,
        profile.framework,
    )
    widths = [np.log(row.high / row.low) / (2.0 * HALF_WIDTH_90) for row in rows]
    covariance = np.diag(np.concatenate([errors, *widths]) ** 2)
    covariance[:2, :2] += RUN_DEVIATION**2
    if tied:
        covariance[0, 1] = covariance[1, 0] = errors.prod() + RUN_DEVIATION**2
    up, out = profile.scale_up.value.size, profile.scale_out.value.size
    keys = (
        *(CellKey(MatrixName.BASE_RATE, column) for column in RATE_COLUMNS),
        *(CellKey(MatrixName.HETEROGENEITY, name) for name in profile.platforms),
        *(CellKey(MatrixName.SCALE_UP, column) for column in point_labels(up)),
        *(CellKey(MatrixName.SCALE_OUT, column) for column in point_labels(out)),
        *(CellKey(MatrixName.FRAMEWORK, label) for label in profile.settings),
    )
    frozen = [i for i, place in enumerate(keys) if place in fixed]
    covariance[frozen, :] = covariance[:, frozen] = 0.0
    mean = np.log(np.concatenate([rates, *(row.value for row in rows)]))
    return Belief(profile.platforms, profile.settings, keys, up, out, mean, covariance)


def predict(belief: Belief, observation: Observation, *, repeats: int = 1) -> Prediction | None:
    """Predict the rate of an observation; None if its platform or setting is unknown.

    Parameters
    ----------
    repeats : number of observations of the same run. They share their neighbours, so together they
        must not weigh more than one: the neighbours' variance is multiplied by this number.
    """
    if any(part.platform not in belief.platforms for part in observation.parts):
        return None
    if observation.setting and observation.setting not in belief.settings:
        return None
    up, out, end = _offsets(belief)
    gradient = np.zeros(belief.mean.size)
    kinds = Counter(observation.parts)
    rows = np.zeros((len(kinds), belief.mean.size))
    for row, part in zip(rows, kinds, strict=True):
        row[len(RATE_COLUMNS) + belief.platforms.index(part.platform)] = 1.0
        row[up:out] = _curve_weights(part.units, belief.up)
    logs = rows @ belief.mean + np.log(list(kinds.values()))
    total = np.logaddexp.reduce(logs)
    gradient += np.exp(logs - total) @ rows
    gradient[out:end] = _curve_weights(len(observation.parts), belief.out)
    if observation.setting:
        gradient[end + belief.settings.index(observation.setting)] = 1.0
    gradient[RATE_COLUMNS.index(observation.column)] = 1.0
    log_rate = (
        belief.mean[RATE_COLUMNS.index(observation.column)]
        + total
        + gradient[out:] @ belief.mean[out:]
        + math.log(observation.busy * NEIGHBOURS)
        - POINT_COST * observation.beyond
    )
    common = math.hypot(COMMON_DEVIATION, POINT_DEVIATION * observation.beyond)
    neighbours = SERVER_DEVIATION**2 / len(observation.parts) + common**2
    noise = observation.deviation**2 + repeats * neighbours
    spread = float(gradient @ belief.covariance @ gradient)
    return Prediction(float(log_rate), gradient, math.sqrt(spread + noise))


def update_belief(belief: Belief, observations: Sequence[Observation]) -> BeliefUpdate:
    """Apply observations, oldest first; skip those that cannot be predicted. O(k·n²)."""
    repeats = Counter(observation.run for observation in observations)
    mean, covariance = belief.mean.copy(), belief.covariance.copy()
    now = replace(belief, mean=mean, covariance=covariance)
    walks = np.ix_(*2 * [[i for i in range(len(RATE_COLUMNS)) if covariance[i, i] > 0.0]])
    innovations, errors, scatter = [], [], _Scatter()
    for observation in observations:
        expected = predict(now, observation, repeats=repeats[observation.run])
        if expected is None:
            continue
        error = math.log(observation.rate) - expected.log_rate
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
    return BeliefUpdate(now, np.array(innovations), np.array(errors))


class _Scatter:
    """Scale of an application's innovations, >= 1, estimated from earlier ones."""

    def __init__(self) -> None:
        self._sum = self._weight = SCATTER_WEIGHT
        self.scale = 1.0

    def standard(self, innovation: float) -> float:
        """Standardise an innovation by the current scale, then update the scale; clip outliers."""
        self.scale = max(1.0, math.sqrt(self._sum / self._weight))
        self._sum += min(innovation**2, (CREDIBLE * self.scale) ** 2)
        self._weight += 1.0
        return innovation / self.scale


def cells_to_record(before: Belief, after: Belief, recorded: Mapping[CellKey, Cell]) -> list[Cell]:
    """Return the posterior cells to store; empty unless a new profile is due.

    A new profile is due if the variance of a cell has halved, or its value has shifted by one
    deviation, since the cell was stored last (initially: since the prior). Then all cells with
    clearly lower variance or a shift are returned. So the number of profiles grows with the
    logarithm of the number of jobs.

    Parameters
    ----------
    before, after : belief without observations, and with all of them
    recorded : the cells as stored last
    """
    updates = [
        _cell_update(after, i, float(before.deviation[i]), recorded.get(place))
        for i, place in enumerate(after.keys)
    ]
    if not any(update.left <= SHRUNK or update.moved >= MOVED for update in updates):
        return []
    return [
        update.cell
        for update in updates
        if update.left <= RECORD_SHRUNK or update.moved >= RECORD_MOVED
    ]


class _CellUpdate(NamedTuple):
    """Posterior of a cell: remaining share of its variance, and shift in deviations."""

    cell: Cell
    left: float
    moved: float


def _cell_update(after: Belief, i: int, before: float, last: Cell | None) -> _CellUpdate:
    place, value = after.keys[i], math.exp(after.mean[i])
    deviation = math.sqrt(after.covariance[i, i])
    cell = Cell(place.matrix, place.column, value, value * deviation)
    reference = before if last is None else _relative(last)
    if reference == 0.0:
        return _CellUpdate(cell, 1.0, 0.0)
    moved = 0.0 if last is None else abs(after.mean[i] - math.log(last.value)) / reference
    return _CellUpdate(cell, (deviation / reference) ** 2, moved)


def _relative(cell: Cell) -> float:
    return cell.standard_error / cell.value


def _offsets(belief: Belief) -> tuple[int, int, int]:
    """Return the indices at which the two curves and the settings begin."""
    up = len(RATE_COLUMNS) + len(belief.platforms)
    return up, up + belief.up, up + belief.up + belief.out


@lru_cache(maxsize=256)
def _curve_weights(size: int, points: int) -> Floats:
    """Interpolation weights of a curve's points at ``size`` (see `Profile`)."""
    x, last = math.log2(size), points - 1
    left = min(int(np.searchsorted(LOG_POINTS[:points], x, side="right")) - 1, last - 1)
    share = (x - LOG_POINTS[left]) / (LOG_POINTS[left + 1] - LOG_POINTS[left])
    weights = np.zeros(points)
    weights[left], weights[left + 1] = 1.0 - share, share
    return as_readonly(weights)
