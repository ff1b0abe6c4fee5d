"""Online classes: which containers fight over shared resources, and which jobs talk much.

c containers, j jobs, r readings of a training run. The three metrics of a container are memory
(off-chip requests a second), network (share of time with packets waiting in its queues) and disk
(share of time it waits for the disk). What counts as much differs between platforms, so that each
has a threshold for each metric, learnt from runs beside a container of the same kind: a metric is
above it where that costs more than a tenth of the speed.

A metric at its threshold is an intensity of 1/2, at twice the threshold of 1; a container is as
intense as its worst metric. Classes follow the smoothed intensity, and change only when it has
left the other side by a margin: a job whose phases hover around the threshold is not moved to and
fro.

Source: ClavisMO §2 "Quantifying shared resource intensity" and "Quantifying communication
overhead", C1. Smoothing, margins and the scale of the intensity are ours: the paper prints none.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.placement.core.instance import Communication

DEGRADED: Final = 0.1  # speed lost beside another taz, from which on a container is one
AT_THRESHOLD: Final = 0.5  # intensity
MEMORY_S: Final = 60.0  # of the smoothed intensity: a reading so old counts 1/e
# how far beyond the threshold, or the limit of traffic, a class changes
MARGIN: Final = 0.1
SMALLEST: Final = 1e-12


class Metric(IntEnum):
    """Columns of readings and thresholds."""

    MEMORY = 0
    NETWORK = 1
    DISK = 2


class Threshold(NamedTuple):
    """Where one metric begins to cost on one platform.

    Attributes
    ----------
    value : > 0, in the unit of the metric
    accuracy : share of the readings on the right side of it, taz and turtle counted alike
    readings : how many it was learnt from
    """

    value: float
    accuracy: float
    readings: int


def learn_threshold(metric: Floats, lost: Floats) -> Threshold:
    """Put the threshold where it tells best which readings lose more than a tenth of their speed.

    Midway between two readings; of several as good ones, the highest: a turtle that is kept apart
    costs power, and a taz is found out by the others. O(r log r).

    Parameters
    ----------
    metric : (r,) readings, >= 0
    lost : (r,) share of the speed each lost beside a container of its kind

    Raises
    ------
    ValueError : readings that are no numbers, or all on one side: nothing tells them apart.
    """
    if metric.ndim != 1 or metric.shape != lost.shape:
        raise ValueError(f"lost must be one for each metric, got {lost.shape} and {metric.shape}")
    if not (np.isfinite(metric).all() and (metric >= 0).all() and np.isfinite(lost).all()):
        raise ValueError("metric must be finite and >= 0, and lost finite")
    is_taz = lost > DEGRADED
    tazes = int(np.count_nonzero(is_taz))
    turtles = is_taz.size - tazes
    if tazes == 0 or turtles == 0:
        raise ValueError(
            f"lost must lie on both sides of {DEGRADED:.0%}, got {tazes} above and {turtles} below"
        )
    order = np.argsort(metric, kind="stable")
    value, above = metric[order], is_taz[order]
    # cut i: the first i readings are below
    right_turtles = np.concatenate([[0], np.cumsum(~above)]) / turtles
    right_tazes = (tazes - np.concatenate([[0], np.cumsum(above)])) / tazes
    accuracy = (right_turtles + right_tazes) / 2.0
    differs = np.concatenate([[True], np.diff(value) > 0, [True]])
    cuts = np.flatnonzero(differs)
    best = cuts[len(cuts) - 1 - int(np.argmax(accuracy[cuts][::-1]))]
    low = value[best - 1] if best > 0 else 0.0
    high = value[best] if best < value.size else 2.0 * value[-1]
    return Threshold(max((low + high) / 2.0, SMALLEST), float(accuracy[best]), value.size)


def intensities(metrics: Floats, thresholds: Floats) -> Floats:
    """(c,) intensity of shared resources, in [0, 1].

    Parameters
    ----------
    metrics : (c, 3) readings, >= 0, in the order of `Metric`; NaN where not read
    thresholds : (c, 3) of the platforms the containers run on, > 0; inf where a metric never costs

    A container of which nothing was read has NaN.
    """
    share = metrics / thresholds * AT_THRESHOLD
    worst = np.where(np.isnan(share), -np.inf, share).max(axis=1)
    return np.where(np.isneginf(worst), np.nan, np.minimum(worst, 1.0))


@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """What is believed of c containers.

    Attributes
    ----------
    intensity : (c,) smoothed, in [0, 1]; NaN before the first reading
    is_taz : (c,) until the first reading a container is a turtle
    """

    intensity: Floats
    is_taz: Bools

    @classmethod
    def unread(cls, containers: int) -> "Classes":
        """Nothing is known yet."""
        return cls(np.full(containers, np.nan), np.zeros(containers, dtype=np.bool_))

    def after(self, reading: Floats, passed_s: Floats) -> "Classes":
        """Return the classes once every container was read again; O(c).

        Parameters
        ----------
        reading : (c,) of `intensities`; NaN leaves a container as it was
        passed_s : (c,) cluster seconds since the last reading that counted, >= 0
        """
        fresh = -np.expm1(-passed_s / MEMORY_S)
        mixed = self.intensity + fresh * (reading - self.intensity)
        is_first = np.isnan(self.intensity)
        intensity = np.where(is_first, reading, np.where(np.isnan(reading), self.intensity, mixed))
        with np.errstate(invalid="ignore"):
            at_first = intensity >= AT_THRESHOLD
            rises = intensity >= AT_THRESHOLD + MARGIN
            falls = intensity < AT_THRESHOLD - MARGIN
        later = (self.is_taz & ~falls) | rises
        return Classes(intensity, np.where(is_first, at_first, later))


class Links(NamedTuple):
    """What the cluster holds close together.

    Attributes
    ----------
    node_slots, rack_slots : of the largest node and rack
    limit : bytes a second and container from which on traffic over a slow link costs
    """

    node_slots: int
    rack_slots: int
    limit: float


def communication(before: Ints, exchanged: Floats, size: Ints, links: Links) -> Ints:
    """(j,) `Communication` of each job.

    A job that talks much wants the smallest place that can hold it. What counts is all that its
    containers exchange, over whatever link: traffic over slow links alone is gone as soon as the
    job is gathered, and it would be torn apart again. A class changes when the traffic has left
    the limit by the margin. O(j).

    Parameters
    ----------
    before : (j,) the last answer; `Communication.CLUSTER` for a job not seen before
    exchanged : (j,) bytes a second between containers of the job, per container; NaN where it was
        not measured, which leaves the job as it was
    size : (j,) containers
    """
    was_loud = before != Communication.CLUSTER
    with np.errstate(invalid="ignore"):
        rises = exchanged >= links.limit * (1.0 + MARGIN)
        falls = exchanged < links.limit * (1.0 - MARGIN)
    is_loud = (was_loud & ~falls) | rises
    place = np.where(
        size <= links.node_slots,
        Communication.NODE,
        np.where(size <= links.rack_slots, Communication.RACK, Communication.CLUSTER),
    )
    found: Ints = np.where(is_loud & (size > 1), place, Communication.CLUSTER).astype(np.int64)
    return found
