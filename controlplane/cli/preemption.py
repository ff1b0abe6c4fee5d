"""The verbs of `berth preemption`: preemptions that Berth has proposed."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any, Final

from controlplane.cli.client import BerthClient
from controlplane.cli.errors import CliError, Exit
from controlplane.cli.output import columns, facts, print_result, render
from controlplane.cli.verbs import Verbs, positive_int

PROPOSALS: Final = "/api/v1/preemptions/"
STATES: Final = ("proposed", "applied", "withdrawn", "dismissed")
HEADINGS: Final = ("ID", "STATE", "JOB", "PROJECT", "PRIO", "VICTIMS", "LOST UNIT-S", "MISSED")
VICTIMS: Final = ("VICTIM", "UNITS", "LOST UNIT-S", "TARGET", "WHY")


def declare(verbs: Verbs) -> None:
    """Declare the verbs and their arguments."""
    noun = verbs.noun("preemption", "preemptions that Berth has proposed for waiting jobs")
    parser = noun.add("list", list_proposals)
    parser.add_argument("--state", choices=STATES, help="default: all")
    parser.add_argument("--limit", type=positive_int, default=20, help="max number of rows (20)")
    noun.add("show", show).add_argument("id", type=positive_int, help="of the proposal")
    parser = noun.add("apply", apply)
    parser.add_argument("id", type=positive_int, help="of the proposal")
    parser.add_argument(
        "--override-limits", action="store_true", help="apply it even if it exceeds limits"
    )
    noun.add("dismiss", dismiss).add_argument("id", type=positive_int, help="of the proposal")


def list_proposals(client: BerthClient, args: Namespace) -> int:
    """List the proposals for the jobs that you may see, newest first."""
    wanted = {"state": args.state} if args.state else {}
    rows = list(client.pages(PROPOSALS, wanted, args.limit))
    table = columns(HEADINGS, [_line(row) for row in rows])
    print_result(render(rows, args.output, table))
    return Exit.OK


def _line(row: Mapping[str, Any]) -> Sequence[Any]:
    names = ("id", "state", "job_name", "project", "priority", "victims")
    return [*(row[name] for name in names), f"{row['lost_unit_seconds']:,}",
            row["broken_promises"]]  # fmt: skip


def show(client: BerthClient, args: Namespace) -> int:
    """Show the victims of a proposal, and whether it can be applied now."""
    found = client.get(f"{PROPOSALS}{args.id}/")
    rows = [
        [
            victim["name"] or "(not visible)",
            victim["units"],
            f"{victim['lost_unit_seconds']:,}",
            "missed" if victim["breaks_promise"] else "kept",
            victim["reason"],
        ]
        for victim in found["named"]
    ]
    text = "\n\n".join([facts(_about(found)), columns(VICTIMS, rows), *_check(found)])
    print_result(render(found, args.output, text))
    return Exit.OK


def _about(found: Mapping[str, Any]) -> dict[str, Any]:
    shown = {
        "job": found["job_name"],
        "project": found["project"],
        "priority": found["priority"],
        "state": found["state"],
        "loss": _losses(found),
        "message": found["message"],
        "decided by": found["decided_by"],
        "overridden": " ".join(each["message"] for each in found["overridden_limits"]),
    }
    return {name: value for name, value in shown.items() if value != ""}


def _losses(found: Mapping[str, Any]) -> str:
    """Return the loss at the time of the proposal, and the present one if it can be applied."""
    check = found["check"]
    text = f"{found['lost_unit_seconds']:,} unit-seconds when it was proposed"
    if check is None or not check["can_apply"]:
        return text
    return f"{text}, {check['lost_unit_seconds']:,} now"


def _check(found: Mapping[str, Any]) -> list[str]:
    check = found["check"]
    if check is None:
        return []
    if not check["can_apply"]:
        return [f"cannot be applied: {check['difference']['message']}"]
    limits = [f"exceeds {each['setting']}: {each['message']}" for each in check["exceeded_limits"]]
    override = " --override-limits" if limits else ""
    return ["\n".join([*limits, f"to apply it: berth preemption apply {found['id']}{override}"])]


def apply(client: BerthClient, args: Namespace) -> int:
    """Stop exactly the victims that a proposal names; refused if one is no longer valid."""
    body = {"override_limits": args.override_limits}
    try:
        done = client.post(f"{PROPOSALS}{args.id}/apply/", body).body
    except CliError as error:
        if error.code == Exit.CONFLICT:
            error.next_command = "berth preemption list --state proposed"
        raise
    jobs = "1 job is" if done["victims"] == 1 else f"{done['victims']} jobs are"
    text = f"{jobs} being stopped for {done['job_name']}."
    print_result(render(done, args.output, text))
    return Exit.OK


def dismiss(client: BerthClient, args: Namespace) -> int:
    """Dismiss a proposal: Berth makes none for its job during the cool-down."""
    done = client.post(f"{PROPOSALS}{args.id}/dismiss/").body
    text = f"The proposal for {done['job_name']} is dismissed."
    print_result(render(done, args.output, text))
    return Exit.OK
