"""Submit, watch and explain jobs, and manage the placement of a Berth cluster."""

import errno
import os
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from controlplane.cli.errors import CliError, Exit
from controlplane.cli.verbs import Verbs

EPILOG = """exit codes:  0 ok, 1 failure, 2 usage or unreadable file, 3 not found,
             4 infeasible or job failed, 5 conflict, 6 time-out, 7 not allowed, 130 interrupted
environment: BERTH_URL, BERTH_TOKEN"""
# Modules of this package and the verbs that their `declare` adds. Only the module of the verb is
# imported: a call takes half as long.
MODULES: Final = {
    "classify": ("classify",),
    "solve": ("solve",),
    "evaluate": ("evaluate",),
    "front": ("front",),
    "replay": ("replay",),
    "reproduce": ("reproduce",),
    "policy": ("policy",),
    "lab": ("lab",),
    "workload": ("workload",),
    "check": ("check",),
    "jobs": ("submit", "get", "list", "watch", "cancel", "why"),
    "arrays": ("array",),
    "suspension": ("job",),
    "queue": ("queue",),
    "preempt": ("preempt",),
    "preemption": ("preemption",),
    "quota": ("quota",),
    "decisions": ("decision",),
    "shadow": ("shadow",),
    "pairs": ("pair",),
    "servers": ("servers",),
    "agent": ("agent",),
    "commands": ("run", "logs"),
    "applications": ("app",),
    "profiling": ("profiling",),
    "profile": ("profile",),
    "fronts": ("fronts",),
    "preferences": ("pref",),
    "plans": ("plan",),
    "loop": ("loop",),
    "matrices": ("matrices", "revisions", "reclassify"),
    "administration": ("users", "projects", "members", "tokens"),
    "audit": ("audit",),
    "session": ("login", "whoami", "version", "api"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a verb and return the exit code."""
    try:
        code = _run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()  # an error of the output is an error of the call
    except CliError as error:
        sys.stderr.write(error.text() + "\n")
        return int(error.code)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader (a pager, head) has exited; avoid a second error when stdout is closed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        sys.stderr.write(f"berth: the output cannot be written: {error.strerror}\n")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.FAILED
    else:
        return code


def _run(argv: Sequence[str]) -> int:
    args = parser_for(argv).parse_args(argv)
    if args.offline is not None:
        return int(args.offline(args))
    from controlplane.cli.client import client_of  # noqa: PLC0415 - offline verbs need no HTTP

    with client_of(os.environ, args.url) as client:
        return int(args.run(client, args))


def parser_for(argv: Sequence[str]) -> ArgumentParser:
    """Return a parser with the verb of a command line, or with all if it names none."""
    parser = ArgumentParser(
        prog="berth",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=RawDescriptionHelpFormatter,
    )
    verbs = Verbs(parser.add_subparsers(required=True, metavar="VERB"))
    named = [module for module, names in MODULES.items() if argv and argv[0] in names]
    for module in named or MODULES:
        import_module(f"controlplane.cli.{module}").declare(verbs)
    return parser


if __name__ == "__main__":
    sys.exit(main())
