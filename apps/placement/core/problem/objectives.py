"""Objectives of a placement: power, diversified intensity, communication, and a registry.

This is the definition, in plain numpy; `evaluator` has the compiled kernels for searches, which
are tested against it. Source: ClavisMO §3.1, eq. 1, C2.

- P = Σ over nodes that hold a container: idle + (peak − idle)·used/slots, in watts.
- D: of each node the most intense container is credited its intensity less the next highest there
  (less 0 if alone). D = Σ of the credits of containers of protected jobs: no taz of the job shares
  a node with another taz. All or nothing per job: a straggler delays its whole job.
- C = containers of ``node`` jobs not wholly on one node and ``rack`` jobs not wholly in one rack,
  by `Instance.effective_communication`.
- M = containers that leave the node they run on.

F = Σ weight·raw/scale, negated if higher is better; 0 if the scale is 0.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.placement.core.problem.instance import NOWHERE, Communication, Instance

OBJECTIVES: Final = ("P", "D", "C")

Measure = Callable[[Instance, Ints], float]
Scale = Callable[[Instance], float]
Rates = Callable[[Instance], Floats]


class CurveLacksRackError(ValueError):
    """A curve has no values for a rack of an instance, and no default."""


@dataclass(frozen=True, slots=True)
class Objective:
    """One objective.

    Attributes
    ----------
    label, unit : for display
    raw : value of an assignment, >= 0
    scale : divisor of the raw value that maps it to [0, 1]; 0 makes the objective 0
    is_higher_better : it is negated in F
    rates : set if raw = Σ rates[node]·watts[node]; solvers then bound it like power
    """

    label: str
    unit: str
    raw: Measure
    scale: Scale
    is_higher_better: bool = False
    rates: Rates | None = None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Values of one assignment by objective, and ``F`` for the requested weights."""

    raw: Mapping[str, float]
    normalised: Mapping[str, float]
    F: float


def node_watts(instance: Instance, assignment: Ints) -> Floats:
    """(n,) power of each node; 0 if it is empty. O(n + c)."""
    used = np.bincount(assignment, minlength=len(instance.node_ids))
    span = instance.peak_watts - instance.idle_watts
    watts: Floats = np.where(used > 0, instance.idle_watts + span * used / instance.slots, 0.0)
    return watts


def power(instance: Instance, assignment: Ints) -> float:
    """P: watts of the nodes that hold a container."""
    return float(node_watts(instance, assignment).sum())


def credits(instance: Instance, assignment: Ints) -> Floats:
    """(c,) intensity of the most intense container of each node less the next there, else 0."""
    return credit(instance.intensity, assignment)


def credit(intensity: Floats, place: Ints) -> Floats:
    """(c,) credit of each container at its place; O(c log c)."""
    order = np.lexsort((-intensity, place))
    node, ordered = place[order], intensity[order]
    is_first: Bools = np.ones(order.size, dtype=np.bool_)
    is_first[1:] = node[1:] != node[:-1]
    follower: Floats = np.append(np.where(is_first[1:], 0.0, ordered[1:]), 0.0)[: order.size]
    earned: Floats = np.zeros(order.size)
    earned[order] = np.where(is_first, ordered - follower, 0.0)
    return earned


def protected_jobs(instance: Instance, assignment: Ints) -> Bools:
    """(j,) no taz of the job shares a node with another taz, of any job."""
    return ~exposed(instance.is_taz, instance.job, assignment, len(instance.job_ids))


def exposed(is_taz: Bools, job: Ints, place: Ints, jobs: int) -> Bools:
    """(j,) a taz of the job shares its place with another taz, of any job. O(c)."""
    tazes = np.bincount(place[is_taz], minlength=int(place.max(initial=0)) + 1)
    is_exposed: Bools = np.zeros(jobs, dtype=np.bool_)
    is_exposed[job[is_taz & (tazes[place] > 1)]] = True
    return is_exposed


def diversity(instance: Instance, assignment: Ints) -> float:
    """D: credits of the containers of protected jobs."""
    kept = protected_jobs(instance, assignment)[instance.job]
    return float(credits(instance, assignment)[kept].sum())


def split_jobs(instance: Instance, assignment: Ints) -> Bools:
    """(j,) the job is effectively ``node`` or ``rack`` and spans several."""
    return split(instance.effective_communication, instance.job, assignment, instance.rack)


def split(communication: Ints, job: Ints, place: Ints, rack: Ints) -> Bools:
    """(j,) containers of an effectively ``node`` or ``rack`` job are in several. O(c)."""
    is_split: Bools = np.zeros(communication.size, dtype=np.bool_)
    for scope, inside in ((Communication.NODE, place), (Communication.RACK, rack[place])):
        lowest = np.full(is_split.size, np.iinfo(np.int64).max)
        highest = np.full(is_split.size, -1)
        np.minimum.at(lowest, job, inside)
        np.maximum.at(highest, job, inside)
        is_split |= (communication == scope) & (lowest != highest)
    return is_split


def communication(instance: Instance, assignment: Ints) -> float:
    """C: containers of split jobs."""
    return float(instance.size[split_jobs(instance, assignment)].sum())


def migrations(instance: Instance, assignment: Ints) -> float:
    """M: containers that leave the node they run on."""
    runs = instance.current != NOWHERE
    return float((assignment[runs] != instance.current[runs]).sum())


