"""Fit of the `measured` world: parameters whose figures equal those of the held-in data.

The method of simulated moments: every group of figures is simulated with the same random streams
while its parameters change, so the figures are smooth in them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import scipy

from apps.emulation.core.draws import ANALYTICS, BATCH, LATENCY_CRITICAL, SINGLE_NODE
from apps.emulation.core.worlds.measured import MeasuredWorld
from apps.emulation.core.worlds.parameters import (
    Heterogeneity,
    LogNormal,
    Parameters,
    Scaling,
    Sensitivity,
    ServerSpeed,
    Services,
)
from apps.inventory.core.snapshot import Floats
from apps.testbed.core.world_fit.compare import figures_in
from apps.testbed.core.world_fit.groups import GROUPS, Group

SEED: Final = 20
EVALUATIONS: Final = 10
STEP: Final = 0.05  # of a parameter, for its derivative
DIGITS: Final = 4
_EVEN: Final = Heterogeneity((0.2, 0.1, 0.1), 0.1)
START: Final = Parameters(
    heterogeneity=dict.fromkeys((ANALYTICS, BATCH, SINGLE_NODE, LATENCY_CRITICAL), _EVEN),
    # the sets have too few units to tell coherency from contention
    scale_up=Scaling(LogNormal(-3.0, 1.0), LogNormal(-9.0, 1.0)),
    scale_out=Scaling(LogNormal(-2.0, 1.0), LogNormal(-9.0, 1.0)),
    sensitivity=Sensitivity((-1.2, -1.2, -1.2, -1.2, -1.2, -1.2), 0.6, 0.5),
    strength=dict.fromkeys((ANALYTICS, BATCH, SINGLE_NODE, LATENCY_CRITICAL), 0.1),
    noise=LogNormal(-4.5, 1.0),
    servers=ServerSpeed(0.03, 3.0),
    tasks=LogNormal(-2.0, 1.0),
    services=Services((-1.0, -1.0, -1.0, -1.0, -1.0, -1.0), 0.1),
)

Place = Callable[[Parameters, Floats], Parameters]


def fit(held_in: Mapping[str, Floats]) -> Parameters:
    """Fit all parameters, group by group.

    Parameters
    ----------
    held_in : measurements by name of the group
    """
    fitted = START
    for group in GROUPS:
        first, place = FREE[group.name]
        fitted = fit_group(group, held_in[group.name], fitted, first, place)
    return fitted


def fit_group(
    group: Group, values: Floats, start: Parameters, first: Sequence[float], place: Place
) -> Parameters:
    """Fit the parameters of one group from some first values, the others as in `start`."""
    target = group.compute(values)
    scale = np.maximum(np.abs(target), group.scale)

    def misses(x: Floats) -> Floats:
        world = MeasuredWorld(place(start, x))
        return (figures_in(world, group, values, SEED) - target) / scale

    found = scipy.optimize.least_squares(
        misses, np.array(first), diff_step=STEP, max_nfev=EVALUATIONS
    )
    return place(start, found.x)


# ---- where a group's free numbers go: logarithms of positive ones, atanh of correlations ----


def _round(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _place_heterogeneity(*kinds: str) -> Place:
    def place(start: Parameters, x: Floats) -> Parameters:
        one, two, three, rest = (_round(float(np.exp(value))) for value in x)
        found = Heterogeneity((one, two, three), rest)
        return replace(start, heterogeneity={**start.heterogeneity, **dict.fromkeys(kinds, found)})

    return place


def _place_scale_up(start: Parameters, x: Floats) -> Parameters:
    return replace(start, scale_up=replace(start.scale_up, contention=_log_normal(x)))


def _place_scale_out(start: Parameters, x: Floats) -> Parameters:
    return replace(start, scale_out=replace(start.scale_out, contention=_log_normal(x)))


def _place_sensitivity(start: Parameters, x: Floats) -> Parameters:
    cpu, l1d, l1i, l2, llc, membw = (_round(float(value)) for value in x[:6])
    spread, shared = _round(float(np.exp(x[6]))), _round(1.0 / (1.0 + float(np.exp(-x[7]))))
    return replace(start, sensitivity=Sensitivity((cpu, l1d, l1i, l2, llc, membw), spread, shared))


def _place_strength(*kinds: str) -> Place:
    def place(start: Parameters, x: Floats) -> Parameters:
        found = _round(float(np.tanh(x[0])))
        return replace(start, strength={**start.strength, **dict.fromkeys(kinds, found)})

    return place


def _place_noise(start: Parameters, x: Floats) -> Parameters:
    return replace(start, noise=_log_normal(x))


def _place_servers(start: Parameters, x: Floats) -> Parameters:
    scale, tail = (_round(float(np.exp(value))) for value in x)
    return replace(start, servers=ServerSpeed(scale, tail))


def _place_tasks(start: Parameters, x: Floats) -> Parameters:
    return replace(start, tasks=_log_normal(x))


def _place_capacity(start: Parameters, x: Floats) -> Parameters:
    cpu, l1d, l1i, l2, llc, membw = (_round(float(value)) for value in x)
    means = (cpu, l1d, l1i, l2, llc, membw)
    return replace(start, services=replace(start.services, mean=means))


def _place_latency(start: Parameters, x: Floats) -> Parameters:
    return replace(start, services=replace(start.services, power=_round(float(np.exp(x[0])))))


def _log_normal(x: Floats) -> LogNormal:
    return LogNormal(_round(float(x[0])), _round(float(np.exp(x[1]))))


_LOGS: Final = tuple(float(value) for value in np.log([0.2, 0.1, 0.1, 0.1]))
FREE: Final[Mapping[str, tuple[Sequence[float], Place]]] = {
    "heterogeneity analytics": (_LOGS, _place_heterogeneity(ANALYTICS)),
    "heterogeneity batch": (_LOGS, _place_heterogeneity(BATCH)),
    "heterogeneity single_node": (_LOGS, _place_heterogeneity(SINGLE_NODE, LATENCY_CRITICAL)),
    "scale-up": ((-2.5, 0.2), _place_scale_up),
    "scale-out": ((-2.0, 0.2), _place_scale_out),
    "slowdown": ((*START.sensitivity.mean, -0.5, 1.0), _place_sensitivity),
    "caused and sensitivity, CPU": (
        (0.5,),
        _place_strength(ANALYTICS, SINGLE_NODE, LATENCY_CRITICAL),
    ),
    "caused and sensitivity, GPU": ((-0.3,), _place_strength(BATCH)),
    "noise": ((-4.5, 0.5), _place_noise),
    "servers": ((-3.5, 1.0), _place_servers),
    "tasks": ((-2.0, 0.1), _place_tasks),
    "service capacity": ((-0.7, -2.4, -0.7, -2.4, -2.0, -4.0), _place_capacity),
    "service latency": ((-0.5,), _place_latency),
}
