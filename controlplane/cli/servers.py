"""The verb `berth servers`."""

from argparse import Namespace
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from controlplane.cli.client import BerthClient
from controlplane.cli.errors import Exit
from controlplane.cli.output import columns, facts, percent, print_result, render
from controlplane.cli.verbs import Verbs, positive_int

FILTERS: Final = ("state", "platform", "rack", "switch")


def declare(verbs: Verbs) -> None:
    """Declare the verb and its arguments."""
    parser = verbs.add("servers", servers)
    parser.add_argument("server", nargs="?", help="id or name; default: list all")
    parser.add_argument("--state")
    parser.add_argument("--platform")
    parser.add_argument("--rack")
    parser.add_argument("--switch", help="in a rack below this switch")
    parser.add_argument("--limit", type=positive_int, default=100, help="max number of rows (100)")


def servers(client: BerthClient, args: Namespace) -> int:
    """List servers, or show one."""
    if args.server:
        response = client.get(f"/api/v1/servers/{quote(args.server, safe='')}/")
        print_result(render(response, args.output, facts(_server_facts(response))))
        return Exit.OK
    given = vars(args)
    filters = {name: given[name] for name in FILTERS if given[name]}
    rows = list(client.pages("/api/v1/servers/", filters, args.limit))
    shown = [list(_server_facts(row).values()) for row in rows]
    headings = [name.upper() for name in _server_facts(rows[0])] if rows else []
    print_result(render(rows, args.output, columns(headings, shown)))
    return Exit.OK


def _server_facts(server: Mapping[str, Any]) -> dict[str, Any]:
    spec, status = server["spec"], server["status"]
    reading = status["reading"] or {}
    return {
        "name": server["metadata"]["name"],
        "platform": spec["platform"],
        "rack": spec["rack"],
        "switch": spec["switch"] or None,
        "state": status["state"],
        "allocated": f"{status['allocated']['cores']}/{spec['cores']}",
        "cpu": percent(reading.get("cpu_share")),
        "memory": percent(reading.get("memory_share")),
        "watts": reading.get("power_watts"),
    }
