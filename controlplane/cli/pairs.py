"""The verbs of `berth pair`: predicted and measured co-location of two applications."""

import shlex
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any, Final

from controlplane.cli.client import BerthClient
from controlplane.cli.errors import CliError, Exit
from controlplane.cli.output import columns, facts, print_result, render
from controlplane.cli.verbs import Verbs, positive_int

PAIRS: Final = "/api/v1/measured-pairs/"
HEADINGS: Final = ("ID", "FIRST", "SECOND", "STATUS", "PREDICTED", "MEASURED")


def declare(verbs: Verbs) -> None:
    """Declare the verbs and their arguments."""
    noun = verbs.noun("pair", "compare predicted with measured co-location of two applications")
    parser = noun.add("run", run)
    for side in ("first", "second"):
        parser.add_argument(
            f"--{side}", metavar="COMMAND", help="one argument, split as a shell would"
        )
        parser.add_argument(
            f"--{side}-app", metavar="APP", help="its application, or an emulated one"
        )
        parser.add_argument(f"--{side}-units", type=positive_int, default=1, metavar="N")
    parser.add_argument("--platform", help="of the server; the smallest one if omitted")
    parser.add_argument("--project", help="of the job that measures")
    parser.add_argument("--rounds", type=positive_int, default=8, metavar="N", help="3 to 50")
    parser.add_argument("--window", type=float, default=1.0, metavar="S", help="min length")
    parser.add_argument(
        "--max-foreign",
        type=float,
        default=5.0,
        metavar="PERCENT",
        help="of the cores that other programs may use in a round",
    )
    parser = noun.add("list", list_pairs)
    parser.add_argument("--limit", type=positive_int, default=20, help="max number of rows (20)")
    noun.add("show", show).add_argument("id", help="of the pair")
    noun.add("cancel", cancel).add_argument("id", help="of the pair")


def run(client: BerthClient, args: Namespace) -> int:
    """Predict two applications next to each other, and measure it."""
    body = {
        "first": _side(args, "first"),
        "second": _side(args, "second"),
        "platform": args.platform,
        "project": args.project,
        "rounds": args.rounds,
        "window_seconds": args.window,
        "max_foreign_percent": args.max_foreign,
    }
    found = client.post(PAIRS, body).body
    text = f"Pair {found['id']} requested; berth pair show {found['id']}"
    print_result(render(found, args.output, f"{_table(found)}\n\n{text}"))
    return Exit.OK


def _side(args: Namespace, side: str) -> dict[str, Any]:
    command, application = getattr(args, side), getattr(args, f"{side}_app")
    if command is None and application is None:
        detail = f"--{side} COMMAND or --{side}-app APP is required"
        raise CliError(detail, code=Exit.USAGE)
    body: dict[str, Any] = {"units": getattr(args, f"{side}_units")}
    if command is not None:
        body["command"] = shlex.split(command)
    if application is not None:
        body["application"] = application
    return body


def list_pairs(client: BerthClient, args: Namespace) -> int:
    """List the measured pairs, newest first."""
    rows = list(client.pages(PAIRS, {}, args.limit))
    print_result(render(rows, args.output, columns(HEADINGS, [_line(row) for row in rows])))
    return Exit.OK


def _line(row: Mapping[str, Any]) -> Sequence[Any]:
    first, second = row["sides"]
    predicted, measured = (
        " ".join(_value(side[name]) for side in row["sides"]) for name in ("predicted", "measured")
    )
    names = first["application"], second["application"]
    return [row["id"], *names, row["operation"]["status"], predicted, measured]


def _value(slowdown: Mapping[str, float] | None) -> str:
    return "-" if slowdown is None else f"{slowdown['value']:.3f}"


def show(client: BerthClient, args: Namespace) -> int:
    """Show the four numbers of a pair."""
    found = client.get(f"{PAIRS}{args.id}/")
    print_result(render(found, args.output, f"{_facts(found)}\n\n{_table(found)}"))
    return Exit.OK


def _facts(found: Mapping[str, Any]) -> str:
    operation = found["operation"]
    problem = operation["problem"] or {}
    shown = {
        "status": operation["status"],
        "rounds": f"{operation['progress']} of {operation['total']}",
        "repeated": found["rejected"],
        "server": f"{'emulated, ' if found['is_emulated'] else ''}{found['platform']}, "
        f"{found['server_units']} units",
        "job": found["job"] or "-",
    }
    if operation["message"] or problem:
        shown["message"] = problem.get("detail", operation["message"])
    return facts(shown)


def _table(found: Mapping[str, Any]) -> str:
    """Return the slowdowns with their 90 % intervals."""
    rows = [
        [
            side["application"],
            _interval(side["predicted"]),
            _interval(side["measured"]),
            _verdict(side),
        ]
        for side in found["sides"]
    ]
    return columns(("APPLICATION", "PREDICTED SLOWDOWN", "MEASURED", "PREDICTION"), rows)


def _interval(slowdown: Mapping[str, float] | None) -> str:
    if slowdown is None:
        return "-"
    return f"{slowdown['value']:.3f} [{slowdown['low']:.3f}, {slowdown['high']:.3f}]"


def _verdict(side: Mapping[str, Any]) -> str:
    if side["missing"]:
        return f"no scores of {', '.join(side['missing'])}"
    if side["holds"] is None:
        return "-"
    if side["holds"]:
        return "too wide to tell" if side["is_wide"] else "holds"
    return "intervals overlap" if side["overlaps"] else "does not hold"


def cancel(client: BerthClient, args: Namespace) -> int:
    """Cancel a pair that waits or is being measured."""
    operation = client.get(f"{PAIRS}{args.id}/")["operation"]["id"]
    found = client.post(f"/api/v1/operations/{operation}/cancel/").body
    print_result(render(found, args.output, f"Pair {args.id}: cancellation requested."))
    return Exit.OK
