"""The berth command: submit jobs, watch them, ask why."""

import os
import sys
from argparse import (
    ArgumentParser,
    ArgumentTypeError,
    Namespace,
    RawDescriptionHelpFormatter,
)
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from controlplane.cli import (
    applications,
    classify,
    commands,
    evaluate,
    front,
    fronts,
    matrices,
    plans,
    preferences,
    profiling,
    solve,
)
from controlplane.cli.errors import CliError, Exit
from controlplane.cli.jobfile import seconds, size
from controlplane.cli.output import FORMATS

EPILOG = """exit codes:  0 ok, 1 failure, 2 usage, 3 not found, 4 infeasible,
             5 conflict, 6 time-out, 7 not allowed
environment: BERTH_URL, BERTH_TOKEN"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit code."""
    args = _parser().parse_args(argv)
    try:
        if args.alone is not None:
            return int(args.alone(args))
        with commands.client_of(args) as client:
            return int(args.run(client, args))
    except CliError as error:
        sys.stderr.write(error.text() + "\n")
        return int(error.code)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader (a pager, head) has gone; closing stdout again at exit must not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(Exit.OK)


def _typed(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Turn a reader's ValueError into argparse's own usage error."""

    def convert(text: str) -> Any:
        try:
            return read(text)
        except ValueError as error:
            raise ArgumentTypeError(f"{text!r}: {error}") from error

    return convert


def _most(text: str) -> int:
    most = int(text)
    if most < 1:
        raise ArgumentTypeError(f"must be at least 1, not {most}")
    return most


def _parser() -> ArgumentParser:
    printed = ArgumentParser(add_help=False)
    printed.add_argument("-o", "--output", choices=FORMATS, default="table")
    as_json: dict[str, Any] = {"action": "store_const", "const": "json", "dest": "output"}
    printed.add_argument("--json", help="the same as -o json", **as_json)
    served = ArgumentParser(add_help=False, parents=[printed])
    served.add_argument("--url", help="address of the server; BERTH_URL otherwise")
    parser = ArgumentParser(
        prog="berth",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    _add_alone(verbs, printed)

    def verb(name: str, run: commands.Verb, among: Any = verbs) -> ArgumentParser:
        doc = _summary(run)
        made: ArgumentParser = among.add_parser(name, parents=[served], help=doc, description=doc)
        made.set_defaults(run=run, alone=None)
        return made

    _add_job_options(verb("check", commands.check))
    _add_submit_options(verb("submit", commands.submit))
    verb("get", commands.get).add_argument("job", help="id or name")
    _add_list_options(verb("list", commands.list_jobs))
    watch = verb("watch", commands.watch)
    watch.add_argument("job", help="id or name")
    watch.add_argument("--timeout", type=_typed(seconds), help="give up after this (wall time)")
    verb("cancel", commands.cancel).add_argument("jobs", nargs="+", metavar="JOB")
    why = verb("why", commands.why)
    why.add_argument("job", help="id or name")
    why.add_argument("--candidates", action="store_true", help="also the units examined")
    _add_server_options(verb("servers", commands.servers))
    _add_nouns(verbs, verb)
    _add_matrix_verbs(verb)
    verb("login", commands.login).add_argument("--token", help="asked for when left out")
    verb("whoami", commands.whoami)
    verb("version", commands.version)
    _add_api_options(verb("api", commands.api))
    return parser


def _add_nouns(verbs: Any, verb: Callable[..., ArgumentParser]) -> None:
    """Add the verbs that go with a noun."""
    each: list[tuple[str, str, Callable[[fronts.AddVerb], None]]] = [
        ("app", "What is believed of applications, and correcting it", _add_app_verbs),
        ("profiling", "What is measured of applications, and how far it is", _add_profiling_verbs),
        ("fronts", "Fronts of placements that the server searches and keeps", fronts.add_verbs),
        ("pref", "Which trade-offs are accepted, and the weights in force", preferences.add_verbs),
        ("plan", "Moves on the running cluster: made, approved, verified", plans.add_verbs),
        ("loop", "When the cluster is re-placed by itself", plans.add_loop_verbs),
    ]
    for name, about, add in each:
        noun = verbs.add_parser(name, help=about, description=about)
        # without a metavar, as argparse then names the verbs where one is missing
        add(partial(verb, among=noun.add_subparsers(required=True)))


def _add_alone(verbs: Any, printed: ArgumentParser) -> None:
    """Add the verbs that need no server."""
    each: list[tuple[str, Callable[[Namespace], int], Any]] = [
        ("classify", classify.classify, classify),
        ("solve", solve.solve, solve),
        ("evaluate", evaluate.evaluate, evaluate),
        ("front", front.front, front),
    ]
    for name, run, module in each:
        made = verbs.add_parser(name, parents=[printed], help=_summary(run), epilog=module.__doc__)
        module.add_options(made)
        made.set_defaults(alone=run)


def _summary(run: Callable[..., Any]) -> str:
    return (run.__doc__ or "").strip().rstrip(".").replace("%", "%%")


def _add_job_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("-f", "--file", help="JSON or YAML file with the job; - reads standard input")
    add("--app", help="application")
    add("--name", help="of the job")
    add("--project")
    add("--label", action="append", metavar="NAME=VALUE")
    add("--tasks", type=int)
    add("--units", type=int, help="fixed number of resource units")
    add("--priority", type=int)
    add("--input", type=_typed(size), help="bytes to work on, e.g. 64Gi")
    add("--within", type=_typed(seconds), help="target: completion time, e.g. 10min")
    add("--qps", type=float, help="target: queries per second, with --p99")
    add("--p99", type=_typed(seconds), help="target: 99th percentile of latency, e.g. 10ms")
    add("--ips", type=float, help="target: instructions per second")
    add("--best-effort", action="store_true", help="no target")


def _add_submit_options(parser: ArgumentParser) -> None:
    _add_job_options(parser)
    parser.add_argument("--key", help="Idempotency-Key: repeats with it make no second job")
    parser.add_argument("--wait", choices=list(commands.WAIT_FOR), help="until the job is there")
    parser.add_argument("--timeout", type=_typed(seconds), help="of --wait (wall time)")


def _add_list_options(parser: ArgumentParser) -> None:
    parser.add_argument("--state", action="append", help="repeatable")
    parser.add_argument("--app")
    parser.add_argument("--project")
    parser.add_argument("--label", metavar="NAME:VALUE")
    parser.add_argument("-q", "--query", help="part of the name")
    parser.add_argument("--limit", type=_most, default=50, help="at most so many (50)")


def _add_server_options(parser: ArgumentParser) -> None:
    parser.add_argument("server", nargs="?", help="id or name; all when left out")
    parser.add_argument("--state")
    parser.add_argument("--platform")
    parser.add_argument("--rack")
    parser.add_argument("--limit", type=_most, default=100, help="at most so many (100)")


def _add_app_verbs(verb: Callable[[str, commands.Verb], ArgumentParser]) -> None:
    every = verb("list", applications.list_applications)
    every.add_argument("-q", "--query", help="part of the name")
    every.add_argument("--kind", help="analytics, latency_critical, single_node or batch")
    every.add_argument("--limit", type=_most, default=100, help="at most so many (100)")
    verb("show", applications.show).add_argument("application", help="id or name")
    profile = verb("profile", applications.profile)
    profile.add_argument("application", help="id or name")
    profile.add_argument("--matrix", help="of this one only")
    applications.add_override_options(verb("override", applications.override))


def _add_profiling_verbs(verb: Callable[[str, commands.Verb], ArgumentParser]) -> None:
    every = verb("list", profiling.list_runs)
    every.add_argument("--app", help="of the application with this name")
    every.add_argument("--state", action="append", help="repeatable")
    every.add_argument("--limit", type=_most, default=50, help="at most so many (50)")
    which = "id, or an application's name: its newest run"
    verb("show", profiling.show).add_argument("run_of", metavar="RUN", help=which)
    asked = verb("start", profiling.start)
    asked.add_argument("application", help="id or name")
    asked.add_argument("--reason", default="", help="why, in a few words")
    asked.add_argument("--wait", action="store_true", help="show progress until it has ended")
    asked.add_argument("--timeout", type=_typed(seconds), help="of --wait (wall time)")
    asked.add_argument("--key", help="Idempotency-Key: repeats with it begin nothing new")
    watch = verb("watch", profiling.watch)
    watch.add_argument("run_of", metavar="RUN", help=which)
    watch.add_argument("--timeout", type=_typed(seconds), help="give up after this (wall time)")
    verb("cancel", profiling.cancel).add_argument("runs", nargs="+", metavar="RUN", help=which)


def _add_matrix_verbs(verb: Callable[[str, commands.Verb], ArgumentParser]) -> None:
    shown = verb("matrices", matrices.matrices)
    shown.add_argument("matrix", nargs="?", help="its cells; all matrices when left out")
    shown.add_argument("--revision", type=_most, help="that in force when left out")
    shown.add_argument("--row", help="of this application only")
    shown.add_argument("--limit", type=_most, default=50, help="at most so many rows (50)")
    verb("revisions", matrices.revisions).add_argument(
        "--limit", type=_most, default=20, help="at most so many (20)"
    )
    anew = verb("reclassify", matrices.reclassify)
    anew.add_argument("--wait", action="store_true", help="show progress until it has ended")
    anew.add_argument("--timeout", type=_typed(seconds), help="of --wait (wall time)")
    anew.add_argument("--key", help="Idempotency-Key: repeats with it begin nothing new")


def _add_api_options(parser: ArgumentParser) -> None:
    parser.add_argument("path", help="e.g. jobs/ or /api/v1/jobs/")
    parser.add_argument("-X", "--method")
    parser.add_argument("-d", "--data", help="JSON body; - reads standard input")


if __name__ == "__main__":
    sys.exit(main())
