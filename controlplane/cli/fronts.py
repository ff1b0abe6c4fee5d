"""The verbs of `berth fronts`: fronts that the server searches and keeps, to pick from."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

from controlplane.cli.client import Client
from controlplane.cli.errors import CliError, Exit
from controlplane.cli.following import Followed, follow
from controlplane.cli.output import columns, duration, facts, render, say, tell
from controlplane.cli.placement_files import read_json_file
from controlplane.cli.searching import time_limit

FRONTS: Final = "/api/v1/fronts/"
OPEN: Final = ("pending", "running")
LISTED: Final = 20  # points of a table

AddVerb = Callable[[str, Callable[[Client, Namespace], int]], ArgumentParser]


def add_verbs(verb: AddVerb) -> None:
    """Declare what the verbs take."""
    asked = verb("run", run)
    asked.add_argument(
        "instance", nargs="?", help="JSON of the problem, - is stdin; left out: the cluster"
    )
    asked.add_argument("--at", type=float, help="the cluster at this moment, in cluster seconds")
    asked.add_argument("--budget", type=time_limit, default=10.0, help="such as 10s (10s)")
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--wait", action="store_true", help="show progress until it has ended")
    asked.add_argument("--timeout", type=time_limit, help="of --wait (wall time)")
    asked.add_argument("--key", help="Idempotency-Key: repeats with it begin nothing new")
    every = verb("list", list_fronts)
    every.add_argument("--state", action="append", help="repeatable")
    every.add_argument("--limit", type=int, default=50, help="at most so many (50)")
    which = "id, or a name such as f-0031"
    verb("show", show).add_argument("front", help=which)
    seen = verb("points", points)
    seen.add_argument("front", help=which)
    seen.add_argument("--version", type=int, help="the latest when left out")
    seen.add_argument(
        "--most", type=int, help=f"at most so many, spread over the front ({LISTED} in a table)"
    )
    verb("stop", stop).add_argument("fronts", nargs="+", metavar="FRONT", help=which)


def run(client: Client, args: Namespace) -> int:
    """Search a front in the background: of what runs on the cluster, or of a file."""
    body: dict[str, Any] = {"budget_seconds": args.budget, "seed": args.seed}
    if args.instance is None:
        body |= {"source": "cluster", "cluster_seconds": args.at}
    else:
        body |= {"source": "instance", "instance": read_json_file(args.instance)}
        if args.at is not None:
            raise CliError("--at is of the cluster, not of a file", code=Exit.USAGE)
    headers = {"Idempotency-Key": args.key} if args.key else {}
    operation = client.call("POST", FRONTS, body=body, headers=headers).body
    front = find_front(client, operation["arguments"]["front"])
    if args.wait:
        front = _followed(client, front, args.timeout)
    say(render(front, args.output, _outcome(front) if args.wait else str(front["name"])))
    return Exit.FAILED if args.wait and front["state"] == "failed" else Exit.OK


def list_fronts(client: Client, args: Namespace) -> int:
    """List fronts, newest first."""
    wanted = {"state__in": ",".join(args.state)} if args.state else {}
    rows = list(client.pages(FRONTS, wanted, args.limit))
    headings = ("NAME", "STATE", "OF", "CONTAINERS", "NODES", "VERSIONS", "POINTS", "BY", "ASKED")
    shown = [
        (
            *(front["name"], front["state"], front["source"], front["containers"] or None),
            *(front["nodes"] or None, len(front["versions"]), _latest(front).get("points")),
            *(front["created_by"], front["created_at"]),
        )
        for front in rows
    ]
    say(render(rows, args.output, columns(headings, shown)))
    return Exit.OK


def show(client: Client, args: Namespace) -> int:
    """Show a front: how far its search is, its versions, and what stands beside it."""
    front = find_front(client, args.front)
    say(render(front, args.output, _shown(front)))
    return Exit.OK


def points(client: Client, args: Namespace) -> int:
    """Show points of a front that are spread over the whole; fewer are always among more."""
    front = find_front(client, args.front)
    most = args.most if args.most or args.output != "table" else LISTED
    given = {"version": args.version, "most": most}
    params = {name: str(value) for name, value in given.items() if value is not None}
    found = client.get(f"{FRONTS}{front['id']}/points/", **params)
    say(render(found, args.output, _points_table(found)))
    return Exit.OK


def stop(client: Client, args: Namespace) -> int:
    """End searches before their time; what they have found stays."""
    fronts = []
    for key in args.fronts:
        front = find_front(client, key)
        try:
            client.post(f"{FRONTS}{front['id']}/stop/")
        except CliError as error:
            if error.code is Exit.CONFLICT:
                error.next_command = f"berth fronts show {front['name']}"
            raise
        fronts.append(find_front(client, key))
    lines = [
        f"{front['name']}  {'is being stopped' if front['state'] in OPEN else front['state']}"
        for front in fronts
    ]
    say(render(fronts, args.output, "\n".join(lines)))
    return Exit.OK


def find_front(client: Client, key: str) -> dict[str, Any]:
    """Return a front by id or name.

    Raises
    ------
    CliError : there is none.
    """
    try:
        found: dict[str, Any] = client.get(f"{FRONTS}{quote(key, safe='')}/")
    except CliError as error:
        if error.code is Exit.NOT_FOUND:
            error.next_command = "berth fronts list"
        raise
    return found


def _followed(client: Client, front: Mapping[str, Any], timeout_s: float | None) -> dict[str, Any]:
    """Follow a search until it ends; interrupted, it goes on without us."""
    name = str(front["name"])
    followed = Followed(
        address=f"{FRONTS}{front['id']}/",
        topic="fronts",
        subject=str(front["id"]),
        state=lambda front: str(front["state"]),
        line=_progress,
        is_over=lambda front: front["state"] not in OPEN,
        noun="search",
        next_command=f"berth fronts show {name}",
    )
    try:
        return follow(client, followed, timeout_s=timeout_s, write=tell)
    except KeyboardInterrupt:
        tell(f"\nberth: the search goes on\n  try: berth fronts show {name}")
        raise


def _progress(front: Mapping[str, Any]) -> str:
    latest = _latest(front)
    if not latest or front["state"] not in OPEN:
        return ""
    return f"{front['progress']} %  {latest['points']} points  {latest['hypervolume']:.6f}"


def _latest(front: Mapping[str, Any]) -> dict[str, Any]:
    versions: list[dict[str, Any]] = front["versions"]
    return versions[-1] if versions else {}


def _outcome(front: Mapping[str, Any]) -> str:
    if front["problem"]:
        return f"{front['name']}: {front['problem'].get('detail', front['state'])}"
    latest = _latest(front)
    if not latest:
        return f"{front['name']}: {front['state']}"
    proven = "the whole front" if latest["is_exact"] else "not proven to be all"
    return (
        f"{front['name']}: {front['state']}; {latest['points']} points, {proven},"
        f" hypervolume {latest['hypervolume']:.6f} after {duration(latest['seconds'])}"
    )


def _shown(front: Mapping[str, Any]) -> str:
    drift = front["drift"]
    lines = [
        facts(
            {
                "name": front["name"],
                "id": front["id"],
                "state": front["state"],
                "of": f"{front['source']}: {front['containers']} containers, "
                f"{front['nodes']} nodes",
                "asked": f"{front['created_at']} by {front['created_by']}",
                "budget": duration(front["budget_seconds"]),
                "seed": front["seed"],
                "progress": f"{front['progress']} of {front['total']}",
                "found": _outcome(front),
                "drift": drift["sentence"] if drift else None,
            }
        )
    ]
    if front["versions"]:
        headings = ("VERSION", "POINTS", "GENERATIONS", "SECONDS", "HYPERVOLUME", "PROVEN")
        each = [
            (
                *(one["number"], one["points"], one["generations"], f"{one['seconds']:.2f}"),
                *(f"{one['hypervolume']:.6f}", "yes" if one["is_exact"] else None),
            )
            for one in front["versions"]
        ]
        lines += ["", columns(headings, each)]
    if front["anchors"]:
        beside = [
            (one["name"], *(f"{one['raw'][o]:.6g} ({one['normalised'][o]:.3f})" for o in "PDC"))
            for one in front["anchors"]
        ]
        lines += ["", columns(("BESIDE", "P (W)", "D", "C"), beside)]
    return "\n".join(lines)


def _points_table(found: Mapping[str, Any]) -> str:
    headings = ("POINT", "P (W)", "D", "C", "NODES ON", "PROTECTED", "EXPOSED", "SPLIT", "WORST")
    rows = [
        (
            index,
            *(f"{found['raw'][o][i]:.6g} ({found['normalised'][o][i]:.3f})" for o in "PDC"),
            *(found[name][i] for name in ("nodes_on", "jobs_protected", "jobs_exposed")),
            *(found["jobs_split"][i], found["worst_job"][i]),
        )
        for i, index in enumerate(found["index"])
    ]
    total = f"{found['shown']} of {found['points']} points of version {found['version']}"
    return "\n".join([columns(headings, rows), "", total])
