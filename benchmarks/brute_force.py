"""Check the default solver and every bound by brute force on thousands of tiny instances.

    python -m benchmarks.brute_force [--count 5000] [--seed 1]

Instances of `tests.placement.core.tiny`: up to 4 nodes and 7 containers, with random slots,
racks, watts and intensities. Every second instance has identical nodes of 1 to 4 slots and
intensities 0 and 1.
"""

import argparse
import sys
import time
from typing import Any, Final

import numpy as np

from apps.placement.core.problem.costs import costs
from apps.placement.core.problem.evaluator import raw_values
from apps.placement.core.problem.instance import Communication, Instance
from apps.placement.core.problem.instance_file import parse
from apps.placement.core.solver import knapsack
from apps.placement.core.solver.rack_roles import RackProgram
from apps.placement.core.solver.registry import prepare, solve
from apps.placement.core.solver.roles import RoleProgram
from apps.placement.core.solver.run import SolverRun
from tests.placement.core.tiny import every_assignment, some_weights, tiny

NEAR: Final = 1e-9
LIMIT_S: Final = 20.0


def instance(seed: int) -> Instance:
    """Draw a tiny instance; even seeds give identical nodes and intensities 0 and 1."""
    if seed % 2:
        return parse(tiny(seed, containers=7))
    data: dict[str, Any] = tiny(seed, containers=7, is_plain=True)
    slots = 1 + seed // 2 % 4
    for node in data["nodes"]:
        node["slots"] = slots
    containers = data["containers"][: slots * len(data["nodes"])]
    return parse({"nodes": data["nodes"], "containers": containers})


def minimum(problem: Instance, weights: dict[str, float]) -> float:
    """Return the minimum F over all placements."""
    raw = raw_values(problem, every_assignment(problem))
    sensitive = problem.size[problem.effective_communication != Communication.CLUSTER].sum()
    scale = np.array(
        [problem.peak_watts.sum(), problem.intensity.sum(), sensitive], dtype=np.float64
    )
    normalised = np.divide(raw, scale, out=np.zeros_like(raw), where=scale > 0.0)
    return float((normalised @ [weights["P"], -weights["D"], weights["C"]]).min())


def bounds(problem: Instance, weights: dict[str, float]) -> list[float]:
    """Return the value of every bound that applies to the instance."""
    coefficients = costs(problem, weights)
    values = [
        program(problem, coefficients)
        .solve(limit_s=LIMIT_S, should_stop=lambda: False, gap_tolerance=0.0)
        .bound
        for program in (RoleProgram, RackProgram)
        if problem.job.size
    ]
    model = knapsack.knapsack_model(problem, coefficients) if problem.job.size else None
    if model is not None:
        values.append(knapsack.knapsack_bound(problem, coefficients, model).value)
    return values


def main() -> None:
    """Print the numbers of proven optima, suboptimal placements and invalid bounds."""
    parser = argparse.ArgumentParser(description="Check the solver by brute force.")
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    proven = suboptimal = invalid = 0
    prepare(instance(1), {"P": 1.0}, "branch_and_bound")
    for seed in range(options.seed, options.seed + options.count):
        problem, weights = instance(seed), some_weights(seed)
        best = minimum(problem, weights)
        run = SolverRun(problem, weights, clock=time.perf_counter, limit_s=LIMIT_S)
        solution = solve(run)
        proven += solution.is_optimal
        suboptimal += best + NEAR < solution.evaluation.F
        invalid += max([solution.bound, *bounds(problem, weights)]) > best + NEAR
    sys.stdout.write(
        f"{options.count} instances: {proven} proven optimal, {suboptimal} suboptimal, "
        f"{invalid} with a bound above the optimum\n"
    )


if __name__ == "__main__":
    main()
