"""How much each suspect contributes to a dip: a Bayesian linear regression.

    log speed = base + Σ_k x_k · v_k(t) + noise

v_k(t) says when and how strongly suspect k acts: a neighbour by the share of the job's units next
to it, a migration by the units that pause, a platform by its speed. The prior of x_k comes from
the profile, that of the base from the prediction at placement. Reports between two changes share
their noise. The posterior is normal; its draws give the confidence that a suspect is the largest
cause and the share of the lost speed that it explains.

Source: Bishop, Pattern Recognition and Machine Learning (2006), §3.3, for the posterior.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np

from apps.classification.core.estimates import Estimate
from apps.execution.core.diagnosis.case import Case
from apps.execution.core.diagnosis.phases import PhaseChange
from apps.execution.core.diagnosis.pressure import marginal_loss, server_pressure
from apps.inventory.core.snapshot import Bools, Floats, Ints

MAX_NEIGHBOURS: Final = 16  # with the largest expected loss; the others cost next to nothing
DRAWS: Final = 4000
SEGMENT_DEVIATION: Final = 0.02  # of the log speed between two changes, beyond reading noise
CHANGE_DEVIATION: Final = 0.15  # of a report during a change, which covers both states
UNKNOWN_DEVIATION: Final = 0.07  # of causes that nothing reports
PHASE_DEVIATION: Final = 0.17  # of the log speed between phases of an application
CAUSED_SHARE: Final = 0.3  # relative deviation of what a neighbour causes
CAUSED_FLOOR: Final = 0.01
LAYOUT_DEVIATION: Final = 0.2  # relative, of the effect of units, platforms and migrations
UNPREDICTED: Final = 1.0  # deviation of the base of a job without a prediction
CLEAR: Final = 0.04  # drop of the log speed from which a dip differs from the time before it


class Kind(StrEnum):
    """Kinds of suspect."""

    NEIGHBOUR = "neighbour"
    PROFILE = "profile"
    PHASE = "phase"
    MIGRATION = "migration"
    PLATFORM = "platform"
    UNITS = "units"
    WAIT = "wait"
    UNKNOWN = "unknown"


class Reference(StrEnum):
    """What the speed at a dip is compared with."""

    BEFORE = "before"  # the reports before the dip
    PREDICTION = "prediction"  # the job never ran clearly faster


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One possible cause.

    Attributes
    ----------
    acts : (T,) v_k(t)
    mean, deviation : prior of x_k
    job, server : of a neighbour
    """

    kind: Kind
    acts: Floats
    mean: float
    deviation: float
    job: str = ""
    server: int | None = None


class Contribution(NamedTuple):
    """Posterior of one column.

    confidence : probability that it is the largest cause
    share : of the lost speed that it explains, with a 90 % interval
    loss : of the log speed at the dip, > 0 = slower than at the reference
    effect, deviation : of the log speed at the dip, whatever the reference; > 0 = slower
    """

    column: Column
    confidence: float
    share: Estimate
    loss: float
    effect: float
    deviation: float


@dataclass(frozen=True, slots=True)
class Attribution:
    """Contributions, largest confidence first.

    Attributes
    ----------
    drop : of the log speed from the reference to the dip
    now : mean log speed at the dip
    before : (T,) the reports of the reference; all False = the prediction
    """

    reference: Reference
    drop: float
    now: float
    before: Bools
    contributions: tuple[Contribution, ...]


