"""berth replay: run a trace on an emulated cluster and compare policies; needs no server."""

import json
import os
import time
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controlplane.cli.errors import CliError, Exit
from controlplane.cli.interactive import ProgressLine
from controlplane.cli.named_weights import named_weights
from controlplane.cli.output import columns, print_result, render
from controlplane.cli.verbs import Verbs

if TYPE_CHECKING:
    from apps.testbed.core.replay.grid import Grid
    from apps.testbed.core.replay.model import ReplayCluster, ReplayProgress
    from apps.testbed.core.trace_workload import TraceWorkload

SHOWN = (
    "policy", "seed", "jobs_finished", "jobs_failed", "jobs_unfinished", "performance_mean",
    "performance_p5", "utilisation_mean", "wait_p50_s", "wait_p99_s", "energy_kwh",
    "wall_seconds",
)  # fmt: skip


def declare(verbs: Verbs) -> None:
    """Declare the verb and its arguments."""
    parser = verbs.add_offline("replay", replay, __doc__)
    parser.add_argument("trace", metavar="TRACE", help="trace file, in any known format")
    parser.add_argument(
        "--servers",
        required=True,
        metavar="N|CLUSTER.json",
        help="servers of the demo platforms, or a file with platforms and servers",
    )
    parser.add_argument(
        "--policy",
        default="default",
        metavar="A[,B...]",
        help="policies to compare with the first one; default is that of this installation",
    )
    parser.add_argument(
        "--world", help="distributions of the applications' true behaviour, such as paper"
    )
    parser.add_argument(
        "--admission",
        help="order of waiting jobs and admission control: shapes or none, as in production "
        "(default); count, tarcil_lsh or arq; or fifo",
    )
    parser.add_argument(
        "--max-wait-s", type=float, metavar="S", help="longest wait at admission, 600 s"
    )
    parser.add_argument(
        "--patience-s",
        type=float,
        metavar="S",
        help="longest wait for better units while others are free, 300 s",
    )
    parser.add_argument(
        "--profiles",
        help="inferred, as in production (default); true: a bound; none: no profiling",
    )
    parser.add_argument(
        "--failures", type=float, metavar="N", help="mean number of server failures a day"
    )
    parser.add_argument(
        "--repair-s", type=float, default=3600.0, metavar="S", help="time of a repair, 3600 s"
    )
    parser.add_argument(
        "--weights",
        action="append",
        default=[],
        metavar="NAME|FILE",
        help="also migrate by weights, with every policy: a preference set of the server, a JSON "
        "file with P, D and C, or 0.22,1,0.36; repeatable",
    )
    parser.add_argument(
        "--rebalance-s", type=float, metavar="S", help="time between two plans, 600 s"
    )
    parser.add_argument("--seeds", default="1", metavar="1-5", help="seeds, such as 1-5 or 1,3")
    parser.add_argument(
        "--strict", action="store_true", help="a malformed line of the trace is an error"
    )
    parser.add_argument("--html", metavar="FILE", help="also write the report as an HTML page")


def replay(args: Namespace) -> int:
    """Run a trace on an emulated cluster and compare policies; needs no server."""
    # imported here, as numba and numpy are slow to import
    from apps.testbed.core.replay.errors import ReplayError  # noqa: PLC0415
    from apps.testbed.core.replay.grid import page_of, report_of, run_grid, workload_of  # noqa: PLC0415
    from apps.testbed.core.traces import TraceError, UnreadableTraceError  # noqa: PLC0415
    from apps.testbed.files import read_trace  # noqa: PLC0415

    try:
        grid, cluster = _grid(args), _cluster(args.servers)
        if args.html:
            _write(Path(args.html), "")  # before hours of runs, not after
        trace = read_trace(Path(args.trace), strict=args.strict)
        rows = list(
            run_grid(cluster, workload_of(trace), grid, clock=time.perf_counter, show=_progress())
        )
    except (ReplayError, UnreadableTraceError) as error:
        raise CliError(str(error), code=Exit.USAGE) from error
    except TraceError as error:
        raise CliError(str(error), code=Exit.FAILED) from error
    report = report_of(trace, cluster, grid, rows)
    if args.html:
        _write(Path(args.html), page_of(report))
    print_result(render(report, args.output, _text(trace, report)))
    return Exit.OK


