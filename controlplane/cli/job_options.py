"""The options that describe a job, and the job that they make together with a file."""

import shlex
from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from typing import Any, Final

from controlplane.cli.errors import CliError, Exit
from controlplane.cli.jobfile import array_text, guarantee, read_file, seconds, size
from controlplane.cli.verbs import argument_type, finite_number, positive_int

SCOPES: Final = ("server", "rack", "switch")
KINDS: Final = ("analytics", "latency_critical", "single_node", "batch")


def add_job_options(parser: ArgumentParser) -> None:
    """Declare the options that describe a job."""
    _add_work(parser)
    _add_command(parser)
    add_target(parser)
    parser.add_argument(
        "--max-cost",
        type=finite_number,
        metavar="N",
        help="highest predicted cost, in unit-seconds",
    )
    _add_place(parser)
    _add_decision(parser)


def _add_work(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("-f", "--file", help="JSON or YAML file with the job; - is stdin")
    add("--app", help="application")
    add("--kind", choices=KINDS, help="of a new application; that of the target if omitted")
    add("--name", help="name of the job")
    add("--project", help="project to submit to; yours if you have only one")
    add("--label", action="append", metavar="NAME=VALUE", help="label of the job; repeatable")
    add("--input", type=argument_type(size), help="size of the input, e.g. 64Gi")
    add("--tasks", type=int, help="number of tasks that the work is divided into")
    add("--units", type=int, help="fixed number of resource units")
    add("--priority", type=int, help="-100 to 100; higher is more urgent (0)")
    add(
        "--duration",
        type=argument_type(seconds),
        metavar="TIME",
        help="cluster time that a service runs; until it is cancelled if omitted",
    )
    add(
        "--gang",
        action=BooleanOptionalAction,
        help="start only with all units, or with some and get the rest as they are freed;"
        " by default, only jobs with --qps or --ips wait for all",
    )
    add("--hold", action="store_true", help="do not place the job before it is released")


def _add_command(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--env", action="append", metavar="NAME=VALUE", help="variable of the command")
    add("--chdir", metavar="DIR", help="working directory of the command, on the server")
    add(
        "--files",
        metavar="PATH",
        help="directory or tar file that is unpacked into the new working directory",
    )
    add(
        "--progress",
        type=argument_type(shlex.split),
        metavar="COMMAND",
        help="prints the progress; run repeatedly next to the command",
    )
    add(
        "--progress-every",
        type=argument_type(seconds),
        metavar="TIME",
        help="between two runs of --progress (30s)",
    )
    add("--user", metavar="NAME", help="account of the server that runs the command")
    add("--copyable", action="store_true", help="copies may run, to profile the command once")
    add("command", nargs="*", metavar="-- COMMAND", help="program and arguments; no shell")


def add_target(parser: ArgumentParser) -> None:
    """Declare the options that describe a target."""
    add = parser.add_argument
    add("--within", type=argument_type(seconds), help="target: completion time, e.g. 10min")
    add("--qps", type=finite_number, help="target: queries per second, with --p99")
    add("--p99", type=argument_type(seconds), help="target: 99th percentile of latency, e.g. 10ms")
    add("--ips", type=finite_number, help="target: instructions per second")
    add("--best-effort", action="store_true", help="no target")


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _add_place(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--platforms",
        type=_names,
        metavar="NAMES",
        help="platforms on which the job may run, comma-separated; all if omitted",
    )
    add(
        "--server-label",
        action="append",
        metavar="NAME=VALUE",
        help="label that the servers must have; repeatable",
    )
    add("--locality", choices=SCOPES, help="all units on one server, in one rack, on one switch")
    add("--spread", choices=SCOPES, help="every unit on another server, rack or switch")
    add(
        "--exclude",
        type=_names,
        metavar="NAMES",
        help="servers on which the job must not run, comma-separated",
    )
    for name in ("memory", "storage"):
        add(
            f"--unit-{name}",
            type=argument_type(size),
            metavar="SIZE",
            help=f"{name} for each unit, e.g. 2Gi; an equal share if omitted",
        )
    add(
        "--unit-network",
        type=argument_type(size),
        metavar="BPS",
        help="network for each unit, in bits/s, e.g. 100M; an equal share if omitted",
    )


def _add_decision(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--policy", help="placement policy; that of the installation if omitted")
    add("--sample-size", type=positive_int, metavar="R", help="candidates per unit")
    add(
        "--guarantee",
        type=argument_type(guarantee),
        metavar="X,P",
        help="R follows: at most the chance P that the best candidate has a rank below X",
    )


def read_job(args: Namespace) -> dict[str, Any]:
    """Return the job to submit: the file's, with the options applied.

    Raises
    ------
    CliError : both are empty, or the file or an option is invalid.
    """
    job: dict[str, Any] = {} if args.file is None else read_file(args.file)
    options = _from_options(args)
    for part in ("metadata", "spec"):
        if not isinstance(job.get(part, {}), dict):
            raise CliError(f"{part} of {args.file} must be an object", code=Exit.USAGE)
    if "constraints" in options:
        known = job.get("spec", job).get("constraints") or {}
        options["constraints"] = {**known, **options["constraints"]}
    if "spec" in job:
        metadata = {k: v for k, v in options.items() if k in {"name", "project", "labels"}}
        spec = {k: v for k, v in options.items() if k not in metadata}
        job["metadata"] = {**job.get("metadata", {}), **metadata}
        job["spec"] = {**job["spec"], **spec}
    else:
        job = {**job, **options}
    if not job:
        raise CliError(
            "nothing to submit",
            code=Exit.USAGE,
            next_command="berth submit --app NAME --within 10min",
        )
    return job


def add_array_option(parser: ArgumentParser) -> None:
    """Declare the option that makes a job array of a job."""
    parser.add_argument(
        "--array",
        type=argument_type(array_text),
        metavar="INDEXES[%LIMIT]",
        help="a job array: 0-99%%10 has 100 members, at most 10 at once",
    )


def read_job_or_array(args: Namespace) -> dict[str, Any]:
    """Return the job to submit, with the array of the file or of its option, if any.

    Raises
    ------
    CliError : both are empty, or the file or an option is invalid.
    """
    job = read_job(args)
    return {**job, "array": args.array} if args.array else job


def _from_options(args: Namespace) -> dict[str, Any]:
    job: dict[str, Any] = {}
    values = {
        "application": args.app,
        "name": args.name,
        "project": args.project,
        "application_kind": args.kind,
        "tasks": args.tasks,
        "units": args.units,
        "priority": args.priority,
        "input_bytes": args.input,
        "duration_seconds": args.duration,
        "gang": args.gang,
        "held": args.hold or None,
        "unit_memory_bytes": args.unit_memory,
        "unit_network_bps": args.unit_network,
        "unit_storage_bytes": args.unit_storage,
        "policy": args.policy,
        "sample_size": args.sample_size,
        "guarantee": args.guarantee,
        "command": args.command or None,
        "working_directory": args.chdir,
        "user": args.user,
        "copyable": args.copyable or None,
        "progress_command": args.progress,
        "progress_every_seconds": args.progress_every,
    }
    job |= {name: value for name, value in values.items() if value is not None}
    if args.files is not None:
        from controlplane.cli.archive import read_files  # noqa: PLC0415 - rarely needed

        job["files"] = read_files(args.files)
    if constraints := _constraints(args):
        job["constraints"] = constraints
    if args.label:
        job["labels"] = dict(_pair("labels", text) for text in args.label)
    if args.env:
        job["environment"] = dict(_pair("--env", text) for text in args.env)
    target = target_of(args)
    if target is not None:
        job["target"] = target
    return job


def _constraints(args: Namespace) -> dict[str, Any]:
    labels = dict(_pair("--server-label", text) for text in args.server_label or ())
    where = {
        "platforms": args.platforms,
        "labels": labels or None,
        "locality": args.locality,
        "spread": args.spread,
        "max_cost": args.max_cost,
        "excluded": args.exclude,
    }
    return {name: value for name, value in where.items() if value is not None}


def _pair(what: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise CliError(f"{what} must be name=value, not {text!r}", code=Exit.USAGE)
    return name, value


def target_of(args: Namespace) -> dict[str, Any] | None:
    """Return the target that the options describe; None without one.

    Raises
    ------
    CliError : there are several, or one is incomplete.
    """
    kinds_given = [
        args.within is not None,
        args.p99 is not None or args.qps is not None,
        args.ips is not None,
        args.best_effort,
    ]
    if sum(kinds_given) > 1:
        raise CliError("give only one kind of target", code=Exit.USAGE)
    if args.within is not None:
        return {"kind": "completion_time", "seconds": args.within}
    if args.p99 is not None or args.qps is not None:
        if args.p99 is None or args.qps is None:
            raise CliError("--qps and --p99 must be given together", code=Exit.USAGE)
        return {
            "kind": "throughput_latency",
            "qps": args.qps,
            "latency_seconds": args.p99,
            "percentile": 99,
        }
    if args.ips is not None:
        return {"kind": "ips", "ips": args.ips}
    return {"kind": "best_effort"} if args.best_effort else None