def attribute(
    case: Case,
    at_dip: Bools,
    before: Bools,
    phase: PhaseChange | None,
    rng: np.random.Generator,
) -> Attribution:
    """Attribute the lost speed at a dip to columns. O(T·K + K³ + draws·K).

    Parameters
    ----------
    at_dip, before : (T,) the reports of the dip, and those at target before it
    """
    speed = case.reports.log_speed
    known = ~np.isnan(speed)
    at_dip, before = at_dip & known, before & known
    now = _mean(speed, at_dip)
    drop = _mean(speed, before) - now if before.any() else 0.0
    reference = Reference.BEFORE
    if drop < CLEAR and case.predicted is not None:
        reference, before = Reference.PREDICTION, np.zeros_like(before)
        drop = case.predicted[0] - now
    base = case.predicted or (float(np.nanmean(speed)), UNPREDICTED)
    columns = _columns(case, at_dip, phase, base[1])
    acts = np.stack([column.acts for column in columns], axis=1)
    prior = np.array([[column.mean, column.deviation] for column in columns])
    change = acts[at_dip].mean(axis=0)
    if reference is Reference.BEFORE:
        change = change - (acts[before].mean(axis=0) if before.any() else 0.0)
        change[0] = 0.0
    rows = _segments(acts[known], at_dip[known], case.reports.at_s[known])
    mean, covariance = _posterior(case, speed[known] - base[0], acts[known], rows, prior)
    draws = rng.multivariate_normal(mean, covariance, size=DRAWS, method="eigh")
    found = _contributions(columns, -draws * change, -draws * acts[at_dip].mean(axis=0))
    return Attribution(reference, drop, now, before, found)


def _columns(
    case: Case, at_dip: Bools, phase: PhaseChange | None, base_deviation: float
) -> list[Column]:
    """Return the columns; the first is the error of the base."""
    at_s = case.reports.at_s
    ones = np.ones(at_s.shape)
    columns = [Column(Kind.PROFILE, ones, 0.0, base_deviation)]
    columns += _neighbours(case, at_dip)
    if phase is not None:
        columns.append(Column(Kind.PHASE, _while(at_s >= phase.at_s), 0.0, PHASE_DEVIATION))
    for kind, acts in (
        (Kind.MIGRATION, _stalled(case)),
        (Kind.PLATFORM, _platform(case)),
        (Kind.UNITS, _missing_units(case)),
    ):
        if np.abs(acts).max(initial=0.0) > 1e-3:
            columns.append(Column(kind, acts, 1.0, LAYOUT_DEVIATION))
    columns.append(Column(Kind.UNKNOWN, _while(at_dip), 0.0, UNKNOWN_DEVIATION))
    return columns


def _while(acts: Bools) -> Floats:
    """(T,) -1 where a cause acts: its coefficient is a loss."""
    return np.where(acts, -1.0, 0.0)


def _neighbours(case: Case, at_dip: Bools) -> list[Column]:
    if case.tolerated is None:
        return []
    at_s = case.reports.at_s
    columns = []
    for job, server in sorted({(other.job, other.server) for other in case.others}):
        units = np.zeros(at_s.shape)
        alone = np.zeros(case.tolerated.value.shape)
        for other in case.others:
            if (other.job, other.server) == (job, server):
                here = other.present(at_s)
                units += other.units * here
                alone = np.maximum(alone, other.units * other.caused)
        share, most = case.share_on(server, at_s), max(1.0, units.max(initial=0.0))
        acts = -share * units / most
        size = case.server_units.get(server, 0)
        if not acts.any() or size < 2:
            continue
        pressed = server_pressure(case, server, at_s[at_dip])
        together = pressed.mean(axis=0) if pressed.size else np.zeros_like(alone)
        own = alone / (size - 1)
        lost, spread = marginal_loss(own, np.maximum(together, own), case.tolerated)
        deviation = math.hypot(spread, CAUSED_SHARE * lost, CAUSED_FLOOR)
        columns.append(Column(Kind.NEIGHBOUR, acts, lost, deviation, job, server))
    columns.sort(key=lambda c: -(c.mean + c.deviation) * float(np.abs(c.acts).max()))
    return columns[:MAX_NEIGHBOURS]


def _stalled(case: Case) -> Floats:
    """(T,) logarithm of the share of the units that work during migrations."""
    at_s = case.reports.at_s
    paused = np.zeros(at_s.shape)
    for stall in case.stalls:
        paused += stall.units * ((at_s >= stall.begin_s) & (at_s < stall.end_s))
    share = paused / np.maximum(case.own_units(at_s), 1.0)
    logs: Floats = np.log(1.0 - np.minimum(share, 0.95))
    return logs


