"""berth front: placements none of which is better than another in everything; needs no server."""

import json
import sys
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from controlplane.cli.errors import CliError, Exit
from controlplane.cli.output import columns, render, say
from controlplane.cli.placement_files import read_instance
from controlplane.cli.searching import ProgressLine, interrupts, time_limit

if TYPE_CHECKING:
    from apps.placement.core.front import Front
    from apps.placement.core.instance import Instance
    from apps.placement.core.nsga2 import Progress

MOST_POINTS: Final = 2_000
LISTED: Final = 20  # points of a table, unless asked for more


def add_options(parser: ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("instance", help="JSON of the problem; - is stdin")
    parser.add_argument(
        "--budget", type=time_limit, default=10.0, help="such as 10s or 2min (10s)"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--points",
        type=_points,
        help=f"at most so many, spread over the front ({MOST_POINTS}; {LISTED} in a table)",
    )


def front(args: Namespace) -> int:
    """Find the placements that trade power, contention and communication best; needs no server."""
    if args.seed < 0:
        raise CliError(f"--seed must be at least 0, not {args.seed}", code=Exit.USAGE)
    instance = read_instance(args.instance)
    found = _found(instance, args, LISTED if args.output == "table" else MOST_POINTS)
    if args.output == "json":
        _write_json(instance, found)
    elif args.output == "yaml":
        whole = {"points": list(_points_of(instance, found)), **_about(found)}
        say(render(whole, "yaml", ""))
    else:
        say(_table(found))
    return Exit.OK


def _found(instance: "Instance", args: Namespace, most: int) -> "Front":
    # numpy and numba take a second to import, which no other verb should pay
    from apps.placement.core.front_search import find_front, prepare  # noqa: PLC0415

    line = ProgressLine()
    with interrupts() as caught:
        prepare(instance)
        found = find_front(
            instance,
            clock=time.perf_counter,
            budget_s=args.budget,
            seed=args.seed,
            most=args.points or most,
            should_stop=lambda: bool(caught),
            watch=lambda progress: line.show(progress.seconds, _line(progress)),
        )
    line.clear()
    return found


def _line(progress: "Progress") -> str:
    return (
        f"generation {progress.generations}  {progress.points} points  "
        f"hypervolume {progress.hypervolume:.6f}"
    )


def _about(found: "Front") -> dict[str, Any]:
    from apps.placement.core.front import REFERENCE  # noqa: PLC0415 - numpy

    return {
        "hypervolume": found.hypervolume,
        "reference": list(REFERENCE),
        "generations": found.generations,
        "seconds": found.seconds,
        "exact": found.is_exact,
    }


def _points_of(instance: "Instance", found: "Front") -> Iterator[dict[str, Any]]:
    each = zip(
        found.raw.tolist(), found.normalised.tolist(), found.assignments.tolist(), strict=True
    )
    for raw, normalised, assignment in each:
        nodes = [instance.node_ids[node] for node in assignment]
        yield {
            **dict(zip("PDC", raw, strict=True)),
            "normalised": dict(zip("PDC", normalised, strict=True)),
            "assignment": dict(zip(instance.container_ids, nodes, strict=True)),
        }


def _write_json(instance: "Instance", found: "Front") -> None:
    """Write point by point: there may be millions of containers in all."""
    sys.stdout.write('{"points": [')
    for number, point in enumerate(_points_of(instance, found)):
        sys.stdout.write((",\n" if number else "\n") + json.dumps(point, ensure_ascii=False))
    sys.stdout.write("\n], " + json.dumps(_about(found))[1:] + "\n")


def _table(found: "Front") -> str:
    rows = [
        [f"{raw[0]:.6g}", f"{raw[1]:.6g}", f"{raw[2]:.6g}", *(f"{x:.4f}" for x in normalised)]
        for raw, normalised in zip(found.raw.tolist(), found.normalised.tolist(), strict=True)
    ]
    headings = ["P (W)", "D", "C", "P", "D", "C (normalised)"]
    proven = "the whole front" if found.is_exact else "not proven to be all"
    return "\n".join(
        [
            columns(headings, rows),
            "",
            f"{len(rows)} of {found.points} points, {proven}: hypervolume {found.hypervolume:.6f}"
            f" after {found.generations} generations in {found.seconds:.3g} s",
        ]
    )


def _points(text: str) -> int:
    try:
        most = int(text)
    except ValueError:
        most = 0
    if not 1 <= most <= MOST_POINTS:
        raise ArgumentTypeError(f"{text!r}: give a number from 1 to {MOST_POINTS}")
    return most
