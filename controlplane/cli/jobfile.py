"""Read jobs from files and options."""

import json
import math
import shlex
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any, Final

from controlplane.cli.errors import CliError, Exit

_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}
_BYTES: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12,
                 "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}  # fmt: skip


def seconds(text: str) -> float:
    """Read a duration such as 10ms, 90 or 5min.

    Raises
    ------
    ValueError : the text is invalid.
    """
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = text[len(number) :] or "s"
    if unit not in _UNITS:
        raise ValueError(f"unknown unit of time {unit!r}")
    return float(number) * _UNITS[unit]


def size(text: str) -> int:
    """Read a number of bytes such as 1048576, 64Mi or 2GB.

    Raises
    ------
    ValueError : the text is invalid.
    """
    lower = text.lower().removesuffix("b")
    number = lower.rstrip("kmgti")
    unit = lower[len(number) :]
    if unit not in _BYTES:
        raise ValueError(f"unknown unit of size {unit!r}")
    value = float(number) * _BYTES[unit]
    if not math.isfinite(value):
        raise ValueError("must be finite")
    return int(value)


def guarantee(text: str) -> dict[str, float]:
    """Read a guarantee as X,P: 0.8,0.01 is a 1 % chance to miss the top 20 %.

    Raises
    ------
    ValueError : the text is invalid.
    """
    threshold, comma, probability = text.partition(",")
    if not comma:
        raise ValueError("must be X,P, such as 0.8,0.01")
    return {"rank_threshold": float(threshold), "probability": float(probability)}


def read_job(args: Namespace) -> dict[str, Any]:
    """Return the job to submit: the file's, with the options applied.

    Raises
    ------
    CliError : both are empty, or the file or an option is invalid.
    """
    job: dict[str, Any] = {} if args.file is None else _read_file(args.file)
    options = _from_options(args)
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


def _read_file(name: str) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text()
    except OSError as error:
        raise CliError(f"cannot read {name}: {error.strerror}", code=Exit.USAGE) from error
    try:
        job = json.loads(text)
    except ValueError as error:
        job = _read_yaml(name, text, error)
    if not isinstance(job, dict):
        raise CliError(f"{name} must contain one job as an object", code=Exit.USAGE)
    return job


def _read_yaml(name: str, text: str, json_error: ValueError) -> Any:
    try:
        import yaml  # noqa: PLC0415 - slow to import and rarely needed
    except ImportError:
        raise CliError(f"{name} is not JSON: {json_error}", code=Exit.USAGE) from json_error
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        place = " ".join(str(error).split())
        raise CliError(f"{name} is neither JSON nor YAML: {place}", code=Exit.USAGE) from error


def _from_options(args: Namespace) -> dict[str, Any]:
    job: dict[str, Any] = {}
    values = {
        "application": args.app,
        "name": args.name,
        "project": args.project,
        "tasks": args.tasks,
        "units": args.units,
        "priority": args.priority,
        "input_bytes": args.input,
        "policy": args.policy,
        "sample_size": args.sample_size,
        "guarantee": args.guarantee,
        "command": args.command or None,
        "working_directory": args.chdir,
        "user": args.user,
        "copyable": args.copyable or None,
        "progress_command": args.progress and shlex.split(args.progress),
        "progress_every_seconds": args.progress_every,
    }
    job |= {name: value for name, value in values.items() if value is not None}
    if args.files is not None:
        from controlplane.cli.archive import read_files  # noqa: PLC0415 - rarely needed

        job["files"] = read_files(args.files)
    where = {"max_cost": args.max_cost, "excluded": args.exclude}
    if any(value is not None for value in where.values()):
        job["constraints"] = {name: value for name, value in where.items() if value is not None}
    if args.label:
        job["labels"] = dict(_pair("labels", text) for text in args.label)
    if args.env:
        job["environment"] = dict(_pair("--env", text) for text in args.env)
    target = _target(args)
    if target is not None:
        job["target"] = target
    return job


def _pair(what: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise CliError(f"{what} must be name=value, not {text!r}", code=Exit.USAGE)
    return name, value


def _target(args: Namespace) -> dict[str, Any] | None:
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


def array_text(text: str) -> dict[str, Any]:
    """Read the members of an array as INDEXES[%LIMIT], such as 0-99:2,200%10.

    Raises
    ------
    ValueError : the limit is no positive number, or there are no indexes.
    """
    indexes, percent, limit = text.partition("%")
    if not indexes:
        raise ValueError("must name indexes, such as 0-99%10")
    if not percent:
        return {"indexes": indexes}
    if not limit.isdecimal() or int(limit) < 1:
        raise ValueError("the limit after % must be a whole number of at least 1")
    return {"indexes": indexes, "limit": int(limit)}
