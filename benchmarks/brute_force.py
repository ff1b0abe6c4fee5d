"""The default solver and every bound against brute force, on thousands of tiny instances.

    python -m benchmarks.brute_force [--count 5000] [--seed 1]

Instances of `tests.placement.core.tiny`: up to 4 nodes and 7 containers, of any slots, racks,
watts and intensities; every second one with identical nodes of 1 to 4 slots and intensities 0
and 1.
"""

import argparse
import sys
import time
from typing import Any, Final

import numpy as np

from apps.placement.core import kernels, knapsack
from apps.placement.core.costs import costs
from apps.placement.core.instance import Communication, Instance
from apps.placement.core.instance_file import parse
from apps.placement.core.rack_roles import RackProgram
from apps.placement.core.roles import RoleProgram
from apps.placement.core.search import Search
from apps.placement.core.solver import prepare, solve
from tests.placement.core.tiny import every_assignment, some_weights, tiny

NEAR: Final = 1e-9
LIMIT_S: Final = 20.0


def instance(seed: int) -> Instance:
    """Draw a tiny instance; those of even seeds have identical nodes and two intensities."""
    if seed % 2:
        return parse(tiny(seed, containers=7))
    data: dict[str, Any] = tiny(seed, containers=7, is_plain=True)
    slots = 1 + seed // 2 % 4
    for node in data["nodes"]:
        node["slots"] = slots
    kept = data["containers"][: slots * len(data["nodes"])]
    return parse({"nodes": data["nodes"], "containers": kept})


def least(case: Instance, weights: dict[str, float]) -> float:
    """Return the least F of all placements."""
    raw = kernels.evaluate_all(kernels.problem(case), every_assignment(case))
    sensitive = case.size[case.counts_as != Communication.CLUSTER].sum()
    scale = np.array([case.peak_watts.sum(), case.intensity.sum(), sensitive], dtype=np.float64)
    normalised = np.divide(raw, scale, out=np.zeros_like(raw), where=scale > 0.0)
    return float((normalised @ [weights["P"], -weights["D"], weights["C"]]).min())


def bounds(case: Instance, weights: dict[str, float]) -> list[float]:
    """Return every bound that applies."""
    coefficients = costs(case, weights)
    found = [
        program(case, coefficients)
        .solve(limit_s=LIMIT_S, should_stop=lambda: False, enough=0.0)
        .bound
        for program in (RoleProgram, RackProgram)
        if case.job.size
    ]
    known = knapsack.profile(case, coefficients) if case.job.size else None
    if known is not None:
        found.append(knapsack.bound(case, coefficients, known).value)
    return found


def main() -> None:
    """Print how many were solved, proven, and wrong."""
    parser = argparse.ArgumentParser(description="The solver against brute force.")
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    proven = worse = above = 0
    prepare(instance(1), {"P": 1.0}, "branch_and_bound")
    for seed in range(options.seed, options.seed + options.count):
        case, weights = instance(seed), some_weights(seed)
        best = least(case, weights)
        search = Search(case, weights, clock=time.perf_counter, limit_s=LIMIT_S)
        found = solve(search)
        proven += found.is_optimal
        worse += best + NEAR < found.evaluation.F
        above += max([found.bound, *bounds(case, weights)]) > best + NEAR
    sys.stdout.write(
        f"{options.count} instances: {proven} proven optimal, {worse} not the best, "
        f"{above} with a bound above the best\n"
    )


if __name__ == "__main__":
    main()
