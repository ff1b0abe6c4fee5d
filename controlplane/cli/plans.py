"""The verbs of `berth plan` and `berth loop`: moves on the running cluster, and when."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import quote

from controlplane.cli.client import Client
from controlplane.cli.errors import CliError, Exit
from controlplane.cli.following import Followed, follow
from controlplane.cli.jobfile import seconds
from controlplane.cli.output import columns, duration, facts, render, say, tell
from controlplane.cli.searching import time_limit

PLANS: Final = "/api/v1/plans/"
OPERATIONS: Final = "/api/v1/operations/"
LOOP: Final = "/api/v1/placement-loop/"
WAITING: Final = ("pending", "running")  # operations
UNDER_WAY: Final = ("approved", "running", "paused")
MEASURES: Final = {
    "watts": "power, W",
    "diversity": "diversity",
    "crossing": "crossing traffic, containers",
    "servers_on": "servers in use",
    "targets_met": "targets met",
    "F": "F",
}

AddVerb = Callable[[str, Callable[[Client, Namespace], int]], ArgumentParser]


def add_verbs(verb: AddVerb) -> None:
    """Declare what the verbs of `berth plan` take."""
    which = "id, or a name such as p-0012"
    every = verb("list", list_plans)
    every.add_argument("--state", action="append", help="repeatable")
    every.add_argument("--limit", type=int, default=50, help="at most so many (50)")
    verb("show", show).add_argument("plan", help=which)
    made = verb("make", make)
    made.add_argument("--approve", action="store_true", help="carry it out without asking")
    made.add_argument("--wait", action="store_true", help="with --approve: until it has ended")
    _add_timeout(made)
    left = verb("skip", skip)
    left.add_argument("plan", help=which)
    left.add_argument("moves", nargs="*", type=int, metavar="MOVE", help="as `show` numbers them")
    left.add_argument("--take", nargs="+", type=int, default=[], metavar="MOVE", help="in again")
    for name, run in (
        ("approve", approve), ("pause", pause), ("resume", resume), ("cancel", cancel)
    ):  # fmt: skip
        made = verb(name, run)
        made.add_argument("plan", help=which)
        if name in {"approve", "resume"}:
            made.add_argument("--wait", action="store_true", help="until it has ended")
            _add_timeout(made)
    back = verb("rollback", rollback)
    back.add_argument("plan", help=which)
    back.add_argument("--approve", action="store_true", help="carry it out without asking")
    back.add_argument("--wait", action="store_true", help="with --approve: until it has ended")
    _add_timeout(back)


def _add_timeout(parser: ArgumentParser) -> None:
    parser.add_argument("--timeout", type=time_limit, help="give up after this (wall time)")


def add_loop_verbs(verb: AddVerb) -> None:
    """Declare what the verbs of `berth loop` take."""
    verb("show", show_loop)
    made = verb("set", set_loop)
    add = made.add_argument
    add("--mode", choices=["off", "advise", "automatic"])
    add("--every", type=_period, metavar="TIME", help="between two looks, e.g. 1min")
    add("--solve", type=_period, metavar="TIME", help="a search may take (wall time)")
    add("--moves-per-plan", type=int)
    add("--moves-per-minute", type=int, help="begun, over the whole cluster")
    add("--moves-per-job", type=int, help="plans that move one job within an hour")
    add("--youngest", type=_period, metavar="TIME", help="jobs younger are left alone")
    add("--least-gain", type=float, help="of F, for a plan to be proposed")
    add("--migration", type=float, help="what moving everything once would cost, in F")


def _period(text: str) -> float:
    try:
        return seconds(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r}: {error}") from error


# ---- looking ----


def list_plans(client: Client, args: Namespace) -> int:
    """List plans, newest first."""
    wanted = {"state__in": ",".join(args.state)} if args.state else {}
    rows = list(client.pages(PLANS, wanted, args.limit))
    headings = ("NAME", "STATE", "MOVES", "WATTS", "THEN", "BECAUSE", "MADE", "OUTCOME")
    shown = [
        (
            *(plan["name"], plan["state"], _moves(plan)),
            *(f"{plan['predicted'][side]['watts']:.0f}" for side in ("before", "after")),
            *(plan["cause"], plan["created_at"], plan["verdict"] or plan["message"] or None),
        )
        for plan in rows
    ]
    say(render(rows, args.output, columns(headings, shown)))
    return Exit.OK


def show(client: Client, args: Namespace) -> int:
    """Show a plan: what it would change, its moves in order, and what came of it."""
    plan = find_plan(client, args.plan)
    steps = list(client.pages(f"{PLANS}{plan['id']}/steps/", {}, 10_000))
    say(render({**plan, "steps": steps}, args.output, _shown(plan, steps)))
    return Exit.OK


def find_plan(client: Client, key: str) -> dict[str, Any]:
    """Return a plan by id or name.

    Raises
    ------
    CliError : there is none.
    """
    try:
        found: dict[str, Any] = client.get(f"{PLANS}{quote(key, safe='')}/")
    except CliError as error:
        if error.code is Exit.NOT_FOUND:
            error.next_command = "berth plan list"
        raise
    return found


# ---- making ----


def make(client: Client, args: Namespace) -> int:
    """Make a plan by the weights in force; prints its name."""
    operation = client.post(PLANS, {}).body
    return _made(client, operation, args, approve=args.approve)


def rollback(client: Client, args: Namespace) -> int:
    """Take back what a plan moved, the last first, where the place is still free."""
    plan = find_plan(client, args.plan)
    body = {"approve": args.approve}
    with _of_plan(plan):
        operation = client.post(f"{PLANS}{plan['id']}/rollback/", body).body
    return _made(client, operation, args, approve=False)


def _made(client: Client, operation: Mapping[str, Any], args: Namespace, *, approve: bool) -> int:
    """Wait until the plan is there, approve it and follow it, as far as that is asked for."""
    ended = _operation(client, str(operation["id"]), args.timeout)
    if ended["status"] != "succeeded":
        problem = ended["problem"] or {}
        raise CliError(
            str(problem.get("title", f"the operation was {ended['status']}")),
            detail=str(problem.get("detail", "")),
            next_command="berth plan make",
        )
    result = ended["result"]
    if result["plan"] is None:
        say(render(ended, args.output, str(result["reason"])))
        return Exit.OK
    plan = find_plan(client, result["plan"])
    if approve:
        plan = _act(client, plan, "approve")
    if args.wait and plan["state"] in UNDER_WAY:
        plan = _followed(client, plan, args.timeout)
    say(render(plan, args.output, f"{plan['name']}  {_outcome(plan)}"))
    return _code(plan)


def _operation(client: Client, operation_id: str, timeout_s: float | None) -> dict[str, Any]:
    followed = Followed(
        address=f"{OPERATIONS}{operation_id}/",
        topic="operations",
        subject=operation_id,
        state=lambda operation: str(operation["status"]),
        line=lambda operation: str(operation["message"]),
        is_over=lambda operation: operation["status"] not in WAITING,
        noun="plan",
        next_command="berth plan list",
    )
    return follow(client, followed, timeout_s=timeout_s, write=tell)


# ---- changing ----


def skip(client: Client, args: Namespace) -> int:
    """Leave moves out of a plan, or take them in again; whole bundles, and predicted anew."""
    if not args.moves and not args.take:
        raise CliError("name the moves to leave out, or --take", code=Exit.USAGE)
    plan = find_plan(client, args.plan)
    body = {"skip": _ordinals(args.moves), "take": _ordinals(args.take)}
    address = f"{PLANS}{plan['id']}/steps/"
    with _of_plan(plan):
        done = client.call("PATCH", address, body=body, headers=_match(plan)).body
    for note in done["notes"]:
        tell(f"berth: {note}")
    say(render(done, args.output, f"{done['plan']['name']}  {_outcome(done['plan'])}"))
    return Exit.OK


def _ordinals(numbers: list[int]) -> list[int]:
    if any(number < 1 for number in numbers):
        raise CliError("moves are numbered from 1", code=Exit.USAGE)
    return [number - 1 for number in numbers]


def approve(client: Client, args: Namespace) -> int:
    """Let a plan be carried out."""
    return _changed(client, args, "approve", wait=args.wait)


def pause(client: Client, args: Namespace) -> int:
    """Let no further move of a plan begin; those under way are finished."""
    return _changed(client, args, "pause", wait=False)


def resume(client: Client, args: Namespace) -> int:
    """Let the moves of a paused plan begin again."""
    return _changed(client, args, "resume", wait=args.wait)


def cancel(client: Client, args: Namespace) -> int:
    """Stop a plan: moves under way are finished, no other begins."""
    return _changed(client, args, "cancel", wait=False)


def _changed(client: Client, args: Namespace, action: str, *, wait: bool) -> int:
    plan = _act(client, find_plan(client, args.plan), action)
    if wait:
        plan = _followed(client, plan, args.timeout)
    say(render(plan, args.output, f"{plan['name']}  {_outcome(plan)}"))
    return _code(plan) if wait else Exit.OK


def _act(client: Client, plan: Mapping[str, Any], action: str) -> dict[str, Any]:
    address = f"{PLANS}{plan['id']}/{action}/"
    with _of_plan(plan):
        done: dict[str, Any] = client.call("POST", address, body={}, headers=_match(plan)).body
    return done


@contextmanager
def _of_plan(plan: Mapping[str, Any]) -> Iterator[None]:
    """Send who is refused to the plan it is about."""
    try:
        yield
    except CliError as error:
        if error.code is Exit.CONFLICT:
            error.next_command = f"berth plan show {plan['name']}"
        raise


def _match(thing: Mapping[str, Any]) -> dict[str, str]:
    return {"If-Match": f'"g{thing["generation"]}"'}


def _followed(client: Client, plan: Mapping[str, Any], timeout_s: float | None) -> dict[str, Any]:
    """Follow a plan until it is over; interrupted, it goes on without us."""
    name = str(plan["name"])
    followed = Followed(
        address=f"{PLANS}{plan['id']}/",
        topic="plans",
        subject=str(plan["id"]),
        state=lambda plan: str(plan["state"]),
        line=lambda plan: "" if _is_over(plan) else f"{plan['state']}: {_moves(plan)} moves",
        is_over=_is_over,
        noun="plan",
        next_command=f"berth plan show {name}",
    )
    try:
        return follow(client, followed, timeout_s=timeout_s, write=tell)
    except KeyboardInterrupt:
        tell(f"\nberth: the plan goes on\n  try: berth plan pause {name}")
        raise


def _is_over(plan: Mapping[str, Any]) -> bool:
    """Whether nothing of it moves any more; one that was cancelled ends when its moves have."""
    has_begun = plan["began_cluster_seconds"] is not None
    if has_begun:
        return plan["ended_cluster_seconds"] is not None
    return plan["state"] not in UNDER_WAY


def _code(plan: Mapping[str, Any]) -> int:
    return Exit.FAILED if plan["state"] in {"failed", "superseded"} else Exit.OK


# ---- words ----


def _moves(plan: Mapping[str, Any]) -> str:
    counts = plan["moves"]
    return f"{counts['done']} of {counts['total'] - counts['left_out']}"


def _outcome(plan: Mapping[str, Any]) -> str:
    if plan["verdict"]:
        return f"{plan['state']}: {plan['verdict']}"
    before, after = plan["predicted"]["before"], plan["predicted"]["after"]
    return (
        f"{plan['state']}: {_counted(plan['moves']['total'] - plan['moves']['left_out'])}, "
        f"{before['watts']:.0f} to {after['watts']:.0f} W, F {before['F']:.4f} to {after['F']:.4f}"
    )


def _counted(moves: int) -> str:
    return "1 move" if moves == 1 else f"{moves:,} moves"


def _shown(plan: Mapping[str, Any], steps: list[dict[str, Any]]) -> str:
    weights = ", ".join(f"{name} {plan['weights'][name]:g}" for name in sorted(plan["weights"]))
    made_by = plan["created_by"] or "the loop"
    lines = [
        facts(
            {
                "name": plan["name"],
                "state": plan["state"],
                "why": plan["message"] or None,
                "verdict": plan["verdict"] or None,
                "because": plan["cause"],
                "weights": weights,
                "made": f"{plan['created_at']} by {made_by}",
                "approved by": plan["approved_by"],
                "moves": _moves(plan),
                "can": ", ".join(plan["actions"]) or None,
            }
        ),
        "",
        _effect(plan),
        "",
    ]
    headings = ("MOVE", "FOR", "JOB", "FROM", "TO", "UNITS", "STILL", "STATE", "BECAUSE")
    lines.append(columns(headings, [_step(step) for step in steps]))
    return "\n".join(lines)


def _effect(plan: Mapping[str, Any]) -> str:
    predicted, realised = plan["predicted"], plan["realised"] or {}
    headings, rows = ["MEASURE", "BEFORE", "AFTER"], []
    has_realised = bool(realised.get("after"))
    if has_realised:
        headings += ["PUT BACK", "AS IT IS"]
    for name, label in MEASURES.items():
        row = [label, *(_measure(name, predicted[side]) for side in ("before", "after"))]
        if has_realised:
            row += [_measure(name, realised[side]) for side in ("before", "after")]
        rows.append(row)
    return columns(headings, rows)


def _measure(name: str, measures: Mapping[str, float]) -> str | None:
    value = measures.get(name)
    if value is None:
        return None
    return f"{value:.4f}" if name == "F" else f"{value:,.0f}"


def _step(step: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        *(step["ordinal"] + 1, f"{step['purpose']} {step['about']}", step["job"]["name"]),
        *(step["from_server"], step["to_server"], step["units"]),
        *(duration(step["predicted_seconds"]), step["state"], step["message"] or None),
    )


# ---- the loop ----


def show_loop(client: Client, args: Namespace) -> int:
    """Show how the loop is set and what it found last."""
    found = client.get(LOOP)
    say(render(found, args.output, facts({k: v if v != "" else None for k, v in found.items()})))
    return Exit.OK


def set_loop(client: Client, args: Namespace) -> int:
    """Set when the cluster is re-placed: off, advise or automatic, and its budgets."""
    given = {
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
    changes = {name: value for name, value in given.items() if value is not None}
    if not changes:
        raise CliError("name what to set, such as --mode advise", code=Exit.USAGE)
    before = client.get(LOOP)
    after = client.call("PATCH", LOOP, body=changes, headers=_match(before)).body
    say(render(after, args.output, facts({name: after[name] for name in changes})))
    return Exit.OK
