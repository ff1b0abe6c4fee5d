"""Loads of a comparison: the settings with each arrival rate are a comparison of their own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apps.testbed.core.lab import LabPlan, LabSetting, canonical


@dataclass(frozen=True, slots=True)
class Roles:
    """The settings that are compared with each other.

    Attributes
    ----------
    settings : names, the bound included
    bound : None without one
    load : factor on the arrival rate
    """

    settings: tuple[str, ...]
    seeds: tuple[int, ...]
    baseline: str
    bound: str | None
    load: float


def roles_of(plan: LabPlan) -> tuple[Roles, ...]:
    """Return one comparison for each load, that of the baseline first, then by load.

    At another load, the setting with the options of the baseline is the baseline there, and so is
    the bound. A load without such a baseline is no comparison of its own: all settings are then
    compared with the one baseline.
    """
    of = {setting.name: setting for setting in plan.settings}
    base, bound = of[plan.baseline], of.get(plan.bound or "")
    loads = sorted({s.arrival_scale for s in plan.settings} - {base.arrival_scale})
    found = []
    for load in (base.arrival_scale, *loads):
        here = [setting for setting in plan.settings if setting.arrival_scale == load]
        baseline = _with_options_of(base, here)
        if baseline is None:
            names = tuple(of)
            return (Roles(names, plan.seeds, base.name, plan.bound, base.arrival_scale),)
        best = None if bound is None else _with_options_of(bound, here)
        found.append(Roles(tuple(s.name for s in here), plan.seeds, baseline, best, load))
    return tuple(found)


def _with_options_of(setting: LabSetting, among: Sequence[LabSetting]) -> str | None:
    """Return the name of the first setting that has the same options but the arrival rate."""
    wanted = _without_load(setting)
    return next((other.name for other in among if _without_load(other) == wanted), None)


def _without_load(setting: LabSetting) -> str:
    return canonical({k: v for k, v in setting.options.items() if k != "arrival_scale"})


def loads_of(result: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the loads of a result, ascending."""
    return tuple(sorted(part.get("load", 1.0) for part in (result, *result.get("loads", ()))))


def at_load(result: Mapping[str, Any], load: float | None) -> dict[str, Any]:
    """Return the part of a result at a load; that of the baseline if there is none."""
    parts = (result, *result.get("loads", ()))
    return dict(next((part for part in parts if part.get("load", 1.0) == load), result))
