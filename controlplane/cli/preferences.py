"""The verbs of `berth pref`: derive weights from picks, activate and revert them."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from controlplane.cli.client import BerthClient
from controlplane.cli.errors import CliError, Exit
from controlplane.cli.jobfile import seconds
from controlplane.cli.output import (
    columns,
    duration,
    facts,
    percent,
    print_message,
    print_result,
    render,
)
from controlplane.cli.verbs import Verbs, positive_int

SETS: Final = "/api/v1/preference-sets/"
CURRENT: Final = "/api/v1/weights/current/"
ACTIVATIONS: Final = "/api/v1/weights/activations/"
OBJECTIVES: Final = "PDC"
GUARD_S: Final = 600.0


def declare(verbs: Verbs) -> None:
    """Declare the verbs and their arguments."""
    pref = verbs.noun("pref", "Preference sets and the weights in force")
    list_parser = pref.add("list", list_sets)
    list_parser.add_argument(
        "--limit", type=positive_int, default=50, help="max number of rows (50)"
    )
    which = "name or id of a preference set"
    pref.add("show", show).add_argument("set", help=which)
    _add_pick_options(pref.add("derive", derive))
    _add_pick_options(pref.add("check", check))
    new_parser = pref.add("new", new)
    new_parser.add_argument("name")
    new_parser.add_argument("--note", default="")
    new_parser.add_argument("--parent", help=which)
    _add_pick_options(new_parser)
    activate_parser = pref.add("activate", activate)
    activate_parser.add_argument("set", help=which)
    activate_parser.add_argument("-m", "--message", type=_reason, required=True, help="reason")
    activate_parser.add_argument(
        "--rack", action="append", default=[], help="only on this rack; repeatable"
    )
    activate_parser.add_argument(
        "--guard",
        type=_guard,
        metavar="DROP[:TIME]",
        help="revert if the share of targets met drops by DROP for TIME: 0.02:10min",
    )
    revert_parser = pref.add("revert", revert)
    revert_parser.add_argument("activation", nargs="?", type=int, help="default: the one in force")
    revert_parser.add_argument("-m", "--message", type=_reason, required=True, help="reason")


def _add_pick_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--front", help="id, or a name such as f-0031")
    add("--version", type=int, help="version of the front; default: the latest")
    add(
        "--pick",
        action="append",
        default=[],
        type=_pick,
        metavar="SCREEN=POINTS",
        help="accepted placements on a screen, such as P-D=3,17,40; repeatable",
    )
    add(
        "--reject",
        type=_point_numbers,
        default=[],
        metavar="POINTS",
        help="rejected placements, such as 5,9",
    )
    add(
        "--bound",
        action="append",
        default=[],
        type=_bound,
        metavar="OBJECTIVE=VALUE",
        help="smallest normalised value of D, largest of P or C, such as D=0.5; repeatable",
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--reference",
        type=_values,
        metavar="P,D,C",
        help="derive from target values (normalised) instead",
    )
    group.add_argument(
        "--weights", type=_values, metavar="P,D,C", help="set the weights directly instead"
    )


def _reason(text: str) -> str:
    if not text.strip():
        raise ArgumentTypeError("give a reason")
    return text


def _point_numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r}: give point numbers, such as 3,17,40") from error


def _pick(text: str) -> tuple[str, list[int]]:
    screen, equals, points = text.partition("=")
    if not equals:
        raise ArgumentTypeError(f"{text!r}: name the screen, such as P-D=3,17,40")
    return screen, _point_numbers(points)


def _bound(text: str) -> tuple[str, float]:
    objective, _, value = text.partition("=")
    try:
        return objective, float(value)
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r}: give an objective and a value, as in D=0.5") from error


def _values(text: str) -> dict[str, float]:
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if len(values) != len(OBJECTIVES):
        raise ArgumentTypeError(
            f"{text!r}: give three numbers for P, D and C, such as 0.22,1,0.36"
        )
    return dict(zip(OBJECTIVES, values, strict=True))


def _guard(text: str) -> dict[str, float]:
    drop, _, time = text.partition(":")
    try:
        return {"drop": float(drop), "seconds": seconds(time) if time else GUARD_S}
    except ValueError as error:
        raise ArgumentTypeError(
            f"{text!r}: give a share and a time, such as 0.02:10min"
        ) from error


def request_body(args: Namespace) -> dict[str, Any]:
    """Return the request body of a preference set."""
    body: dict[str, Any] = {"rule": "spread", "rejected": args.reject}
    if args.front is not None:
        body["front"] = args.front
    if args.version is not None:
        body["version"] = args.version
    picks: dict[str, list[int]] = {}
    for screen, points in args.pick:
        picks[screen] = picks.get(screen, []) + points
    body["picks"] = picks
    if args.bound:
        body["bounds"] = dict(args.bound)
    if args.reference is not None:
        body |= {"rule": "reference", "wanted": args.reference}
    if args.weights is not None:
        body |= {"rule": "direct", "wanted": args.weights}
    return body


def list_sets(client: BerthClient, args: Namespace) -> int:
    """List preference sets, newest first; a star marks the one in force."""
    rows = list(client.pages(SETS, {}, args.limit))
    headings = ("", "NAME", "P", "D", "C", "RULE", "FRONT", "IN FORCE", "BY", "CREATED")
    shown = [
        (
            "*" if preference_set["is_in_force"] else "",
            preference_set["name"],
            *_weights(preference_set["weights"]),
            *(
                preference_set["rule"],
                preference_set["front_name"],
                _activation_count(preference_set["activations"]),
            ),
            *(preference_set["created_by"], preference_set["created_at"]),
        )
        for preference_set in rows
    ]
    print_result(render(rows, args.output, columns(headings, shown)))
    return Exit.OK


def show(client: BerthClient, args: Namespace) -> int:
    """Show a preference set: its weights and picks."""
    preference_set = find_set(client, args.set)
    front = f"{preference_set['front_name']} version {preference_set['version']}"
    lines = {
        "name": preference_set["name"],
        "id": preference_set["id"],
        "note": preference_set["note"] or None,
        **{f"weight of {o}": f"{preference_set['weights'][o]:.4f}" for o in OBJECTIVES},
        "rule": preference_set["rule"],
        "front": front if preference_set["front"] else None,
        **{
            f"picks on {screen}": _joined(points)
            for screen, points in preference_set["picks"].items()
        },
        "rejected": _joined(preference_set["rejected"]),
        "given values": ", ".join(
            f"{o} {preference_set['wanted'][o]:g}" for o in OBJECTIVES if preference_set["wanted"]
        )
        or None,
        "bounds": ", ".join(f"{o} {v:g}" for o, v in preference_set["bounds"].items()) or None,
        "parent": preference_set["parent"],
        "in force": "now"
        if preference_set["is_in_force"]
        else _activation_count(preference_set["activations"]),
        "created": f"{preference_set['created_at']} by {preference_set['created_by']}",
    }
    print_result(render(preference_set, args.output, facts(lines)))
    return Exit.OK


def derive(client: BerthClient, args: Namespace) -> int:
    """Derive weights from picks and show warnings, without storing them."""
    response = client.post(f"{SETS}derive/", request_body(args)).body
    rows = [
        (
            o,
            f"{response['weights'][o]:.4f}",
            _number_text(response["spread"].get(o)),
            _note(response, o),
        )
        for o in OBJECTIVES
    ]
    lines = [response["sentence"], "", columns(("OBJECTIVE", "WEIGHT", "SPREAD", ""), rows)]
    if response["sensitivity"]:
        largest = max(response["sensitivity"], key=lambda removal: float(removal["change"]))
        effect = f"removing point {largest['point']} changes a weight by {largest['change']:.2f}"
        lines += ["", f"{response['picks']} placements picked; {effect}, the largest effect"]
    lines += [f"! {warning}" for warning in response["warnings"]]
    print_result(render(response, args.output, "\n".join(lines)))
    return Exit.OK


def check(client: BerthClient, args: Namespace) -> int:
    """Solve with the derived weights and show the result."""
    response = client.post(f"{SETS}check/", request_body(args)).body
    star = response["star"]
    proven = "proven optimal" if star["optimal"] else f"gap {_gap(star['gap'])}"
    rows = [(o, f"{star['raw'][o]:.6g}", f"{star['normalised'][o]:.4f}") for o in OBJECTIVES]
    lines = [
        response["sentence"],
        "",
        columns(("OBJECTIVE", "RAW", "NORMALISED"), rows),
        "",
        f"F {star['F']:.6f}, {proven} after {duration(star['seconds'])};"
        f" nearest point {response['nearest']}",
    ]
    if response["unreachable"]:
        lines.append(
            f"! No weights return {_joined(response['unreachable'])}: not on the convex hull."
        )
    if response["broken"]:
        chosen = response["bounded"]
        choice = "no placement of the front keeps it" if chosen is None else f"point {chosen} does"
        lines.append(f"! It breaks the bound on {_joined(response['broken'])}; {choice}.")
    print_result(render(response, args.output, "\n".join(lines)))
    return Exit.OK


def new(client: BerthClient, args: Namespace) -> int:
    """Store picks and the derived weights under a name."""
    body = {**request_body(args), "name": args.name, "note": args.note}
    if args.parent:
        body["parent"] = find_set(client, args.parent)["id"]
    try:
        created = client.post(SETS, body).body
    except CliError as error:
        if error.code is Exit.CONFLICT:
            error.next_command = f"berth pref show {args.name}"
        raise
    weights = ", ".join(f"{o} {created['weights'][o]:.4f}" for o in OBJECTIVES)
    print_result(render(created, args.output, f"{created['name']}: {weights}"))
    return Exit.OK


def activate(client: BerthClient, args: Namespace) -> int:
    """Activate the weights of a preference set."""
    preference_set = find_set(client, args.set)
    body = {"message": args.message, "racks": args.rack, "guard": args.guard}
    headers = {"If-Match": f'"g{preference_set["generation"]}"'}
    try:
        created = client.call(
            "POST", f"{SETS}{preference_set['id']}/activate/", body=body, headers=headers
        ).body
    except CliError as error:
        if error.code is Exit.CONFLICT:
            error.next_command = f"berth pref show {preference_set['name']}"
        raise
    print_result(render(created, args.output, _activation_text(created)))
    return Exit.OK


def revert(client: BerthClient, args: Namespace) -> int:
    """Revert to the weights in force before; a revert can itself be reverted."""
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
        print_message(f"berth: reverting activation {number}, {current['name']}")
    body = {"message": args.message}
    try:
        created = client.post(f"{ACTIVATIONS}{number}/revert/", body).body
    except CliError as error:
        if error.code in {Exit.CONFLICT, Exit.NOT_FOUND}:
            error.next_command = "berth pref list"
        raise
    print_result(render(created, args.output, _activation_text(created)))
    return Exit.OK


def find_set(client: BerthClient, key: str) -> dict[str, Any]:
    """Return a preference set by name or id.

    Raises
    ------
    CliError : it does not exist.
    """
    response: list[dict[str, Any]] = client.get(SETS, name=key)["results"]
    if response:
        return response[0]
    try:
        preference_set: dict[str, Any] = client.get(f"{SETS}{quote(key, safe='')}/")
    except CliError as error:
        if error.code is not Exit.NOT_FOUND:
            raise
        raise CliError(
            f"preference set {key} not found",
            code=Exit.NOT_FOUND,
            next_command="berth pref list",
        ) from None
    return preference_set


def _activation_text(created: Mapping[str, Any]) -> str:
    where = f" on {', '.join(created['racks'])}" if created["racks"] else ""
    guard = created["guard"]
    until = ""
    if guard:
        until = f", reverted if {percent(guard['drop'])} fewer targets are met"
        until += f" for {duration(guard['seconds'])}"
    weights = ", ".join(f"{o} {created['weights'][o]:.4f}" for o in OBJECTIVES)
    return f"{created['name']} is in force{where}{until} (activation {created['id']}): {weights}"


def _weights(weights: Mapping[str, float]) -> list[str]:
    return [f"{weights[o]:.2f}" for o in OBJECTIVES]


def _number_text(value: float | None) -> str | None:
    return None if value is None else f"{value:.4f}"


def _gap(gap: float | None) -> str:
    return "unknown" if gap is None else f"{100 * gap:.2g} %"


def _note(response: Mapping[str, Any], objective: str) -> str:
    if objective in response["idle"]:
        return "constant over the front"
    return "raised to 0.01" if objective in response["floored"] else ""


def _activation_count(count: int) -> str:
    return {0: "never", 1: "once"}.get(count, f"{count} times")


def _joined(points: Sequence[int]) -> str | None:
    return ", ".join(map(str, points)) or None
