"""The verbs of `berth loop`: settings of the rebalancing loop."""

from argparse import Namespace
from collections.abc import Mapping
from typing import Any, Final

from controlplane.cli.client import BerthClient, if_match
from controlplane.cli.errors import CliError, Exit
from controlplane.cli.jobfile import seconds
from controlplane.cli.output import facts, print_result, render
from controlplane.cli.verbs import Verbs, argument_type

LOOP: Final = "/api/v1/placement-loop/"


def declare(verbs: Verbs) -> None:
    """Declare the verbs and their arguments."""
    loop = verbs.noun("loop", "Settings of the rebalancing loop")
    period = argument_type(seconds)
    loop.add("show", show_loop)
    parser = loop.add("set", set_loop)
    add = parser.add_argument
    add("--mode", choices=["off", "advise", "automatic"])
    add("--every", type=period, metavar="TIME", help="interval between checks, e.g. 1min")
    add("--solve", type=period, metavar="TIME", help="time limit of the solver (wall time)")
    add("--moves-per-plan", type=int, help="max migrations in a plan")
    add("--moves-per-minute", type=int, help="max migrations started per minute in the cluster")
    add("--moves-per-job", type=int, help="max plans that migrate the same job within an hour")
    add("--youngest", type=period, metavar="TIME", help="min age of jobs to migrate")
    add("--least-gain", type=float, help="min improvement of F for a plan to be proposed")
    add("--migration", type=float, help="cost of migrating all containers once, in F")


def show_loop(client: BerthClient, args: Namespace) -> int:
    """Show the settings and last result of the rebalancing loop."""
    response = client.get(LOOP)
    print_result(render(response, args.output, facts(_shown(response))))
    return Exit.OK


def _shown(response: Mapping[str, Any]) -> dict[str, Any]:
    shown = {name: None if value == "" else value for name, value in response.items()}
    checked_s = shown.pop("looked_cluster_seconds")
    return {**shown, "last check, cluster s": f"{checked_s:,.0f}"}


def set_loop(client: BerthClient, args: Namespace) -> int:
    """Change the mode (off, advise or automatic) and budgets of the rebalancing loop."""
    options = {
        "mode": args.mode,
        "every_seconds": args.every,
        "solve_seconds": args.solve,
        "moves_per_plan": args.moves_per_plan,
        "moves_per_minute": args.moves_per_minute,
        "moves_per_job": args.moves_per_job,
        "youngest_seconds": args.youngest,
        "least_gain": args.least_gain,
        "migration": args.migration,
    }
    changes = {name: value for name, value in options.items() if value is not None}
    if not changes:
        raise CliError("give a setting to change, such as --mode advise", code=Exit.USAGE)
    before = client.get(LOOP)
    after = client.call("PATCH", LOOP, body=changes, headers=if_match(before)).body
    print_result(render(after, args.output, facts({name: after[name] for name in changes})))
    return Exit.OK
