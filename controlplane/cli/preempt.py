"""The verb `berth preempt`."""

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from controlplane.cli.client import BerthClient
from controlplane.cli.errors import CliError, Exit
from controlplane.cli.jobs import JOBS, find_job
from controlplane.cli.output import columns, print_result, render
from controlplane.cli.verbs import Verbs

HEADINGS = ("VICTIM", "PROJECT", "PRIO", "UNITS", "LOST UNIT-S", "PROMISE", "WHY")


def declare(verbs: Verbs) -> None:
    """Declare the verb and its arguments."""
    parser = verbs.add("preempt", preempt)
    parser.add_argument("job", help="id or name of a waiting job")
    parser.add_argument("--yes", action="store_true", help="stop the victims of this preview")


def preempt(client: BerthClient, args: Namespace) -> int:
    """Show which running jobs would make room for a waiting job; with --yes, stop them."""
    job_id = find_job(client, args.job)["metadata"]["id"]
    address = f"{JOBS}{job_id}/preemption/"
    found = client.get(address)
    if found["outcome"] == "impossible":
        raise CliError(
            "no preemption", code=Exit.CONFLICT, detail=found["message"],
            next_command=f"berth why {job_id}",
        )  # fmt: skip
    if args.yes and found["outcome"] == "possible":
        seen = [
            {name: each[name] for name in ("id", "breaks_promise")} for each in found["victims"]
        ]
        agreed = {"basis": found["basis"], "victims": seen}
        found = client.post(f"{address}apply/", agreed).body
    print_result(render(found, args.output, _table(found, job_id, is_applied=args.yes)))
    return Exit.OK


def _table(found: Mapping[str, Any], job_id: str, *, is_applied: bool) -> str:
    if not found["victims"]:
        return str(found["message"])
    rows = [
        [
            victim["name"],
            victim["project"],
            victim["priority"],
            victim["units"],
            f"{victim['lost_unit_seconds']:,}",
            "broken" if victim["breaks_promise"] else "kept",
            f"{victim['promise']}; {victim['short_units']} units short without it",
        ]
        for victim in found["victims"]
    ]
    proof = "no other victims cost less" if found["is_best"] else "others might cost less"
    chosen = f"chosen among {found['candidates']} running jobs: {proof}"
    todo = (
        "they are being stopped" if is_applied else f"to stop them: berth preempt {job_id} --yes"
    )
    limits = [f"overrides {each['setting']}: {each['message']}\n"
              for each in found["overridden_limits"]]  # fmt: skip
    return f"{columns(HEADINGS, rows)}\n\n{chosen}\n{''.join(limits)}{todo}"