def _peak(instance: Instance) -> float:
    return float(instance.peak_watts.sum())


def _intensity(instance: Instance) -> float:
    return float(instance.intensity.sum())


def _sensitive(instance: Instance) -> float:
    return float(instance.size[instance.effective_communication != Communication.CLUSTER].sum())


def _running(instance: Instance) -> float:
    return float((instance.current != NOWHERE).sum())


def _each_watt(instance: Instance) -> Floats:
    return np.ones(len(instance.node_ids))


BUILT_IN: Final[Mapping[str, Objective]] = MappingProxyType(
    {
        "P": Objective("Power", "W", power, _peak, rates=_each_watt),
        "D": Objective("Diversified intensity", "", diversity, _intensity, is_higher_better=True),
        "C": Objective("Communication", "containers", communication, _sensitive),
        "M": Objective("Migrations", "containers", migrations, _running),
    }
)


def watts_times(label: str, unit: str, hours: Floats, curve: Mapping[str, Floats]) -> Objective:
    """Return an objective that charges watts by a curve: money, carbon.

    Parameters
    ----------
    hours : (k,) length of each step of the curve, > 0
    curve : (k,) price or intensity per kWh in each step, >= 0, by rack; the key ``""`` is the
        default for other racks

    Returns
    -------
    Objective whose raw value is Σ watts/1000·hours·curve over the whole curve.

    Raises
    ------
    ValueError : a curve is not finite, is negative or has another length.
    """
    if hours.size == 0 or not np.isfinite(hours).all() or (hours <= 0.0).any():
        raise ValueError(f"hours must be positive and finite, not {hours.tolist()}")
    per_watt = {}
    for rack, values in curve.items():
        name = f"curve[{rack!r}]"
        if values.shape != hours.shape:
            raise ValueError(f"{name} has {values.size} steps, hours has {hours.size}")
        if not np.isfinite(values).all() or (values < 0.0).any():
            raise ValueError(f"{name} must be finite and at least 0, not {values.tolist()}")
        per_watt[rack] = float(hours @ values) / 1000.0

    def rates(instance: Instance) -> Floats:
        bare = [name for name in instance.rack_ids if name not in per_watt and "" not in per_watt]
        if bare:
            raise CurveLacksRackError(f"curve has no rack {bare[0]!r} and no default under ''")
        of_rack = np.array([per_watt.get(n, per_watt.get("", 0.0)) for n in instance.rack_ids])
        return of_rack[instance.rack]

    return Objective(
        label,
        unit,
        lambda instance, assignment: float(rates(instance) @ node_watts(instance, assignment)),
        lambda instance: float(rates(instance) @ instance.peak_watts),
        rates=rates,
    )


def money(hours: Floats, price: Mapping[str, Floats], unit: str = "EUR") -> Objective:
    """Charge energy by a price curve per kWh; see `watts_times`."""
    return watts_times("Money", unit, hours, price)


def carbon(hours: Floats, intensity: Mapping[str, Floats]) -> Objective:
    """Charge energy by a carbon intensity curve in g/kWh; see `watts_times`."""
    return watts_times("Carbon", "g CO2e", hours, intensity)


def scales(instance: Instance) -> Floats:
    """(3,) divisors of raw P, D and C; infinite where the scale is 0."""
    scale = np.array([BUILT_IN[name].scale(instance) for name in "PDC"])
    return np.where(scale > 0.0, scale, np.inf)


def registry(custom: Mapping[str, Objective] | None = None) -> Mapping[str, Objective]:
    """Return the built-in objectives and those of an administrator.

    Raises
    ------
    ValueError : a name is already in use.
    """
    duplicates = BUILT_IN.keys() & (custom or {}).keys()
    if duplicates:
        raise ValueError(f"objective {sorted(duplicates)[0]!r} is built in; choose another name")
    return MappingProxyType({**BUILT_IN, **(custom or {})})


def check_weights(weights: Mapping[str, float], known: Mapping[str, Objective]) -> None:
    """Check that weights are finite, at least 0, and of known objectives.

    Raises
    ------
    ValueError : names the weight.
    """
    for name, weight in weights.items():
        if name not in known:
            raise ValueError(f"unknown objective {name!r}; known: {', '.join(known)}")
        if not np.isfinite(weight) or weight < 0.0:
            raise ValueError(f"weight of {name} must be finite and at least 0, not {weight}")


def evaluate(
    instance: Instance,
    assignment: Ints,
    weights: Mapping[str, float] | None = None,
    *,
    objectives: Mapping[str, Objective] = BUILT_IN,
) -> Evaluation:
    """Evaluate one assignment by every objective of the registry.

    Parameters
    ----------
    assignment : (c,) node of each container, no node over its slots
    weights : by objective, >= 0; 0 if left out

    Raises
    ------
    ValueError : a weight is negative, or names an unknown objective.
    """
    weighed = weights or {}
    check_weights(weighed, objectives)
    raw, normalised, total = {}, {}, 0.0
    for name, objective in objectives.items():
        scale = objective.scale(instance)
        raw[name] = objective.raw(instance, assignment)
        normalised[name] = raw[name] / scale if scale > 0.0 else 0.0
        signed = -normalised[name] if objective.is_higher_better else normalised[name]
        total += weighed.get(name, 0.0) * signed
    return Evaluation(raw, normalised, total)
