"""berth evaluate: what a placement is worth; needs no server."""

from argparse import ArgumentParser, Namespace

from controlplane.cli.errors import CliError, Exit
from controlplane.cli.output import facts, render, say
from controlplane.cli.placement_files import (
    answer,
    facts_of,
    read_assignment,
    read_instance,
    read_objectives,
    weights,
)


def add_options(parser: ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("instance", nargs="?", help="JSON of the problem; - is stdin")
    parser.add_argument("assignment", nargs="?", help="JSON of container: node; - is stdin")
    parser.add_argument("--weights", type=weights, help="of P, D, C (and moves), for F")
    parser.add_argument("--objectives", help="JSON of more objectives: prices or carbon of a kWh")
    parser.add_argument("--schema", action="store_true", help="print the schema of an instance")


def evaluate(args: Namespace) -> int:
    """Tell the power, diversified intensity and communication of a placement; needs no server."""
    if args.schema:
        from apps.placement.core.schema import SCHEMA  # noqa: PLC0415 - as below

        say(render(SCHEMA, "yaml" if args.output == "yaml" else "json", ""))
        return Exit.OK
    if args.instance is None or args.assignment is None:
        raise CliError("name an instance and an assignment", code=Exit.USAGE)
    instance = read_instance(args.instance)
    placed = read_assignment(args.assignment, instance)
    # numpy takes a while to import, which no other verb should pay
    from apps.placement.core import objectives  # noqa: PLC0415

    known = read_objectives(args.objectives, args.weights or {}, instance)
    found = objectives.evaluate(instance, placed, args.weights, objectives=known)
    told = answer(instance, found)
    if args.weights is None:
        del told["F"]
    lines = facts_of(instance, found)
    if args.weights is not None:
        lines["F"] = f"{found.F:.9g}"
    say(render(told, args.output, facts(lines)))
    return Exit.OK
