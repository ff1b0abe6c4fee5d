"""What a solve needs is loaded before its clock starts."""

import subprocess
import sys

import pytest

from controlplane.embedded.instance import PROJECT

# A solver that would compile within its time limit loads the kernels when it is asked for them.
LOADED_LATE = """
import sys
from apps.placement.core.problem.examples import InstanceSpec, generate_instance
from apps.placement.core.problem.objectives import BUILT_IN, Objective
from apps.placement.core.solver import registry
from apps.placement.core.solver.run import SolverRun

crowd = Objective("crowding", "", lambda instance, nodes: float(nodes.max()), lambda _: 100.0)
objectives = {**BUILT_IN, "crowding": crowd}
instance = generate_instance(InstanceSpec(24, nodes_per_rack=8), 1)
registry.prepare(instance, WEIGHTS, objectives=objectives)
before = "numba" in sys.modules
run = SolverRun(instance, WEIGHTS, clock=lambda: 0.0, limit_s=1.0, objectives=objectives)
run._should_stop = iter([False] * 40 + [True] * 10_000).__next__
registry.solve(run)
print(before, "numba" in sys.modules)
"""


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ({"P": 1.0, "D": 1.0, "C": 1.0}, "False False"),  # the knapsack proves its answer
        ({"P": 1.0, "D": 1.0, "C": 1.0, "crowding": 0.5}, "True True"),
    ],
)
def test_a_solve_loads_no_kernel_after_its_clock_started(
    weights: dict[str, float], expected: str
) -> None:
    done = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-c", LOADED_LATE.replace("WEIGHTS", repr(weights))],
        capture_output=True,
        text=True,
        check=False,
        cwd=PROJECT,
    )
    assert (done.stdout.strip(), done.stderr) == (expected, "")
