"""The verbs of `berth array`."""

from argparse import Namespace
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from controlplane.cli.client import BerthClient
from controlplane.cli.errors import Exit
from controlplane.cli.output import columns, facts, print_result, render
from controlplane.cli.verbs import Verbs, argument_type, positive_int

ARRAYS: Final = "/api/v1/arrays/"
HEADINGS: Final = ("ID", "NAME", "PROJECT", "INDEXES", "SIZE", "LIMIT", "CREATED")


def declare(verbs: Verbs) -> None:
    """Declare the verbs and their arguments."""
    add = verbs.noun("array", "Job arrays").add
    add("show", show).add_argument("array", help="id")
    listing = add("list", list_arrays)
    listing.add_argument("--project")
    listing.add_argument("--limit", type=positive_int, default=50, help="max number of rows (50)")
    change = add("limit", change_limit)
    change.add_argument("array", help="id")
    change.add_argument(
        "members", type=argument_type(_limit), help="members at once, or none for all"
    )


def _limit(text: str) -> int | None:
    return None if text == "none" else positive_int(text)


def show(client: BerthClient, args: Namespace) -> int:
    """Show an array and the number of its members by state."""
    array = client.get(f"{ARRAYS}{quote(args.array)}/")
    print_result(render(array, args.output, array_table(array)))
    return Exit.OK


def array_table(array: Mapping[str, Any]) -> str:
    """Return the facts of an array as text."""
    states = ", ".join(f"{count:,} {state}" for state, count in sorted(array["states"].items()))
    return facts(
        {
            "id": array["id"],
            "name": array["name"],
            "project": array["project"],
            "indexes": array["indexes"],
            "members": f"{array['size']:,}",
            "at once": array["limit"] or "all",
            "states": states or None,
            "wait for others": array["waiting_for_limit"],
            "created": array["created_at"],
        }
    )


def list_arrays(client: BerthClient, args: Namespace) -> int:
    """List arrays, newest first."""
    params = {"project": args.project} if args.project else {}
    rows = list(client.pages(ARRAYS, params, args.limit))
    names = ("id", "name", "project", "indexes", "size", "limit", "created_at")
    table = columns(HEADINGS, [[row[name] for name in names] for row in rows])
    print_result(render(rows, args.output, table))
    return Exit.OK


def change_limit(client: BerthClient, args: Namespace) -> int:
    """Change how many members of an array may wait for units or run at once."""
    path = f"{ARRAYS}{quote(args.array)}/"
    array = client.call("PATCH", path, body={"limit": args.members}).body
    print_result(render(array, args.output, array_table(array)))
    return Exit.OK


def cancel_array(client: BerthClient, args: Namespace) -> int:
    """Cancel all members of an array that have not ended."""
    found = client.post(f"{ARRAYS}{quote(args.array)}/cancel/").body
    text = f"{found['cancelled']:,} of {found['matched']:,} open members are cancelled or stopping"
    print_result(render(found, args.output, text))
    return Exit.OK


def submit_array(client: BerthClient, args: Namespace, job: Mapping[str, Any]) -> int:
    """Submit a job with an array, and print the id of the array."""
    headers = {"Idempotency-Key": args.key} if args.key else {}
    array = client.call("POST", ARRAYS, body=dict(job), headers=headers).body
    print_result(render(array, args.output, array["id"]))
    return Exit.OK
