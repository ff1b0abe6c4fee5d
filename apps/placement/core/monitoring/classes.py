"""Online classes: containers that contend for shared resources, and communication-heavy jobs.

c containers, j jobs, r readings of a training run. The three metrics of a container are memory
(off-chip requests a second), network (share of time with packets waiting in its queues) and disk
(share of time it waits for the disk). Each platform has its own threshold for each metric, fitted
to runs next to a container of the same kind: above it, the container loses more than a tenth of
its speed.

A metric at its threshold is an intensity of 1/2, at twice the threshold of 1. The intensity of a
container is that of its worst metric. Where a metric cannot be read (a virtual machine without
hardware counters), the loss that the profile predicts stands for it: a tenth is 1/2. Classes
follow the smoothed intensity with hysteresis, so that jobs whose phases are close to the threshold
do not migrate back and forth.

Source: ClavisMO §2 "Quantifying shared resource intensity" and "Quantifying communication
overhead", C1. Smoothing, hysteresis and the scale of the intensity are ours; the paper gives none.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.placement.core.problem.instance import Communication

TAZ_LOSS: Final = 0.1  # a container that loses more of its speed next to a taz is a taz
AT_THRESHOLD: Final = 0.5  # intensity
SMOOTHING_S: Final = 60.0  # of the smoothed intensity: a reading so old counts 1/e
# how far beyond the threshold, or the limit of traffic, a class changes
HYSTERESIS: Final = 0.1
MIN_THRESHOLD: Final = 1e-12


class Metric(IntEnum):
    """Columns of readings and thresholds."""

    MEMORY = 0
    NETWORK = 1
    DISK = 2


class FittedThreshold(NamedTuple):
    """Threshold of one metric on one platform.

    Attributes
    ----------
    value : > 0, in the unit of the metric
    accuracy : balanced share of the readings that it classifies correctly
    readings : number of training readings
    """

    value: float
    accuracy: float
    readings: int


def fit_threshold(metric: Floats, lost: Floats) -> FittedThreshold:
    """Fit the threshold that best separates readings with a loss of more than a tenth.

    Midway between two readings; the highest of several equally good ones, because isolating a
    turtle costs power, while a taz is recognised by other metrics. O(r log r).

    Parameters
    ----------
    metric : (r,) readings, >= 0
    lost : (r,) share of the speed lost next to a container of the same kind

    Raises
    ------
    ValueError : non-finite readings, or all losses on one side of a tenth.
    """
    if metric.ndim != 1 or metric.shape != lost.shape:
        raise ValueError(f"lost must be one for each metric, got {lost.shape} and {metric.shape}")
    if not (np.isfinite(metric).all() and (metric >= 0).all() and np.isfinite(lost).all()):
        raise ValueError("metric must be finite and >= 0, and lost finite")
    is_taz = lost > TAZ_LOSS
    tazes = int(np.count_nonzero(is_taz))
    turtles = is_taz.size - tazes
    if tazes == 0 or turtles == 0:
        raise ValueError(
            f"lost must lie on both sides of {TAZ_LOSS:.0%}, got {tazes} above and {turtles} below"
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
    return FittedThreshold(
        max((low + high) / 2.0, MIN_THRESHOLD), float(accuracy[best]), value.size
    )


def intensities(metrics: Floats, thresholds: Floats, lost: Floats | None = None) -> Floats:
    """(c,) intensity of shared resources, in [0, 1].

    Parameters
    ----------
    metrics : (c, 3) readings, >= 0, in the order of `Metric`; NaN for no reading
    thresholds : (c, 3) of the containers' platforms, > 0; inf if the metric never matters
    lost : (c, 3) predicted loss next to an identical container, which stands for a metric without
        a reading; NaN = not known

    The intensity of a container without readings and predictions is NaN.
    """
    share = metrics / thresholds * AT_THRESHOLD
    if lost is not None:
        share = np.where(np.isnan(metrics), lost / TAZ_LOSS * AT_THRESHOLD, share)
    worst = np.where(np.isnan(share), -np.inf, share).max(axis=1)
    return np.where(np.isneginf(worst), np.nan, np.minimum(worst, 1.0))


@dataclass(frozen=True, slots=True, eq=False)
class ContainerClasses:
    """Estimated classes of c containers.

    Attributes
    ----------
    intensity : (c,) smoothed, in [0, 1]; NaN before the first reading
    is_taz : (c,) False before the first reading
    """

    intensity: Floats
    is_taz: Bools

    @classmethod
    def unread(cls, containers: int) -> "ContainerClasses":
        """Classes of containers without any reading."""
        return cls(np.full(containers, np.nan), np.zeros(containers, dtype=np.bool_))

    def after(self, reading: Floats, passed_s: Floats) -> "ContainerClasses":
        """Return the classes after one more reading of every container; O(c).

        Parameters
        ----------
        reading : (c,) of `intensities`; NaN leaves a container unchanged
        passed_s : (c,) cluster seconds since the last valid reading, >= 0
        """
        fresh = -np.expm1(-passed_s / SMOOTHING_S)
        mixed = self.intensity + fresh * (reading - self.intensity)
        is_first = np.isnan(self.intensity)
        intensity = np.where(is_first, reading, np.where(np.isnan(reading), self.intensity, mixed))
        with np.errstate(invalid="ignore"):
            at_first = intensity >= AT_THRESHOLD
            rises = intensity >= AT_THRESHOLD + HYSTERESIS
            falls = intensity < AT_THRESHOLD - HYSTERESIS
        later = (self.is_taz & ~falls) | rises
        return ContainerClasses(intensity, np.where(is_first, at_first, later))


REFIT_S: Final = 600.0  # cluster seconds between two fits of the thresholds
# share of a server's bandwidth above which the traffic of one container suffers on slow links
LOUD_SHARE: Final = 0.05


class LocalityLimits(NamedTuple):
    """Limits that decide where a job should stay.

    Attributes
    ----------
    node_slots, rack_slots : of the largest node and rack
    limit : bytes per second and container above which traffic over slow links matters
    """

    node_slots: int
    rack_slots: int
    limit: float


def communication(before: Ints, exchanged: Floats, size: Ints, links: LocalityLimits) -> Ints:
    """(j,) `Communication` of each job.

    A communication-heavy job should stay inside the smallest scope that can hold it. All traffic
    between its containers counts: traffic over slow links alone would vanish as soon as the job is
    gathered, and the job would be split again. Changes have a hysteresis around the limit. O(j).

    Parameters
    ----------
    before : (j,) previous result; `Communication.CLUSTER` for a new job
    exchanged : (j,) bytes per second between containers of the job, per container; NaN (not
        measured) leaves the job unchanged
    size : (j,) number of containers
    """
    was_loud = before != Communication.CLUSTER
    with np.errstate(invalid="ignore"):
        rises = exchanged >= links.limit * (1.0 + HYSTERESIS)
        falls = exchanged < links.limit * (1.0 - HYSTERESIS)
    is_loud = (was_loud & ~falls) | rises
    place = np.where(
        size <= links.node_slots,
        Communication.NODE,
        np.where(size <= links.rack_slots, Communication.RACK, Communication.CLUSTER),
    )
    found: Ints = np.where(is_loud & (size > 1), place, Communication.CLUSTER).astype(np.int64)
    return found
