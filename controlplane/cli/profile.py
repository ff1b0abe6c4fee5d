"""berth profile: measure how sensitive a real program is to interference, without a server.

The command either ends soon, and is run again and again, or writes its progress (0 to 1) into the
file that BERTH_PROGRESS names. Stressors then press one resource of this machine after the other,
by turns with pauses. Use a machine, or at least two cores, without production jobs: SCHED_FIFO
keeps other programs off both cores.

berth profile [--app NAME] import FILE imports a signed report into the cluster, for operators.
Write -- before a program that is named import.
"""

import json
import os
from argparse import REMAINDER, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controlplane.cli.errors import CliError, Exit
from controlplane.cli.output import columns, facts, print_message, print_result, render
from controlplane.cli.verbs import Verbs, number_within

if TYPE_CHECKING:
    from apps.execution.backends.profiler.session import Profile, Settings


def _window(text: str) -> float:
    return number_within(text, 0.1, 60.0, unit=" of seconds")


def declare(verbs: Verbs) -> None:
    """Declare the verb and its arguments."""
    parser = verbs.add_offline("profile", profile, __doc__)
    add = parser.add_argument
    add("--sources", metavar="LIST", help="stressors, such as core,memory_bandwidth")
    add("--cpu", type=int, help="core of the program (the last one)")
    add("--window", type=_window, default=0.4, help="seconds of one window (0.4)")
    add("--patience", type=float, default=20.0, help="max seconds of one run (20)")
    add("--no-fifo", action="store_true", help="do not use SCHED_FIFO, even where it is allowed")
    add(
        "--sandbox",
        action="store_true",
        help="run each copy on a copy of all files, which is deleted when the run ends",
    )
    add("--report", type=Path, metavar="FILE", help="write the report as JSON")
    add("--key", type=Path, metavar="FILE", help="sign the report with this key (HMAC-SHA256)")
    add("--verify", type=Path, metavar="FILE", help="check a report, with --key its signature")
    add("--app", help="application that an imported report is for; that of the program if omitted")
    add("command", nargs=REMAINDER, metavar="-- COMMAND | import FILE")


def profile(args: Namespace) -> int:
    """Measure how sensitive a real program is to interference; needs no server."""
    # imported here, as numpy is slow to import
    from apps.profiling.core.report import seal  # noqa: PLC0415

    if args.command[:1] == ["import"]:
        return _import(args)
    key = _key(args.key)
    if args.verify is not None:
        return _verify(args.verify, key)
    settings = _settings(args)
    report = seal(_measure(settings).report(settings), key)
    if args.report is not None:
        args.report.write_text(json.dumps(report, indent=2, allow_nan=False) + "\n")
    print_result(render(report, args.output, _text(report)))
    return Exit.OK


def _import(args: Namespace) -> int:
    """Import a signed report into the cluster: `berth profile import FILE`."""
    from controlplane.cli.client import client_of  # noqa: PLC0415 - profiling needs no HTTP

    if len(args.command) != 2:
        raise CliError("name one file: berth profile import FILE", code=Exit.USAGE)
    path = Path(args.command[1])
    try:
        report = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise CliError(f"{path}: {error}", code=Exit.USAGE) from error
    with client_of(os.environ, None) as client:
        body = {"report": report, "application": args.app}
        found = client.post("/api/v1/profile-reports/", body).body
    text = f"{found['application']}: {found['cells']} measurements, signed by {found['key']}."
    print_result(render(found, args.output, text))
    return Exit.OK


def _command(args: Namespace) -> list[str]:
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise CliError("name the command: berth profile -- COMMAND", code=Exit.USAGE)
    return list(command)


def _settings(args: Namespace) -> "Settings":
    from apps.execution.backends.profiler.session import Settings  # noqa: PLC0415

    usable = os.sched_getaffinity(0)
    cpu = max(usable) if args.cpu is None else args.cpu
    if cpu not in usable:
        raise CliError(f"--cpu: this process may use {sorted(usable)}", code=Exit.USAGE)
    return Settings(
        command=_command(args),
        stressors=_sources(args.sources),
        cpu=cpu,
        directory=str(Path.cwd()),
        window_s=args.window,
        patience_s=args.patience,
        is_realtime=not args.no_fifo,
        has_sandbox=args.sandbox,
    )


