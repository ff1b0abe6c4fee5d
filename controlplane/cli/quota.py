"""The verbs of `berth quota`."""

from argparse import Namespace
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from controlplane.cli.client import BerthClient
from controlplane.cli.errors import CliError, Exit
from controlplane.cli.output import columns, print_result, render
from controlplane.cli.verbs import Verbs, whole_number

HEADINGS = ("PROJECT", "GUARANTEED", "MAX", "USED", "BORROWED", "LENT", "WAITING")


def declare(verbs: Verbs) -> None:
    """Declare the verbs and their arguments."""
    add = verbs.noun("quota", "Quotas of projects, in units").add
    add("list", list_quotas)
    parser = add("set", set_quota)
    parser.add_argument("project")
    parser.add_argument("--units", type=_units, help="guaranteed units")
    parser.add_argument("--max", type=_units, help="units in all, borrowed ones included")
    add("clear", clear).add_argument("project")


def list_quotas(client: BerthClient, args: Namespace) -> int:
    """List guaranteed, used, borrowed and lent units of the projects that you may see."""
    rows = client.get("/api/v1/queues/")["quotas"]
    if rows is None:
        print_result(render(rows, args.output, "No project has a quota."))
        return Exit.OK
    names = ("project", "guaranteed_units", "max_units", "used", "borrowed", "lent", "waiting")
    table = columns(HEADINGS, [[row[name] for name in names] for row in rows])
    print_result(render(rows, args.output, table))
    return Exit.OK


def set_quota(client: BerthClient, args: Namespace) -> int:
    """Set the guaranteed units of a project, its maximum, or both."""
    given = {"guaranteed_units": args.units, "max_units": args.max}
    body = {name: value for name, value in given.items() if value is not None}
    if not body:
        raise CliError("nothing to change: see --help", code=Exit.USAGE)
    return _change(client, args, body)


def clear(client: BerthClient, args: Namespace) -> int:
    """Remove the quota of a project."""
    return _change(client, args, {"guaranteed_units": None, "max_units": None})


def _change(client: BerthClient, args: Namespace, body: Mapping[str, Any]) -> int:
    row = client.call("PATCH", f"/api/v1/projects/{quote(args.project)}/", body=dict(body)).body
    units, limit = row["guaranteed_units"], row["max_units"]
    text = f"{row['name']}: {units or 0} units guaranteed"
    text += ", no maximum" if limit is None else f", at most {limit}"
    if units is None and limit is None:
        text = f"{row['name']} has no quota"
    print_result(render(row, args.output, text))
    return Exit.OK


def _units(text: str) -> int:
    return whole_number(text, low=0)