def _grid(args: Namespace) -> "Grid":
    from apps.scheduling.core import registry  # noqa: PLC0415
    from apps.scheduling.infrastructure.plugins import PolicyPluginError, load_policies  # noqa: PLC0415
    from apps.testbed.core.replay.grid import Grid  # noqa: PLC0415
    from apps.testbed.core.replay.model import Failures, ReplayOptions  # noqa: PLC0415
    from apps.testbed.core.replay.run import policy_of, seeds_of  # noqa: PLC0415

    try:
        load_policies()
    except PolicyPluginError as error:
        raise CliError(str(error), code=Exit.FAILED) from error
    labels = [label.strip() for label in args.policy.split(",")]
    default = os.environ.get("BERTH_POLICY", registry.DEFAULT)
    names = [default if label == "default" else label for label in labels]
    chosen = {
        name: getattr(args, name)
        for name in ("world", "admission", "profiles")
        if getattr(args, name) is not None
    }
    failures = None if args.failures is None else Failures(args.failures, args.repair_s)
    base = replace(ReplayOptions.of(**chosen), failures=failures)
    if args.rebalance_s is not None:
        base = replace(base, rebalance_s=args.rebalance_s)
    for name in ("max_wait_s", "patience_s"):
        if getattr(args, name) is not None:
            base = replace(base, **{name: getattr(args, name)})
    grid = Grid(
        policies=tuple(zip(labels, names, strict=True)),
        seeds=tuple(seeds_of(args.seeds)),
        base=base,
        weights=tuple(named_weights(text) for text in args.weights),
    )
    for _, options in grid.columns:  # before hours of runs, not after
        policy_of(options)
    return grid


def _cluster(text: str) -> "ReplayCluster":
    from apps.testbed.core.replay.clusters import (  # noqa: PLC0415
        cluster_from_document,
        synthetic_cluster,
    )

    if text.removeprefix("-").isdecimal():
        return synthetic_cluster(_count(text))
    path = Path(text)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CliError(f"{text} cannot be read: {error.strerror}", code=Exit.USAGE) from error
    except RecursionError as error:
        raise CliError(f"{text} is nested too deeply", code=Exit.USAGE) from error
    except ValueError as error:
        raise CliError(f"{text} is not JSON: {error}", code=Exit.USAGE) from error
    return cluster_from_document(document, name=path.stem)


def _count(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:  # more digits than Python reads
        detail = f"a number of servers has fewer than {len(text):,} digits"
        raise CliError(detail, code=Exit.USAGE) from error


def _progress() -> Any:
    line, began = ProgressLine(), time.perf_counter()

    def show(label: str, seed: int, progress: "ReplayProgress") -> None:
        done = f"{progress.jobs_ended} of {progress.jobs} jobs"
        line.show(time.perf_counter() - began, f"{label}, seed {seed}: {done}")
        if progress.jobs_ended == progress.jobs:
            line.clear()

    return show


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CliError(f"{path} cannot be written: {error.strerror}", code=Exit.USAGE) from error


def _text(trace: "TraceWorkload", report: dict[str, Any]) -> str:
    head = f"{len(trace)} jobs of {trace.name} ({trace.format.value})"
    skipped = f", {trace.skipped} malformed lines skipped" if trace.skipped else ""
    shown = (*SHOWN, "migrations") if "weights" in report["options"] else SHOWN
    runs = columns(shown, [[run[name] for name in shown] for run in report["runs"]])
    notes = "".join(f"{note}\n" for note in trace.notes)
    return f"{head}{skipped}\n{notes}\n{runs}\n\n{report['comparison']['verdict']}"
