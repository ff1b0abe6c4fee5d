"""The verbs of `berth plan`: migration plans of the running cluster."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import quote

from controlplane.cli.client import BerthClient, if_match
from controlplane.cli.errors import CliError, Exit
from controlplane.cli.interactive import time_limit
from controlplane.cli.jobs import find_job
from controlplane.cli.long_poll import FollowSpec, follow
from controlplane.cli.output import columns, duration, facts, print_message, print_result, render
from controlplane.cli.verbs import Verbs, positive_int

PLANS: Final = "/api/v1/plans/"
OPERATIONS: Final = "/api/v1/operations/"
WAITING: Final = ("pending", "running")  # operations
UNDER_WAY: Final = ("approved", "running", "paused")
MEASURES: Final = {
    "watts": "modelled power, W",
    "diversity": "diversity",
    "crossing": "crossing traffic, containers",
    "servers_on": "servers in use",
    "targets_met": "targets met",
    "F": "F",
}


def declare(verbs: Verbs) -> None:
    """Declare the verbs and their arguments."""
    plan = verbs.noun("plan", "Migration plans of the running cluster")
    which = "id, or a name such as p-0012"
    list_parser = plan.add("list", list_plans)
    list_parser.add_argument("--state", action="append", help="repeatable")
    list_parser.add_argument(
        "--limit", type=positive_int, default=50, help="max number of rows (50)"
    )
    plan.add("show", show).add_argument("plan", help=which)
    parser = plan.add("make", make)
    parser.add_argument("--approve", action="store_true", help="approve the plan at once")
    parser.add_argument(
        "--wait", action="store_true", help="with --approve: show progress until it ends"
    )
    _add_timeout(parser)
    _declare_migrate(plan)
    skip_parser = plan.add("skip", skip)
    skip_parser.add_argument("plan", help=which)
    skip_parser.add_argument(
        "moves", nargs="*", type=int, metavar="MOVE", help="numbers as in `berth plan show`"
    )
    skip_parser.add_argument(
        "--take", nargs="+", type=int, default=[], metavar="MOVE", help="restore these"
    )
    for name, run in (
        ("approve", approve), ("pause", pause), ("resume", resume), ("cancel", cancel)
    ):  # fmt: skip
        parser = plan.add(name, run)
        parser.add_argument("plan", help=which)
        if name in {"approve", "resume"}:
            parser.add_argument("--wait", action="store_true", help="show progress until it ends")
            _add_timeout(parser)
    rollback_parser = plan.add("rollback", rollback)
    rollback_parser.add_argument("plan", help=which)
    rollback_parser.add_argument("--approve", action="store_true", help="approve the plan at once")
    rollback_parser.add_argument(
        "--wait", action="store_true", help="with --approve: show progress until it ends"
    )
    _add_timeout(rollback_parser)


def _declare_migrate(plan: Verbs) -> None:
    parser = plan.add("migrate", migrate)
    parser.add_argument("job", help="id of a running job, or its name")
    parser.add_argument("from_server", metavar="FROM", help="server that its units leave")
    parser.add_argument("to_server", metavar="TO", help="server with free units")
    parser.add_argument("--approve", action="store_true", help="approve the plan at once")
    parser.add_argument(
        "--wait", action="store_true", help="with --approve: show progress until it ends"
    )
    _add_timeout(parser)


def _add_timeout(parser: ArgumentParser) -> None:
    parser.add_argument("--timeout", type=time_limit, help="give up after this (wall time)")


def list_plans(client: BerthClient, args: Namespace) -> int:
    """List plans, newest first."""
    filters = {"state__in": ",".join(args.state)} if args.state else {}
    rows = list(client.pages(PLANS, filters, args.limit))
    headings = (
        "NAME",
        "STATE",
        "MIGRATIONS",
        "W BEFORE",
        "W AFTER",
        "CAUSE",
        "CREATED",
        "OUTCOME",
    )
    shown = [
        (
            *(plan["name"], plan["state"], _progress_text(plan)),
            *(f"{plan['predicted'][side]['watts']:.0f}" for side in ("before", "after")),
            *(plan["cause"], plan["created_at"], plan["verdict"] or plan["message"] or None),
        )
        for plan in rows
    ]
    print_result(render(rows, args.output, columns(headings, shown)))
    return Exit.OK


def show(client: BerthClient, args: Namespace) -> int:
    """Show a plan: predicted effect, migrations in order, and outcome."""
    plan = find_plan(client, args.plan)
    steps = list(client.pages(f"{PLANS}{plan['id']}/steps/", {}, 10_000))
    print_result(render({**plan, "steps": steps}, args.output, _shown(plan, steps)))
    return Exit.OK


def find_plan(client: BerthClient, key: str) -> dict[str, Any]:
    """Return a plan by id or name.

    Raises
    ------
    CliError : it does not exist.
    """
    response: dict[str, Any] = client.get(f"{PLANS}{quote(key, safe='')}/")
    return response


# ---- create ----


def make(client: BerthClient, args: Namespace) -> int:
    """Create a plan with the weights in force and print its name."""
    operation = client.post(PLANS, {}).body
    return _finish_planning(client, operation, args, approve=args.approve)


def migrate(client: BerthClient, args: Namespace) -> int:
    """Create a plan that migrates the units of a job from one server to another."""
    job = find_job(client, args.job)
    migration = {
        "job": job["metadata"]["id"],
        "from_server": args.from_server,
        "to_server": args.to_server,
    }
    operation = client.post(PLANS, {"migration": migration, "approve": args.approve}).body
    return _finish_planning(client, operation, args, approve=False)


def rollback(client: BerthClient, args: Namespace) -> int:
    """Create a plan that undoes the migrations of a plan, where the servers still have room."""
    plan = find_plan(client, args.plan)
    body = {"approve": args.approve}
    with _conflicts_show_plan(plan):
        operation = client.post(f"{PLANS}{plan['id']}/rollback/", body).body
    return _finish_planning(client, operation, args, approve=False)


def _finish_planning(
    client: BerthClient, operation: Mapping[str, Any], args: Namespace, *, approve: bool
) -> int:
    """Wait until the plan exists; approve and follow it if requested."""
    ended = _follow_operation(client, str(operation["id"]), args.timeout)
    if ended["status"] != "succeeded":
        problem = ended["problem"] or {}
        raise CliError(
            str(problem.get("title", f"the operation was {ended['status']}")),
            detail=str(problem.get("detail", "")),
            next_command="berth plan make",
        )
    result = ended["result"]
    if result["plan"] is None:
        print_result(render(ended, args.output, str(result["reason"])))
        return Exit.OK
    plan = find_plan(client, result["plan"])
    if approve:
        plan = _act(client, plan, "approve")
    if args.wait and plan["state"] in UNDER_WAY:
        plan = _follow_plan(client, plan, args.timeout)
    print_result(render(plan, args.output, f"{plan['name']}  {_outcome(plan)}"))
    return _exit_code(plan)


def _follow_operation(
    client: BerthClient, operation_id: str, timeout_s: float | None
) -> dict[str, Any]:
    spec = FollowSpec(
        address=f"{OPERATIONS}{operation_id}/",
        topic="operations",
        subject=operation_id,
        state=lambda operation: str(operation["status"]),
        line=lambda operation: str(operation["message"]),
        is_over=lambda operation: operation["status"] not in WAITING,
        noun="plan",
        next_command="berth plan list",
    )
    return follow(client, spec, timeout_s=timeout_s, write=print_message)


# ---- change ----


def skip(client: BerthClient, args: Namespace) -> int:
    """Exclude migrations from a plan, or restore them, and predict its effect again."""
    if not args.moves and not args.take:
        raise CliError("give the migrations to exclude, or --take", code=Exit.USAGE)
    plan = find_plan(client, args.plan)
    body = {"skip": _ordinals(args.moves), "take": _ordinals(args.take)}
    address = f"{PLANS}{plan['id']}/steps/"
    with _conflicts_show_plan(plan):
        response = client.call("PATCH", address, body=body, headers=if_match(plan)).body
    for note in response["notes"]:
        print_message(f"berth: {note}")
    print_result(
        render(response, args.output, f"{response['plan']['name']}  {_outcome(response['plan'])}")
    )
    return Exit.OK


def _ordinals(numbers: list[int]) -> list[int]:
    if any(number < 1 for number in numbers):
        raise CliError("migrations are numbered from 1", code=Exit.USAGE)
    return [number - 1 for number in numbers]


def approve(client: BerthClient, args: Namespace) -> int:
    """Approve a plan, which starts its migrations."""
    return _change(client, args, "approve", wait=args.wait)


def pause(client: BerthClient, args: Namespace) -> int:
    """Pause a plan; running migrations finish, no other starts."""
    return _change(client, args, "pause", wait=False)


def resume(client: BerthClient, args: Namespace) -> int:
    """Resume a paused plan."""
    return _change(client, args, "resume", wait=args.wait)


def cancel(client: BerthClient, args: Namespace) -> int:
    """Cancel a plan; running migrations finish, no other starts."""
    return _change(client, args, "cancel", wait=False)


def _change(client: BerthClient, args: Namespace, action: str, *, wait: bool) -> int:
    plan = _act(client, find_plan(client, args.plan), action)
    if action == "approve" and plan["difference"]:
        print_message(f"berth: since it was proposed: {plan['difference']}")
    if wait:
        plan = _follow_plan(client, plan, args.timeout)
    print_result(render(plan, args.output, f"{plan['name']}  {_outcome(plan)}"))
    return _exit_code(plan) if wait else Exit.OK


def _act(client: BerthClient, plan: Mapping[str, Any], action: str) -> dict[str, Any]:
    address = f"{PLANS}{plan['id']}/{action}/"
    with _conflicts_show_plan(plan):
        response: dict[str, Any] = client.call(
            "POST", address, body={}, headers=if_match(plan)
        ).body
    return response


@contextmanager
def _conflicts_show_plan(plan: Mapping[str, Any]) -> Iterator[None]:
    """Suggest `berth plan show` if the request conflicts with the state of the plan."""
    try:
        yield
    except CliError as error:
        if error.code is Exit.CONFLICT:
            error.next_command = f"berth plan show {plan['name']}"
        raise


def _follow_plan(
    client: BerthClient, plan: Mapping[str, Any], timeout_s: float | None
) -> dict[str, Any]:
    """Follow a plan until it ends; Ctrl-C does not stop the plan."""
    name = str(plan["name"])
    spec = FollowSpec(
        address=f"{PLANS}{plan['id']}/",
        topic="plans",
        subject=str(plan["id"]),
        state=lambda plan: str(plan["state"]),
        line=lambda plan: (
            "" if _is_over(plan) else f"{plan['state']}: {_progress_text(plan)} migrations"
        ),
        is_over=_is_over,
        noun="plan",
        next_command=f"berth plan show {name}",
    )
    try:
        return follow(client, spec, timeout_s=timeout_s, write=print_message)
    except KeyboardInterrupt:
        print_message(
            f"\nberth: the plan continues in the background\n  try: berth plan pause {name}"
        )
        raise


def _is_over(plan: Mapping[str, Any]) -> bool:
    """Whether the plan has ended; a cancelled plan ends with its running migrations."""
    has_begun = plan["began_cluster_seconds"] is not None
    if has_begun:
        return plan["ended_cluster_seconds"] is not None
    return plan["state"] not in UNDER_WAY


def _exit_code(plan: Mapping[str, Any]) -> int:
    return Exit.FAILED if plan["state"] in {"failed", "superseded"} else Exit.OK


# ---- text ----


def _progress_text(plan: Mapping[str, Any]) -> str:
    counts = plan["moves"]
    return f"{counts['done']} of {counts['total'] - counts['left_out']}"


def _outcome(plan: Mapping[str, Any]) -> str:
    if plan["verdict"]:
        return f"{plan['state']}: {plan['verdict']}"
    before, after = plan["predicted"]["before"], plan["predicted"]["after"]
    migrations = _migration_count(plan["moves"]["total"] - plan["moves"]["left_out"])
    return (
        f"{plan['state']}: {migrations}, "
        f"{before['watts']:.0f} to {after['watts']:.0f} W, F {before['F']:.4f} to {after['F']:.4f}"
    )


def _migration_count(moves: int) -> str:
    return "1 migration" if moves == 1 else f"{moves:,} migrations"


def _shown(plan: Mapping[str, Any], steps: list[dict[str, Any]]) -> str:
    weights = ", ".join(f"{name} {plan['weights'][name]:g}" for name in sorted(plan["weights"]))
    made_by = plan["created_by"] or "the loop"
    lines = [
        facts(
            {
                "name": plan["name"],
                "state": plan["state"],
                "message": plan["message"] or None,
                "verdict": plan["verdict"] or None,
                "since proposed": plan["difference"] or None,
                "cause": plan["cause"],
                "weights": weights,
                "created": f"{plan['created_at']} by {made_by}",
                "approved by": plan["approved_by"],
                "migrations": _progress_text(plan),
                "actions": ", ".join(plan["actions"]) or None,
            }
        ),
        "",
        _effect(plan),
        "",
    ]
    headings = (
        *("MOVE", "PURPOSE", "JOB", "FROM", "TO", "UNITS"),
        *("DOWNTIME", "RESTART", "STATE", "MESSAGE"),
    )
    lines.append(columns(headings, [_migration_row(step) for step in steps]))
    return "\n".join(lines)


def _effect(plan: Mapping[str, Any]) -> str:
    predicted, realised = plan["predicted"], plan["realised"] or {}
    headings, rows = ["MEASURE", "BEFORE", "AFTER"], []
    has_realised = bool(realised.get("after"))
    if has_realised:
        headings += ["WITHOUT PLAN", "REALISED"]
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


def _migration_row(step: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        *(step["ordinal"] + 1, f"{step['purpose']} {step['about']}", step["job"]["name"]),
        *(step["from_server"], step["to_server"], step["units"]),
        *(duration(step["predicted_seconds"]), _restart_text(step)),
        *(step["state"], step["message"] or None),
    )


def _restart_text(step: Mapping[str, Any]) -> str | None:
    """Say what a restart loses; None of a live migration."""
    if step["move"] != "restart":
        return None
    return f"loses {duration(step['lost_seconds'])} of work"
