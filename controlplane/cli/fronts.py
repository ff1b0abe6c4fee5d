"""The verbs of `berth fronts`: fronts searched and stored by the server."""

from argparse import Namespace
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from controlplane.cli.client import BerthClient
from controlplane.cli.errors import CliError, Exit
from controlplane.cli.interactive import time_limit
from controlplane.cli.long_poll import FollowSpec, follow
from controlplane.cli.output import columns, duration, facts, print_message, print_result, render
from controlplane.cli.placement_files import read_json_file
from controlplane.cli.verbs import Verbs, positive_int

FRONTS: Final = "/api/v1/fronts/"
OPEN: Final = ("pending", "running")
TABLE_POINTS: Final = 20  # points of a table


def declare(verbs: Verbs) -> None:
    """Declare the verbs and their arguments."""
    fronts = verbs.noun("fronts", "Pareto fronts of placements, searched by the server")
    run_parser = fronts.add("run", run)
    run_parser.add_argument(
        "instance", nargs="?", help="JSON file with the problem, - is stdin; default: the cluster"
    )
    run_parser.add_argument(
        "--at", type=float, help="state of the cluster at this time, in cluster seconds"
    )
    run_parser.add_argument(
        "--window",
        type=time_limit,
        help="average over this recorded period (cluster time, such as 1h) until --at or now",
    )
    run_parser.add_argument(
        "--budget", type=time_limit, default=10.0, help="time limit, such as 10s (10s)"
    )
    run_parser.add_argument("--seed", type=int, default=0)
    run_parser.add_argument("--wait", action="store_true", help="show progress until it ends")
    run_parser.add_argument("--timeout", type=time_limit, help="time limit of --wait (wall time)")
    run_parser.add_argument(
        "--key", help="Idempotency-Key: repeated requests with the same key start nothing new"
    )
    list_parser = fronts.add("list", list_fronts)
    list_parser.add_argument("--state", action="append", help="repeatable")
    list_parser.add_argument(
        "--limit", type=positive_int, default=50, help="max number of rows (50)"
    )
    which = "id, or a name such as f-0031"
    fronts.add("show", show).add_argument("front", help=which)
    points_parser = fronts.add("points", points)
    points_parser.add_argument("front", help=which)
    points_parser.add_argument("--version", type=int, help="default: the latest")
    points_parser.add_argument(
        "--limit",
        type=int,
        help=f"max number of points, spread over the front ({TABLE_POINTS} in a table)",
    )
    points_parser.add_argument(
        "--objectives", metavar="NAME,...", help="also show these, such as M or money"
    )
    fronts.add("stop", stop).add_argument("fronts", nargs="+", metavar="FRONT", help=which)


def run(client: BerthClient, args: Namespace) -> int:
    """Search a front in the background, for the running cluster or for a file."""
    body: dict[str, Any] = {"budget_seconds": args.budget, "seed": args.seed}
    if args.instance is None:
        body |= {"source": "cluster", "cluster_seconds": args.at}
        body |= {} if args.window is None else {"window_seconds": args.window}
    else:
        body |= {"source": "instance", "instance": read_json_file(args.instance)}
        if args.at is not None or args.window is not None:
            detail = "--at and --window apply to the cluster, not to a file"
            raise CliError(detail, code=Exit.USAGE)
    headers = {"Idempotency-Key": args.key} if args.key else {}
    operation = client.call("POST", FRONTS, body=body, headers=headers).body
    front = find_front(client, operation["arguments"]["front"])
    if args.wait:
        front = _follow_search(client, front, args.timeout)
    print_result(render(front, args.output, _outcome(front) if args.wait else str(front["name"])))
    return Exit.FAILED if args.wait and front["state"] == "failed" else Exit.OK


def list_fronts(client: BerthClient, args: Namespace) -> int:
    """List fronts, newest first."""
    filters = {"state__in": ",".join(args.state)} if args.state else {}
    rows = list(client.pages(FRONTS, filters, args.limit))
    headings = (
        "NAME",
        "STATE",
        "SOURCE",
        "CONTAINERS",
        "NODES",
        "VERSIONS",
        "POINTS",
        "BY",
        "CREATED",
    )
    shown = [
        (
            *(front["name"], front["state"], front["source"], front["containers"] or None),
            *(front["nodes"] or None, len(front["versions"]), _latest(front).get("points")),
            *(front["created_by"], front["created_at"]),
        )
        for front in rows
    ]
    print_result(render(rows, args.output, columns(headings, shown)))
    return Exit.OK


def show(client: BerthClient, args: Namespace) -> int:
    """Show a front with the progress of its search, its versions and reference placements."""
    front = find_front(client, args.front)
    print_result(render(front, args.output, _shown(front)))
    return Exit.OK


