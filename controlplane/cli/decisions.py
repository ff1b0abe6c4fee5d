"""The verbs of `berth decision`: stored decisions, repeated and compared."""

import json
from argparse import ArgumentTypeError, Namespace
from collections.abc import Mapping
from typing import Any, Final

from controlplane.cli.client import BerthClient
from controlplane.cli.errors import Exit
from controlplane.cli.output import columns, print_result, render
from controlplane.cli.verbs import Verbs, parameter, positive_int

DECISIONS: Final = "/api/v1/decisions/"
SHOWN: Final = 20  # differences of a table


def declare(verbs: Verbs) -> None:
    """Declare the verbs and their arguments."""
    noun = verbs.noun("decision", "repeat stored decisions of the agents")
    noun.add("replay", replay).add_argument("id", help="of the decision")
    parser = noun.add("redecide", redecide)
    parser.add_argument("id", help="of the decision")
    parser.add_argument("--policy", help="as in berth policy list")
    parser.add_argument("--sample", type=positive_int, metavar="R", help="candidates per unit")
    parser.add_argument("--target", type=_target, help="JSON, as in a job")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        type=parameter,
        metavar="PARAMETER=VALUE",
        help="weight or other parameter of the policy; may be repeated",
    )
    parser.add_argument(
        "--without", action="append", default=[], metavar="SERVER", help="may be repeated"
    )
    parser = noun.add("flips", flips)
    parser.add_argument("id", help="of the decision")
    parser.add_argument("--server", help="to be chosen; default: the best that was not")


def _target(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        example = '{"kind": "completion_time", "seconds": 600}'
        raise ArgumentTypeError(f"must be JSON such as {example}: {text!r}: {error}") from None


def redecide(client: BerthClient, args: Namespace) -> int:
    """Decide again with another policy, R, target or weights, or without some servers."""
    given = {
        "policy": args.policy,
        "sample_size": args.sample,
        "target": args.target,
        "parameters": dict(args.set),
        "without_servers": args.without,
    }
    body = {name: value for name, value in given.items() if value}
    found = client.post(f"{DECISIONS}{args.id}/counterfactuals/", body).body
    print_result(render(found, args.output, _both(found)))
    return Exit.OK


def flips(client: BerthClient, args: Namespace) -> int:
    """Show what would have to change for a server to be chosen; each change was verified."""
    parameters = {} if args.server is None else {"server": args.server}
    found = client.get(f"{DECISIONS}{args.id}/flips/", **parameters)
    print_result(render(found, args.output, _flip_table(found)))
    return Exit.OK


def _flip_table(found: Mapping[str, Any]) -> str:
    if found["server"] is None:
        return "No other server was examined."
    if found["is_chosen"]:
        return f"{found['server']} was chosen."
    if not found["flips"]:
        return f"No single change was found with which {found['server']} would be chosen."
    rows = [[flip["effect"], json.dumps(flip["change"])] for flip in found["flips"]]
    return "\n".join(
        [f"{found['server']} would have been chosen", columns(("IF", "CHANGE"), rows)]
    )


def _both(found: Mapping[str, Any]) -> str:
    rows = [(name, _shown(name, found["before"]), _shown(name, found["after"])) for name in _ROWS]
    return "\n".join([_verdict(found), columns(("", "AS DECIDED", "CHANGED"), rows)])


def _verdict(found: Mapping[str, Any]) -> str:
    before, after = found["before"], found["after"]
    is_placed = after["outcome"] == "placed"
    if before["outcome"] != after["outcome"]:
        return "Placed instead of refused." if is_placed else "Refused instead of placed."
    if not is_placed:
        return "Refused as before." if found["is_same"] else "Refused for another reason."
    if found["is_same"]:
        return "The same units."
    if _units_by_server(before) == _units_by_server(after):
        return "Other units of the same servers."
    return "Other units."


def _units_by_server(choice: Mapping[str, Any]) -> dict[str, int]:
    return {each["server"]: each["units"] for each in choice["servers"]}


_ROWS: Final = ("policy", "servers", "performance", "own", "neighbours", "losers", "reason")


def _shown(name: str, choice: Mapping[str, Any]) -> Any:
    if name == "servers":
        return ", ".join(f"{each['units']} on {each['server']}" for each in choice["servers"])
    if name == "losers":
        losers = choice["losers"]
        named = [f"{each['name']} {each['loss']:.1%}" for each in losers["jobs"][:SHOWN]]
        others = [f"{losers['others']} of other projects"] if losers["others"] else []
        return ", ".join([*named, *others]) or None
    if name in ("policy", "reason"):
        return choice[name] or None
    return None if choice["prediction"] is None else choice["prediction"][name]


def replay(client: BerthClient, args: Namespace) -> int:
    """Decide again on the same cluster, request and seed; exit code 1 if anything differs."""
    found = client.post(f"{DECISIONS}{args.id}/replay/").body
    print_result(render(found, args.output, _table(found)))
    return Exit.OK if found["verdict"] == "identical" else Exit.FAILED


def _table(found: dict[str, Any]) -> str:
    changed = [
        f"{each['field']} was {_text(each['stored'])}, is {_text(each['now'])}"
        for each in found["changed"]
    ]
    if found["verdict"] == "unavailable":
        return f"Cannot be repeated: {found['detail']}."
    batch = f"job {found['position'] + 1} of {found['jobs']} decided together"
    if found["verdict"] == "identical":
        return "\n".join([f"Identical in every field ({batch}).", *changed])
    rows = [
        [each["field"], _text(each["stored"]), _text(each["now"])]
        for each in found["differences"][:SHOWN]
    ]
    more = len(found["differences"]) - len(rows)
    return "\n".join(
        [
            f"Different ({batch}).",
            columns(("FIELD", "STORED", "NOW"), rows),
            *([f"{more} more; --json lists all."] if more else []),
            *changed,
        ]
    )


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
