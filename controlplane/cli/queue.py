"""The verb `berth queue`."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.cli.client import BerthClient
from controlplane.cli.errors import Exit
from controlplane.cli.output import columns, duration, percent, print_message, print_result, render
from controlplane.cli.verbs import Verbs, positive_int

HEADINGS = ("NAME", "PROJECT", "UNITS", "REASON", "TIER", "WAITED", "P50", "P90", "AHEAD", "PRIO")


def declare(verbs: Verbs) -> None:
    """Declare the verb and its arguments."""
    parser = verbs.add("queue", queue)
    parser.add_argument("--project")
    parser.add_argument("--reason", help="e.g. NoFreeUnit")
    parser.add_argument("--scores", action="store_true", help="accuracy of earlier estimates")
    parser.add_argument("--admission", action="store_true", help="state of the admission control")
    parser.add_argument("--shares", action="store_true", help="decayed shares of the projects")
    parser.add_argument("--reservations", action="store_true", help="units kept for waiting jobs")
    parser.add_argument("--limit", type=positive_int, default=50, help="max number of rows (50)")


def queue(client: BerthClient, args: Namespace) -> int:
    """List waiting jobs with reasons and predicted starts in cluster time, soonest first."""
    wanted = {"project": args.project, "reason": args.reason}
    response = client.get(
        "/api/v1/queues/", **{name: value for name, value in wanted.items() if value is not None}
    )
    if args.scores:
        rows = response["scores"]
        print_result(render(rows, args.output, _scores(rows)))
        return Exit.OK
    if args.shares:
        rows = response["shares"]
        print_result(render(rows, args.output, _shares(rows)))
        return Exit.OK
    if args.reservations:
        rows = response["reservations"]
        print_result(render(rows, args.output, _reservations(rows, response["cluster_seconds"])))
        return Exit.OK
    if args.admission:
        state = response["admission"]
        print_result(render(state, args.output, _admission(state)))
        return Exit.OK
    rows = response["jobs"][: args.limit]
    table = _jobs(rows, response["shares"])
    print_result(render(rows, args.output, table))
    if len(rows) < len(response["jobs"]) or response["is_cut"]:
        print_message(_cut(len(rows), len(response["jobs"]), is_cut=response["is_cut"]))
    return Exit.OK


def _cut(shown: int, listed: int, *, is_cut: bool) -> str:
    """Return the sentence about jobs that are not shown."""
    least = "at least " if is_cut else ""
    return f"{shown} of {least}{listed} waiting jobs are shown: those that start soonest."


def _jobs(rows: Sequence[Mapping[str, Any]], shares: Sequence[Mapping[str, Any]] | None) -> str:
    """Return the table of jobs; with fair share, it has the decayed shares of their projects."""
    if shares is None:
        return columns(HEADINGS, [_row(job) for job in rows])
    known = {row["project"]: percent(row["share"]) for row in shares}
    shown = [[*_row(job), known.get(job["project"])] for job in rows]
    return columns((*HEADINGS, "SHARE"), shown)


def _shares(rows: Sequence[Mapping[str, Any]] | None) -> str:
    if rows is None:
        return "Jobs of equal priority start by age (BERTH_FAIR_SHARE_HALF_LIFE_S is 0)."
    shown = [
        [
            row["position"],
            row["project"],
            percent(row["share"]),
            row["resource"],
            *(percent(share) for share in row["shares"].values()),
        ]
        for row in rows
    ]
    headings = ("POSITION", "PROJECT", "SHARE", "OF", "UNITS", "MEMORY", "NETWORK", "STORAGE")
    return columns(headings, shown)


def _reservations(rows: Sequence[Mapping[str, Any]], now_s: float) -> str:
    shown = [
        [
            row["name"],
            row["project"],
            row["priority"],
            row["units"],
            row["free_units"],
            row["servers"],
            duration(max(0.0, now_s - row["made_seconds"])),
            duration(max(0.0, row["start_seconds"] - now_s)),
            duration(max(0.0, row["start_seconds"] - row["promised_seconds"])),
        ]
        for row in rows
    ]
    headings = (
        "NAME",
        "PROJECT",
        "PRIO",
        "UNITS",
        "FREE",
        "SERVERS",
        "MADE",
        "ALL FREE IN",
        "LATE BY",
    )
    return columns(headings, shown)


def _row(job: Mapping[str, Any]) -> list[Any]:
    return [
        job["name"],
        job["project"],
        job["units"],
        job["reason"],
        job["tier"],
        duration(job["waited_seconds"]),
        duration(job["p50_seconds"]),
        duration(job["p90_seconds"]),
        job["ahead"],
        job["priority"],
    ]


def _admission(state: Mapping[str, Any] | None) -> str:
    if state is None:
        return "Jobs pass no admission control (BERTH_ADMISSION is none)."
    shown = [
        [
            queue["name"],
            queue["servers"],
            queue["free_units"],
            None if freed is None else f"{freed * 60.0:.2f}",
            duration(queue["mean_seconds"]),
            duration(queue["bound_seconds"]),
            queue["waiting"],
            queue["load_factor"],
        ]
        for queue in state["queues"]
        for freed in [queue["freed_per_second"]]
        if queue["servers"] or queue["waiting"]
    ]
    has_classes = state["control"] == "arq"
    of, mean = ("JOBS OF", "MEAN BUSY") if has_classes else ("UNITS OF", "UNTIL FREE")
    headings = (of, "SERVERS", "FREE", "FREED /MIN", mean, "BOUND", "WAITING", "LOAD")
    return columns(headings, shown)


def _scores(rows: list[Mapping[str, Any]]) -> str:
    shown = [
        [
            row["kind"],
            row["count"],
            row["unknown"],
            percent(row["covered"]),
            percent(row["by_p90"]),
            duration(row["bias_seconds"]),
            duration(row["waited_seconds"]),
        ]
        for row in rows
    ]
    return columns(("CLASS", "STARTS", "UNKNOWN", "IN 90 %", "BY P90", "LATE", "WAITED"), shown)
