"""berth solve: the best placement for given weights, with a proof of how good; needs no server."""

import time
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from controlplane.cli.errors import CliError, Exit
from controlplane.cli.output import facts, render, say
from controlplane.cli.placement_files import (
    answer,
    facts_of,
    read_instance,
    read_objectives,
    weights,
)
from controlplane.cli.searching import ProgressLine, interrupts, time_limit

if TYPE_CHECKING:
    from apps.placement.core.instance import Instance
    from apps.placement.core.search import Progress, Solution


def add_options(parser: ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("instance", help="JSON of the problem; - is stdin")
    parser.add_argument(
        "--weights",
        type=weights,
        required=True,
        metavar="P,D,C",
        help="such as 0.22,1,0.36; a fourth number charges moves from the current placement; "
        "P=0.22,D=1,money=0.5 names them",
    )
    parser.add_argument("--objectives", help="JSON of more objectives: prices or carbon of a kWh")
    parser.add_argument("--solver", help="counts (the default), branch_and_bound or random")
    parser.add_argument(
        "--limit", type=time_limit, default=60.0, help="at most so long, such as 10s or 2min (60s)"
    )
    parser.add_argument("--seed", type=int, default=0)


def solve(args: Namespace) -> int:
    """Find the best placement for weights, and how much better any could be; needs no server."""
    if args.seed < 0:
        raise CliError(f"--seed must be at least 0, not {args.seed}", code=Exit.USAGE)
    instance = read_instance(args.instance)
    found = _found(instance, args)
    say(render(_told(instance, found), args.output, _table(instance, found)))
    return Exit.OK


def _found(instance: "Instance", args: Namespace) -> "Solution":
    # numpy takes a while to import, which no other verb should pay
    from apps.placement.core import solver  # noqa: PLC0415
    from apps.placement.core.search import Search  # noqa: PLC0415

    name = args.solver or solver.DEFAULT
    objectives = read_objectives(args.objectives, args.weights, instance)
    try:
        solver.prepare(instance, args.weights, name, objectives=objectives)
    except solver.UnknownSolverError as error:
        raise CliError(str(error), code=Exit.USAGE) from error
    line = ProgressLine()
    with interrupts() as caught:
        search = Search(
            instance,
            args.weights,
            clock=time.perf_counter,
            limit_s=args.limit,
            objectives=objectives,
            should_stop=lambda: bool(caught),
            watch=lambda progress: line.show(progress.seconds, _line(progress)),
            seed=args.seed,
        )
        found = solver.solve(search, name)
    line.clear()
    return found


def _line(progress: "Progress") -> str:
    return f"F {progress.value:.6g}  bound {progress.bound:.6g}  gap {progress.gap:.3%}"


def _told(instance: "Instance", found: "Solution") -> dict[str, Any]:
    nodes = [instance.node_ids[node] for node in found.assignment.tolist()]
    return {
        "assignment": dict(zip(instance.container_ids, nodes, strict=True)),
        **answer(instance, found.evaluation),
        "bound": found.bound,
        "gap": found.gap,
        "optimal": found.is_optimal,
        "seconds": found.seconds,
        "solver": found.solver,
    }


def _table(instance: "Instance", found: "Solution") -> str:
    proven = (
        "proven optimal"
        if found.is_optimal
        else f"at most {100.0 * found.gap:.2g} % above the best"
    )
    lines = {
        **facts_of(instance, found.evaluation),
        "F": f"{found.evaluation.F:.9g}, {proven}",
        "bound": f"{found.bound:.9g}",
        "solver": f"{found.solver}, {found.seconds:.3g} s",
    }
    by_node: dict[str, list[str]] = {}
    for name, node in zip(instance.container_ids, found.assignment.tolist(), strict=True):
        by_node.setdefault(instance.node_ids[node], []).append(name)
    placed = [f"{node}: {', '.join(held)}" for node, held in by_node.items()]
    return "\n".join([facts(lines), "", *placed])
