"""berth evaluate: compute the objectives of a placement; needs no server."""

from argparse import Namespace

from controlplane.cli.errors import CliError, Exit
from controlplane.cli.output import facts, print_result, render
from controlplane.cli.placement_files import (
    evaluation_output,
    facts_of,
    read_assignment,
    read_instance,
    read_objectives,
    weights,
)
from controlplane.cli.verbs import Verbs


def declare(verbs: Verbs) -> None:
    """Declare the verb and its arguments."""
    parser = verbs.add_offline("evaluate", evaluate, __doc__)
    parser.add_argument("instance", nargs="?", help="JSON file with the problem; - is stdin")
    parser.add_argument("assignment", nargs="?", help="JSON object of container: node; - is stdin")
    parser.add_argument(
        "--weights", type=weights, help="weights of P, D, C (and migrations), for F"
    )
    parser.add_argument(
        "--objectives", help="JSON file with more objectives: price or carbon per kWh"
    )
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of a problem")


def evaluate(args: Namespace) -> int:
    """Compute power, diversified intensity and communication of a placement; needs no server."""
    if args.schema:
        from apps.placement.core.problem.schema import SCHEMA  # noqa: PLC0415 - as below

        print_result(render(SCHEMA, "yaml" if args.output == "yaml" else "json", ""))
        return Exit.OK
    if args.instance is None or args.assignment is None:
        raise CliError("give an instance and an assignment", code=Exit.USAGE)
    instance = read_instance(args.instance)
    assignment = read_assignment(args.assignment, instance)
    # imported here, as numpy is slow to import
    from apps.placement.core.problem import objectives  # noqa: PLC0415

    known_objectives = read_objectives(args.objectives, args.weights or {}, instance)
    evaluation = objectives.evaluate(
        instance, assignment, args.weights, objectives=known_objectives
    )
    output = evaluation_output(instance, evaluation)
    if args.weights is None:
        del output["F"]
    lines = facts_of(instance, evaluation, known_objectives)
    if args.weights is not None:
        lines["F"] = f"{evaluation.F:.9g}"
    print_result(render(output, args.output, facts(lines)))
    return Exit.OK
