"""berth front: search the Pareto front of placements; needs no server."""

import json
import sys
import time
from argparse import ArgumentTypeError, Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from controlplane.cli.errors import CliError, Exit
from controlplane.cli.interactive import ProgressLine, interrupts, time_limit
from controlplane.cli.output import columns, print_result, render
from controlplane.cli.placement_files import read_instance
from controlplane.cli.verbs import Verbs

if TYPE_CHECKING:
    from apps.placement.core.front.archive import ParetoFront
    from apps.placement.core.front.nsga2 import FrontProgress
    from apps.placement.core.problem.instance import Instance

MAX_POINTS: Final = 2_000
TABLE_POINTS: Final = 20  # default number of points in a table


def declare(verbs: Verbs) -> None:
    """Declare the verb and its arguments."""
    parser = verbs.add_offline("front", front, __doc__)
    parser.add_argument("instance", help="JSON file with the problem; - is stdin")
    parser.add_argument(
        "--budget", type=time_limit, default=10.0, help="time limit, such as 10s or 2min (10s)"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--points",
        type=_points,
        help=f"max number of points ({MAX_POINTS}; {TABLE_POINTS} in a table)",
    )


def front(args: Namespace) -> int:
    """Find the Pareto front of power, contention and communication; needs no server."""
    if args.seed < 0:
        raise CliError(f"--seed must be at least 0, not {args.seed}", code=Exit.USAGE)
    instance = read_instance(args.instance)
    result = _search(instance, args, TABLE_POINTS if args.output == "table" else MAX_POINTS)
    if args.output == "json":
        _write_json(instance, result)
    elif args.output == "yaml":
        document = {"points": list(_points_of(instance, result)), **_summary(result)}
        print_result(render(document, "yaml", ""))
    else:
        print_result(_table(result))
    return Exit.OK


def _search(instance: "Instance", args: Namespace, most: int) -> "ParetoFront":
    # imported here, as numpy and numba take a second
    from apps.placement.core.front.search import find_front, prepare  # noqa: PLC0415

    line = ProgressLine()
    with interrupts() as caught:
        prepare(instance)
        result = find_front(
            instance,
            clock=time.perf_counter,
            budget_s=args.budget,
            seed=args.seed,
            limit=args.points or most,
            should_stop=lambda: bool(caught),
            on_progress=lambda progress: line.show(progress.seconds, _line(progress)),
        )
    line.clear()
    return result


def _line(progress: "FrontProgress") -> str:
    return (
        f"generation {progress.generations}  {progress.points} points  "
        f"hypervolume {progress.hypervolume:.6f}"
    )


def _summary(result: "ParetoFront") -> dict[str, Any]:
    from apps.placement.core.front.archive import REFERENCE  # noqa: PLC0415 - numpy

    return {
        "hypervolume": result.hypervolume,
        "reference": list(REFERENCE),
        "generations": result.generations,
        "seconds": result.seconds,
        "exact": result.is_exact,
    }


def _points_of(instance: "Instance", result: "ParetoFront") -> Iterator[dict[str, Any]]:
    each = zip(
        result.raw.tolist(), result.normalised.tolist(), result.assignments.tolist(), strict=True
    )
    for raw, normalised, assignment in each:
        nodes = [instance.node_ids[node] for node in assignment]
        yield {
            **dict(zip("PDC", raw, strict=True)),
            "normalised": dict(zip("PDC", normalised, strict=True)),
            "assignment": dict(zip(instance.container_ids, nodes, strict=True)),
        }


def _write_json(instance: "Instance", result: "ParetoFront") -> None:
    """Write point by point, as there may be millions of containers."""
    sys.stdout.write('{"points": [')
    for number, point in enumerate(_points_of(instance, result)):
        sys.stdout.write((",\n" if number else "\n") + json.dumps(point, ensure_ascii=False))
    sys.stdout.write("\n], " + json.dumps(_summary(result))[1:] + "\n")


def _table(result: "ParetoFront") -> str:
    rows = [
        [f"{raw[0]:.6g}", f"{raw[1]:.6g}", f"{raw[2]:.6g}", *(f"{x:.4f}" for x in normalised)]
        for raw, normalised in zip(result.raw.tolist(), result.normalised.tolist(), strict=True)
    ]
    headings = ["P (W)", "D", "C", "P", "D", "C (normalised)"]
    proven = "complete" if result.is_exact else "not proven complete"
    return "\n".join(
        [
            columns(headings, rows),
            "",
            f"{len(rows)} of {result.points} points, {proven}:"
            f" hypervolume {result.hypervolume:.6f} after {result.generations} generations"
            f" in {result.seconds:.3g} s",
        ]
    )


def _points(text: str) -> int:
    try:
        most = int(text)
    except ValueError:
        most = 0
    if not 1 <= most <= MAX_POINTS:
        raise ArgumentTypeError(f"{text!r}: give a number from 1 to {MAX_POINTS}")
    return most