def _measure(settings: "Settings") -> "Profile":
    from apps.execution.backends.profiler.machine import UnfitMachineError  # noqa: PLC0415
    from apps.execution.backends.profiler.program import NoProgressError  # noqa: PLC0415
    from apps.execution.backends.profiler.session import profile  # noqa: PLC0415
    from apps.profiling.core.ramp import ProbeFailedError  # noqa: PLC0415

    try:
        return profile(settings, lambda text: print_message(f"berth: {text}"))
    except (UnfitMachineError, NoProgressError, ProbeFailedError) as error:
        raise CliError("the command was not profiled", detail=str(error)) from error


def _sources(text: str | None) -> list[str]:
    from apps.profiling.core.stressors import STRESSORS  # noqa: PLC0415

    if text is None:
        return [name for name, stressor in STRESSORS.items() if stressor.is_default]
    names = text.split(",")
    unknown = [name for name in names if name not in STRESSORS]
    if unknown:
        raise CliError(
            f"no stressor is named {', '.join(unknown)}",
            detail=f"there are {', '.join(STRESSORS)}",
            code=Exit.USAGE,
        )
    return names


def _key(path: Path | None) -> bytes | None:
    from apps.profiling.core.report import MIN_KEY_BYTES  # noqa: PLC0415

    if path is None:
        return None
    try:
        key = path.read_bytes().strip()
    except OSError as error:
        raise CliError(f"--key: {error}", code=Exit.USAGE) from error
    if len(key) < MIN_KEY_BYTES:
        raise CliError(
            f"--key: {path} has {len(key)} bytes, a key has at least {MIN_KEY_BYTES}",
            code=Exit.USAGE,
        )
    return key


def _verify(path: Path, key: bytes | None) -> int:
    from apps.profiling.core.report import UntrustedReportError, verify  # noqa: PLC0415

    try:
        verify(json.loads(path.read_text()), key)
    except (OSError, ValueError) as error:
        raise CliError(f"--verify: {error}", code=Exit.USAGE) from error
    except UntrustedReportError as error:
        raise CliError(f"{path} cannot be trusted", detail=str(error)) from error
    print_message("berth: digest and signature match" if key else "berth: the digest matches")
    return Exit.OK


def _text(report: dict[str, Any]) -> str:
    headings = ("STRESSOR", "CORE", "STATE", "SCORE", "SPEED AT 100", "WALL", "PAIRS", "REASON")
    rows = [_row(source) for source in report["sources"]]
    lines = {
        "command": " ".join(report["command"]),
        "measured by": report["measured_by"],
        "scheduling": ": ".join(
            text for text in (report["scheduling"], report["scheduling_note"]) if text
        ),
        "sandbox": ": ".join(
            text for text in (report["sandbox"] or "none", report["sandbox_note"]) if text
        ),
        "not pressed": ", ".join(f"{name} ({why})" for name, why in report["not_pressed"].items()),
        "digest": report["digest"],
    }
    return f"{columns(headings, rows)}\n\n{facts(lines)}"


def _row(source: dict[str, Any]) -> tuple[Any, ...]:
    full = next((point for point in source["points"] if point["intensity"] == 100), None)
    score = None
    if source["score"] is not None:
        score = f"{source['score']:.0f} ({source['low']:.0f} to {source['high']:.0f})"
    elif source["low"] is not None:
        score = "over 100"
    valid = sum(point["pairs"] for point in source["points"])
    return (
        source["stressor"],
        source["side"],
        source["state"],
        score,
        None if full is None else "{:.3f} ({:.3f} to {:.3f})".format(*full["speed"]),
        None if full is None else f"{full['wall_speed'][0]:.3f}",
        f"{valid} of {valid + sum(source['rejected_pairs'].values())}",
        source["reason"],
    )
