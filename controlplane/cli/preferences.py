"""The verbs of `berth pref`: from picks to weights, and weights into force and out of it."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from controlplane.cli.client import Client
from controlplane.cli.errors import CliError, Exit
from controlplane.cli.fronts import AddVerb
from controlplane.cli.jobfile import seconds
from controlplane.cli.output import columns, duration, facts, percent, render, say, tell

SETS: Final = "/api/v1/preference-sets/"
CURRENT: Final = "/api/v1/weights/current/"
ACTIVATIONS: Final = "/api/v1/weights/activations/"
OBJECTIVES: Final = "PDC"
GUARD_S: Final = 600.0


def add_verbs(verb: AddVerb) -> None:
    """Declare what the verbs take."""
    every = verb("list", list_sets)
    every.add_argument("--limit", type=int, default=50, help="at most so many (50)")
    which = "name or id of a preference set"
    verb("show", show).add_argument("set", help=which)
    _add_picking(verb("derive", derive))
    _add_picking(verb("check", check))
    made = verb("new", new)
    made.add_argument("name")
    made.add_argument("--note", default="")
    made.add_argument("--parent", help=which)
    _add_picking(made)
    brought = verb("activate", activate)
    brought.add_argument("set", help=which)
    brought.add_argument("-m", "--message", type=_said, required=True, help="why")
    brought.add_argument("--rack", action="append", default=[], help="only there; repeatable")
    brought.add_argument(
        "--guard",
        type=_guard,
        metavar="DROP[:TIME]",
        help="take them back when the share of targets met drops so much for so long: 0.02:10min",
    )
    taken = verb("revert", revert)
    taken.add_argument("activation", nargs="?", type=int, help="the one in force when left out")
    taken.add_argument("-m", "--message", type=_said, required=True, help="why")


def _add_picking(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--front", help="id, or a name such as f-0031")
    add("--version", type=int, help="of the front; the latest when left out")
    add(
        "--pick",
        action="append",
        default=[],
        type=_pick,
        metavar="SCREEN=POINTS",
        help="placements accepted there, such as P-D=3,17,40; repeatable",
    )
    add("--reject", type=_numbers, default=[], metavar="POINTS", help="such as 5,9")
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--reference", type=_values, metavar="P,D,C", help="normalised values wanted instead"
    )
    group.add_argument("--weights", type=_values, metavar="P,D,C", help="given as such instead")


def _said(text: str) -> str:
    if not text.strip():
        raise ArgumentTypeError("say why in a few words")
    return text


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r}: give numbers of points, such as 3,17,40") from error


def _pick(text: str) -> tuple[str, list[int]]:
    screen, equals, points = text.partition("=")
    if not equals:
        raise ArgumentTypeError(f"{text!r}: say on which screen, such as P-D=3,17,40")
    return screen, _numbers(points)


def _values(text: str) -> dict[str, float]:
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if len(values) != len(OBJECTIVES):
        raise ArgumentTypeError(f"{text!r}: give three numbers, of P, D and C: 0.22,1,0.36")
    return dict(zip(OBJECTIVES, values, strict=True))


def _guard(text: str) -> dict[str, float]:
    drop, _, time = text.partition(":")
    try:
        return {"drop": float(drop), "seconds": seconds(time) if time else GUARD_S}
    except ValueError as error:
        raise ArgumentTypeError(
            f"{text!r}: give a share and a time, such as 0.02:10min"
        ) from error


def picking(args: Namespace) -> dict[str, Any]:
    """Return what was picked as the API takes it."""
    body: dict[str, Any] = {"rule": "spread", "rejected": args.reject}
    if args.front is not None:
        body["front"] = args.front
    if args.version is not None:
        body["version"] = args.version
    picks: dict[str, list[int]] = {}
    for screen, points in args.pick:
        picks[screen] = picks.get(screen, []) + points
    body["picks"] = picks
    if args.reference is not None:
        body |= {"rule": "reference", "wanted": args.reference}
    if args.weights is not None:
        body |= {"rule": "direct", "wanted": args.weights}
    return body


def list_sets(client: Client, args: Namespace) -> int:
    """List preference sets, newest first; a star marks the one in force."""
    rows = list(client.pages(SETS, {}, args.limit))
    headings = ("", "NAME", "P", "D", "C", "RULE", "FRONT", "IN FORCE", "BY", "KEPT")
    shown = [
        (
            "*" if one["is_in_force"] else "",
            one["name"],
            *_weights(one["weights"]),
            *(one["rule"], one["front_name"], _times(one["activations"])),
            *(one["created_by"], one["created_at"]),
        )
        for one in rows
    ]
    say(render(rows, args.output, columns(headings, shown)))
    return Exit.OK


def show(client: Client, args: Namespace) -> int:
    """Show a preference set: its weights, and the picks they came from."""
    one = find_set(client, args.set)
    of = f"{one['front_name']} version {one['version']}" if one["front"] else None
    told = {
        "name": one["name"],
        "id": one["id"],
        "note": one["note"] or None,
        **{f"weight of {o}": f"{one['weights'][o]:.4f}" for o in OBJECTIVES},
        "rule": one["rule"],
        "front": of,
        **{f"picks on {screen}": _listed(held) for screen, held in one["picks"].items()},
        "rejected": _listed(one["rejected"]),
        "wanted": ", ".join(f"{o} {one['wanted'][o]:g}" for o in OBJECTIVES if one["wanted"])
        or None,
        "parent": one["parent"],
        "in force": "now" if one["is_in_force"] else _times(one["activations"]),
        "kept": f"{one['created_at']} by {one['created_by']}",
    }
    say(render(one, args.output, facts(told)))
    return Exit.OK


def derive(client: Client, args: Namespace) -> int:
    """Show the weights that picks give, and what speaks against them; nothing is written."""
    found = client.post(f"{SETS}derive/", picking(args)).body
    rows = [
        (o, f"{found['weights'][o]:.4f}", _number(found["spread"].get(o)), _mark(found, o))
        for o in OBJECTIVES
    ]
    lines = [found["sentence"], "", columns(("OBJECTIVE", "WEIGHT", "SPREAD", ""), rows)]
    if found["sensitivity"]:
        most = max(found["sensitivity"], key=lambda one: float(one["change"]))
        moved = f"without point {most['point']} a weight moves by {most['change']:.2f}"
        lines += ["", f"{found['picks']} placements picked; {moved}, the most of all"]
    lines += [f"! {warning}" for warning in found["warnings"]]
    say(render(found, args.output, "\n".join(lines)))
    return Exit.OK


def check(client: Client, args: Namespace) -> int:
    """Show what the solver itself returns under the weights that picks give."""
    found = client.post(f"{SETS}check/", picking(args)).body
    star = found["star"]
    proven = "proven best" if star["optimal"] else f"gap {_gap(star['gap'])}"
    rows = [(o, f"{star['raw'][o]:.6g}", f"{star['normalised'][o]:.4f}") for o in OBJECTIVES]
    lines = [
        found["sentence"],
        "",
        columns(("OBJECTIVE", "RAW", "NORMALISED"), rows),
        "",
        f"F {star['F']:.6f}, {proven} after {duration(star['seconds'])};"
        f" nearest point {found['nearest']}",
    ]
    if found["unreachable"]:
        lines.append(f"! No weights return {_listed(found['unreachable'])}: a dent of the front.")
    say(render(found, args.output, "\n".join(lines)))
    return Exit.OK


def new(client: Client, args: Namespace) -> int:
    """Keep picks and the weights they give under a name."""
    body = {**picking(args), "name": args.name, "note": args.note}
    if args.parent:
        body["parent"] = find_set(client, args.parent)["id"]
    try:
        made = client.post(SETS, body).body
    except CliError as error:
        if error.code is Exit.CONFLICT:
            error.next_command = f"berth pref show {args.name}"
        raise
    weights = ", ".join(f"{o} {made['weights'][o]:.4f}" for o in OBJECTIVES)
    say(render(made, args.output, f"{made['name']}: {weights}"))
    return Exit.OK


def activate(client: Client, args: Namespace) -> int:
    """Bring the weights of a preference set into force."""
    one = find_set(client, args.set)
    body = {"message": args.message, "racks": args.rack, "guard": args.guard}
    headers = {"If-Match": f'"g{one["generation"]}"'}
    try:
        made = client.call("POST", f"{SETS}{one['id']}/activate/", body=body, headers=headers).body
    except CliError as error:
        if error.code is Exit.CONFLICT:
            error.next_command = f"berth pref show {one['name']}"
        raise
    say(render(made, args.output, _in_force(made)))
    return Exit.OK


def revert(client: Client, args: Namespace) -> int:
    """Bring back the weights that were in force before; that can be reverted itself."""
    number = args.activation
    if number is None:
        current = client.get(CURRENT)["activation"]
        if current is None:
            raise CliError(
                "no weights are in force",
                code=Exit.CONFLICT,
                next_command="berth pref activate SET -m WHY",
            )
        number = current["id"]
        tell(f"berth: taking back activation {number}, {current['name']}")
    body = {"message": args.message}
    try:
        made = client.post(f"{ACTIVATIONS}{number}/revert/", body).body
    except CliError as error:
        if error.code in {Exit.CONFLICT, Exit.NOT_FOUND}:
            error.next_command = "berth pref list"
        raise
    say(render(made, args.output, _in_force(made)))
    return Exit.OK


def find_set(client: Client, key: str) -> dict[str, Any]:
    """Return a preference set by name or id.

    Raises
    ------
    CliError : there is none.
    """
    found: list[dict[str, Any]] = client.get(SETS, name=key)["results"]
    if found:
        return found[0]
    try:
        one: dict[str, Any] = client.get(f"{SETS}{quote(key, safe='')}/")
    except CliError as error:
        if error.code is not Exit.NOT_FOUND:
            raise
        raise CliError(
            f"there is no preference set {key}",
            code=Exit.NOT_FOUND,
            next_command="berth pref list",
        ) from None
    return one


def _in_force(made: Mapping[str, Any]) -> str:
    where = f" on {', '.join(made['racks'])}" if made["racks"] else ""
    guard = made["guard"]
    until = ""
    if guard:
        until = f", until {percent(guard['drop'])} fewer targets are met"
        until += f" for {duration(guard['seconds'])}"
    weights = ", ".join(f"{o} {made['weights'][o]:.4f}" for o in OBJECTIVES)
    return f"{made['name']} is in force{where}{until} (activation {made['id']}): {weights}"


def _weights(weights: Mapping[str, float]) -> list[str]:
    return [f"{weights[o]:.2f}" for o in OBJECTIVES]


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:.4f}"


def _gap(gap: float | None) -> str:
    return "unknown" if gap is None else f"{100 * gap:.2g} %"


def _mark(found: Mapping[str, Any], objective: str) -> str:
    if objective in found["idle"]:
        return "the same all over the front"
    return "counts as 0.01" if objective in found["floored"] else ""


def _times(count: int) -> str:
    return {0: "never", 1: "once"}.get(count, f"{count} times")


def _listed(points: Sequence[int]) -> str | None:
    return ", ".join(map(str, points)) or None
