"""Plans and bundles of stored comparisons."""

import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final

from apps.common.core.errors import ConflictError
from apps.testbed.core.any_format import parse_any
from apps.testbed.core.lab import LabPlan, plan_of
from apps.testbed.core.lab_bundle import bundle_of
from apps.testbed.core.trace_workload import TraceWorkload
from apps.testbed.core.traces import TraceError
from apps.testbed.models import LabComparison, LabScenario
from apps.testbed.selectors.lab import decompressed, runs_of

PACKAGES: Final = ("numpy", "numba", "scipy")


def parsed(lines: Sequence[str], path: str) -> TraceWorkload:
    """Read jobs as a scenario stores them.

    Raises
    ------
    TraceError : a line is malformed.
    """
    return parse_any(lines, path=path, name="lab", strict=True)


def trace_of(scenario: LabScenario) -> TraceWorkload:
    """Return the jobs of a scenario.

    Raises
    ------
    ConflictError : they were stored by a Berth whose jobs this one does not read.
    """
    try:
        return parsed(decompressed(bytes(scenario.jobs)), f"scenario {scenario.pk}")
    except TraceError as error:
        raise ConflictError(
            f"The jobs of the scenario {scenario.name} cannot be read: {error}"
        ) from error


def plan_for(scenario: LabScenario, choices: Mapping[str, Any]) -> LabPlan:
    """Return the plan of a comparison.

    Raises
    ------
    InvalidInputError : a setting, the seeds, the baseline or the bound is invalid.
    ConflictError : see `trace_of`.
    """
    parts = {
        "cluster": scenario.cluster,
        "world": scenario.world,
        "failures": scenario.source.get("failures"),
        **choices,
    }
    return plan_of(parts, trace_of(scenario))


def plan_of_comparison(comparison: LabComparison) -> LabPlan:
    """Return the plan that a comparison was requested with."""
    return plan_for(
        comparison.scenario,
        {
            "settings": comparison.grid,
            "seeds": comparison.seeds,
            "baseline": comparison.baseline,
            "bound": comparison.bound or None,
            "halving": comparison.halving,
        },
    )


def versions(berth: str) -> dict[str, str]:
    """Return the versions that may change a result."""
    found = {name: version(name) for name in PACKAGES}
    return {"berth": berth, "python": platform.python_version(), **found}


def bundle(comparison: LabComparison) -> dict[str, Any]:
    """Return the bundle of a comparison, with the runs that are complete."""
    records = [run.record for run in runs_of(comparison.pk)]
    return bundle_of(
        comparison.name,
        plan_of_comparison(comparison),
        versions(comparison.version),
        records,
        comparison.result,
    )