def points(client: BerthClient, args: Namespace) -> int:
    """Show points spread over a front; a smaller --limit returns a subset of a larger one."""
    front = find_front(client, args.front)
    max_points = args.limit if args.limit or args.output != "table" else TABLE_POINTS
    options = {"version": args.version, "most": max_points, "objectives": args.objectives}
    params = {name: str(value) for name, value in options.items() if value is not None}
    response = client.get(f"{FRONTS}{front['id']}/points/", **params)
    print_result(render(response, args.output, _points_table(response)))
    return Exit.OK


def stop(client: BerthClient, args: Namespace) -> int:
    """Stop searches early; the points found so far are stored."""
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
        f"{front['name']}  {'stopping' if front['state'] in OPEN else front['state']}"
        for front in fronts
    ]
    print_result(render(fronts, args.output, "\n".join(lines)))
    return Exit.OK


def find_front(client: BerthClient, key: str) -> dict[str, Any]:
    """Return a front by id or name.

    Raises
    ------
    CliError : it does not exist.
    """
    response: dict[str, Any] = client.get(f"{FRONTS}{quote(key, safe='')}/")
    return response


def _follow_search(
    client: BerthClient, front: Mapping[str, Any], timeout_s: float | None
) -> dict[str, Any]:
    """Follow a search until it ends; Ctrl-C does not stop the search."""
    name = str(front["name"])
    spec = FollowSpec(
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
        return follow(client, spec, timeout_s=timeout_s, write=print_message)
    except KeyboardInterrupt:
        print_message(
            f"\nberth: the search continues in the background\n  try: berth fronts show {name}"
        )
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
    proven = "complete" if latest["is_exact"] else "not proven complete"
    return (
        f"{front['name']}: {front['state']}; {latest['points']} points, {proven},"
        f" hypervolume {latest['hypervolume']:.6f} after {duration(latest['seconds'])}"
    )


def _coverage_text(coverage: Mapping[str, Any]) -> str:
    left = coverage["good_for_seconds"]
    text = f"{100 * coverage['still_share']:.0f} % of the containers running now"
    return (
        text
        if left is None
        else f"{text}, expected to stay valid for {duration(left)} of cluster time"
    )


def _shown(front: Mapping[str, Any]) -> str:
    drift, coverage = front["drift"], front["coverage"]
    lines = [
        facts(
            {
                "name": front["name"],
                "id": front["id"],
                "state": front["state"],
                "source": f"{front['source']}: {front['containers']} containers, "
                f"{front['nodes']} nodes",
                "created": f"{front['created_at']} by {front['created_by']}",
                "budget": duration(front["budget_seconds"]),
                "seed": front["seed"],
                "progress": f"{front['progress']} of {front['total']}",
                "result": _outcome(front),
                "moments": len(front["moments"]) or None,
                "drift": drift["sentence"] if drift else None,
                "coverage": _coverage_text(coverage) if coverage else None,
            }
        )
    ]
    if front["versions"]:
        headings = ("VERSION", "POINTS", "GENERATIONS", "SECONDS", "HYPERVOLUME", "PROVEN")
        version_rows = [
            (
                *(
                    version["number"],
                    version["points"],
                    version["generations"],
                    f"{version['seconds']:.2f}",
                ),
                *(f"{version['hypervolume']:.6f}", "yes" if version["is_exact"] else None),
            )
            for version in front["versions"]
        ]
        lines += ["", columns(headings, version_rows)]
    if front["anchors"]:
        anchor_rows = [
            (
                anchor["name"],
                *(f"{anchor['raw'][o]:.6g} ({anchor['normalised'][o]:.3f})" for o in "PDC"),
            )
            for anchor in front["anchors"]
        ]
        lines += ["", columns(("REFERENCE", "P (W)", "D", "C"), anchor_rows)]
    return "\n".join(lines)


def _points_table(response: Mapping[str, Any]) -> str:
    others = response["objectives"]
    values = {
        **{o: (response["raw"][o], response["normalised"][o]) for o in "PDC"},
        **{name: (other["raw"], other["normalised"]) for name, other in others.items()},
    }
    named = (f"{name} ({other['unit']})" for name, other in others.items())
    headings = ("POINT", "P (W)", "D", "C", *named, "NODES ON")
    headings = (*headings, "PROTECTED", "EXPOSED", "SPLIT", "WORST")
    rows = [
        (
            index,
            *(f"{raw[i]:.6g} ({normalised[i]:.3f})" for raw, normalised in values.values()),
            *(response[name][i] for name in ("nodes_on", "jobs_protected", "jobs_exposed")),
            *(response["jobs_split"][i], response["worst_job"][i]),
        )
        for i, index in enumerate(response["index"])
    ]
    total = f"{response['shown']} of {response['points']} points of version {response['version']}"
    return "\n".join([columns(headings, rows), "", total])
