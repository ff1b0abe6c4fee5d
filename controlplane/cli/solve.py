"""berth solve: find the best placement for weights, with its gap; needs no server."""

import time
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from controlplane.cli.errors import CliError, Exit
from controlplane.cli.interactive import ProgressLine, interrupts, time_limit
from controlplane.cli.output import facts, print_result, render
from controlplane.cli.placement_files import (
    evaluation_output,
    facts_of,
    read_instance,
    read_objectives,
    weights,
)
from controlplane.cli.verbs import Verbs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apps.placement.core.problem.instance import Instance
    from apps.placement.core.problem.objectives import Objective
    from apps.placement.core.solver.run import Solution, SolverProgress


def declare(verbs: Verbs) -> None:
    """Declare the verb and its arguments."""
    parser = verbs.add_offline("solve", solve, __doc__)
    parser.add_argument("instance", help="JSON file with the problem; - is stdin")
    parser.add_argument(
        "--weights",
        type=weights,
        required=True,
        metavar="P,D,C",
        help="such as 0.22,1,0.36; a fourth weight penalises migrations; "
        "or by name: P=0.22,D=1,money=0.5",
    )
    parser.add_argument(
        "--objectives", help="JSON file with more objectives: price or carbon per kWh"
    )
    parser.add_argument("--solver", help="counts (the default), branch_and_bound or random")
    parser.add_argument(
        "--limit", type=time_limit, default=60.0, help="time limit, such as 10s or 2min (60s)"
    )
    parser.add_argument("--seed", type=int, default=0)


def solve(args: Namespace) -> int:
    """Find the best placement for weights, with a bound and gap; needs no server."""
    if args.seed < 0:
        raise CliError(f"--seed must be at least 0, not {args.seed}", code=Exit.USAGE)
    instance = read_instance(args.instance)
    objectives = read_objectives(args.objectives, args.weights, instance)
    solution = _solve(instance, objectives, args)
    text = _text(instance, solution, objectives)
    print_result(render(_output(instance, solution), args.output, text))
    return Exit.OK


def _solve(
    instance: "Instance", objectives: "Mapping[str, Objective]", args: Namespace
) -> "Solution":
    # imported here, as numpy is slow to import
    from apps.placement.core.solver import registry  # noqa: PLC0415
    from apps.placement.core.solver.run import SolverRun  # noqa: PLC0415

    name = args.solver or registry.DEFAULT
    try:
        registry.prepare(
            instance, args.weights, name, objectives=objectives, clock=time.perf_counter
        )
    except registry.UnknownSolverError as error:
        raise CliError(str(error), code=Exit.USAGE) from error
    line = ProgressLine()
    with interrupts() as interruptions:
        search = SolverRun(
            instance,
            args.weights,
            clock=time.perf_counter,
            limit_s=args.limit,
            objectives=objectives,
            should_stop=lambda: bool(interruptions),
            on_progress=lambda progress: line.show(progress.seconds, _line(progress)),
            seed=args.seed,
        )
        solution = registry.solve(search, name)
    line.clear()
    return solution


def _line(progress: "SolverProgress") -> str:
    return f"F {progress.value:.6g}  bound {progress.bound:.6g}  gap {progress.gap:.3%}"


def _output(instance: "Instance", solution: "Solution") -> dict[str, Any]:
    nodes = [instance.node_ids[node] for node in solution.assignment.tolist()]
    return {
        "assignment": dict(zip(instance.container_ids, nodes, strict=True)),
        **evaluation_output(instance, solution.evaluation),
        "bound": solution.bound,
        "gap": solution.gap,
        "optimal": solution.is_optimal,
        "seconds": solution.seconds,
        "solver": solution.solver,
    }


def _text(
    instance: "Instance", solution: "Solution", objectives: "Mapping[str, Objective]"
) -> str:
    proven = (
        "proven optimal"
        if solution.is_optimal
        else f"at most {100.0 * solution.gap:.2g} % above the optimum"
    )
    lines = {
        **facts_of(instance, solution.evaluation, objectives),
        "F": f"{solution.evaluation.F:.9g}, {proven}",
        "bound": f"{solution.bound:.9g}",
        "solver": f"{solution.solver}, {solution.seconds:.3g} s",
    }
    by_node: dict[str, list[str]] = {}
    for name, node in zip(instance.container_ids, solution.assignment.tolist(), strict=True):
        by_node.setdefault(instance.node_ids[node], []).append(name)
    placed = [f"{node}: {', '.join(names)}" for node, names in by_node.items()]
    return "\n".join([facts(lines), "", *placed])