def _platform(case: Case) -> Floats:
    """(T,) logarithm of the speed of the job's platforms relative to its first ones."""
    at_s = case.reports.at_s
    mean = np.zeros(at_s.shape)
    for server in {holding.server for holding in case.own}:
        mean += case.share_on(server, at_s) * case.server_speed.get(server, 1.0)
    first = [h for h in case.own if h.from_s <= min(h.from_s for h in case.own)]
    units = sum(h.units for h in first)
    if not units:
        return np.zeros(at_s.shape)
    began = sum(h.units * case.server_speed.get(h.server, 1.0) for h in first) / units
    held = case.own_units(at_s) > 0
    logs: Floats = np.log(np.maximum(mean, 1e-6) / max(began, 1e-6))
    return np.where(held, logs, 0.0)


def _missing_units(case: Case) -> Floats:
    """(T,) logarithm of the units held over the units that the target needs."""
    held = case.own_units(case.reports.at_s)
    if not case.wanted_units:
        return np.zeros(held.shape)
    missing: Floats = np.log(np.clip(held / case.wanted_units, 1e-3, 1.0))
    return np.where(held > 0, missing, 0.0)


def _segments(acts: Floats, at_dip: Bools, at_s: Floats) -> Ints:
    """(T,) number of the segment of each report: runs in which nothing changes."""
    rows = np.column_stack((acts, at_dip))
    changed = np.any(np.abs(np.diff(rows, axis=0)) > 1e-9, axis=1)
    return np.concatenate(([0], np.cumsum(changed))).astype(np.int64)


def _posterior(
    case: Case, error: Floats, acts: Floats, rows: Ints, prior: Floats
) -> tuple[Floats, Floats]:
    """Return mean (K,) and covariance (K, K) of the coefficients."""
    known = ~np.isnan(case.reports.log_speed)
    readings = case.reports.readings[known]
    count = np.bincount(rows, weights=readings)
    z = np.stack([np.bincount(rows, weights=readings * a) / count for a in acts.T], axis=1)
    y = np.bincount(rows, weights=readings * error) / count
    variance = SEGMENT_DEVIATION**2 + case.noise**2 / count + (CHANGE_DEVIATION / count) ** 2
    precision = (z / variance[:, None]).T @ z + np.diag(1.0 / prior[:, 1] ** 2)
    covariance = np.linalg.inv(precision)
    mean = covariance @ ((z / variance[:, None]).T @ y + prior[:, 0] / prior[:, 1] ** 2)
    return mean, (covariance + covariance.T) / 2.0


def _contributions(
    columns: Sequence[Column], lost: Floats, effects: Floats
) -> tuple[Contribution, ...]:
    """Summarise draws (D, K) of the losses from the reference, and of the effects at the dip."""
    losses = np.maximum(lost, 0.0)
    unknown = next(i for i, c in enumerate(columns) if c.kind is Kind.UNKNOWN)
    total = losses.sum(axis=1)
    first = np.where(total > 0.0, losses.argmax(axis=1), unknown)
    shares = losses / np.where(total > 0.0, total, 1.0)[:, None]
    low, high = np.quantile(shares, (0.05, 0.95), axis=0)
    found = [
        Contribution(
            column,
            float((first == i).mean()),
            Estimate(float(shares[:, i].mean()), float(low[i]), float(high[i])),
            float(lost[:, i].mean()),
            float(effects[:, i].mean()),
            float(effects[:, i].std()),
        )
        for i, column in enumerate(columns)
    ]
    return tuple(sorted(found, key=lambda c: (-c.confidence, -c.share.value)))


def _mean(values: Floats, chosen: Bools) -> float:
    return float(values[chosen].mean()) if chosen.any() else math.nan
