"""The verbs of `berth shadow`: policies that decide on live decisions without committing."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any, Final

from controlplane.cli.client import BerthClient
from controlplane.cli.errors import Exit
from controlplane.cli.output import columns, duration, facts, percent, print_result, render
from controlplane.cli.verbs import Verbs, number_within, parameter, positive_int

SHADOWS: Final = "/api/v1/shadows/"
HEADINGS: Final = ("ID", "POLICY", "STATUS", "SHARE", "SEEN", "DECIDED", "DROPPED", "UNAVAILABLE")
_AGREEMENT: Final = ("same_units", "same_servers", "same_platforms")
_REGRET: Final = ("regret", "job", "neighbours")


def declare(verbs: Verbs) -> None:
    """Declare the verbs and their arguments."""
    noun = verbs.noun("shadow", "let a second policy decide on live decisions, without effect")
    parser = noun.add("start", start)
    parser.add_argument("policy", metavar="POLICY", help="as in berth policy list")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        type=parameter,
        metavar="PARAMETER=VALUE",
        help="parameter of the policy; may be repeated",
    )
    parser.add_argument(
        "--share", type=_share_of, default=1.0, help="of the decisions, 0.001 to 1"
    )
    parser.add_argument("--until", metavar="TIME", help="end, such as 2026-12-24T18:00:00Z")
    parser = noun.add("list", list_shadows)
    parser.add_argument("--limit", type=positive_int, default=20, help="max number of rows (20)")
    parser = noun.add("show", show)
    parser.add_argument("id", help="of the shadow")
    parser.add_argument(
        "--decisions",
        type=positive_int,
        default=10,
        metavar="N",
        help="of the most different decisions to show",
    )
    noun.add("stop", stop).add_argument("id", help="of the shadow")


def _share_of(text: str) -> float:
    return number_within(text, 0.001, 1.0)


def start(client: BerthClient, args: Namespace) -> int:
    """Let a policy decide on a share of the decisions from now on, without committing."""
    body: dict[str, Any] = {"policy": args.policy, "share": args.share}
    if args.set:
        body["parameters"] = dict(args.set)
    if args.until:
        body["until"] = args.until
    found = client.post(SHADOWS, body).body
    print_result(render(found, args.output, f"Shadow {found['id']} of {found['policy']} started."))
    return Exit.OK


def list_shadows(client: BerthClient, args: Namespace) -> int:
    """List the shadows, newest first."""
    rows = list(client.pages(SHADOWS, {}, args.limit))
    table = columns(HEADINGS, [_line(row) for row in rows])
    print_result(render(rows, args.output, table))
    return Exit.OK


def _line(row: Mapping[str, Any]) -> Sequence[Any]:
    counts = [row[name] for name in ("seen", "decided", "dropped", "unavailable")]
    return [row["id"], row["policy"], row["end"] or "running", percent(row["share"], 1), *counts]


def stop(client: BerthClient, args: Namespace) -> int:
    """Stop a shadow; its results are kept."""
    found = client.post(f"{SHADOWS}{args.id}/stop/").body
    text = f"Shadow {found['id']} of {found['policy']}: {found['end']}."
    print_result(render(found, args.output, text))
    return Exit.OK


def show(client: BerthClient, args: Namespace) -> int:
    """Show agreement, predicted regret and the most different decisions of a shadow."""
    found = client.get(f"{SHADOWS}{args.id}/")
    most = client.get(f"{SHADOWS}{args.id}/decisions/", limit=str(args.decisions))["results"]
    shown = {**found, "decisions": most}
    text = "\n\n".join(
        [facts(_progress(found)), _table(found), _different(most), "95 % intervals in brackets."]
    )
    print_result(render(shown, args.output, text))
    return Exit.OK


def _progress(found: Mapping[str, Any]) -> dict[str, Any]:
    given = ", ".join(f"{name}={value:g}" for name, value in found["parameters"].items())
    return {
        "policy": f"{found['policy']} {given}".strip(),
        "status": found["end"] or "running",
        **({"error": found["error"]} if found["error"] else {}),
        "share": percent(found["share"], 1),
        "seen": found["seen"],
        "decided": found["decided"],
        "refused by both": found["neither"],
        "dropped": found["dropped"],
        "unavailable": found["unavailable"],
        "CPU time": duration(found["cpu_seconds"]),
    }


def _table(found: Mapping[str, Any]) -> str:
    rows = [["all", found["result"]]]
    rows += [[part["name"] or "refused", part] for of in found["groups"].values() for part in of]
    headings = ("DECISIONS", "N", "SAME UNITS", "SERVERS", "PLATFORMS", "REGRET", "JOB",
                "NEIGHBOURS")  # fmt: skip
    lines = [
        [name, part["decisions"],
         *(_share(part[key]) for key in _AGREEMENT), *(_mean(part[key]) for key in _REGRET)]
        for name, part in rows
    ]  # fmt: skip
    return columns(headings, lines)


def _share(estimate: Mapping[str, float | None]) -> str:
    return percent(estimate["value"])


def _mean(estimate: Mapping[str, float | None]) -> str:
    value, low, high = estimate["value"], estimate["low"], estimate["high"]
    if value is None:
        return "-"
    if low is None or high is None:
        return f"{value:+.4f}"
    return f"{value:+.4f} [{low:+.4f}, {high:+.4f}]"


def _different(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        [row["decision"], row["kind"], _servers(row["live"]), _servers(row["shadow"]), regret]
        for row in rows
        if (regret := _regret(row)) != 0.0
    ]
    return columns(("DECISION", "KIND", "LIVE", "SHADOW", "REGRET"), lines)


def _regret(row: Mapping[str, Any]) -> float | None:
    if row["job_regret"] is None:
        return None
    return float(row["job_regret"] + row["neighbour_regret"])


def _servers(choice: Mapping[str, Any]) -> str:
    return ", ".join(choice["servers"]) or f"refused: {choice['reason']}"
