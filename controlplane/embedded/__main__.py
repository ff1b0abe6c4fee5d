"""`python -m controlplane.embedded run|test|bench|manage|berth ...`, called by `./dev`."""

import errno
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from controlplane.embedded import launcher
from controlplane.embedded.instance import PROJECT
from controlplane.embedded.processes import LauncherError

# Tests of one file share what is costly to make, and run one after the other.
SPREAD: Final = ("-n", "logical", "--maxprocesses", "4", "--dist", "loadfile")


def main(command: str, arguments: Sequence[str]) -> int:
    """Run one command; a failure we foresaw is one sentence on stderr."""
    try:
        return _dispatch(command, list(arguments))
    except LauncherError as error:
        sys.stderr.write(f"berth: {error}\n")
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        sys.stderr.write("berth: The disk is full: free some space and start again.\n")
    return 1


def _dispatch(command: str, arguments: list[str]) -> int:
    match command:
        case "run":
            return launcher.run(arguments)
        case "test":
            return launcher.run_with_servers(
                [sys.executable, "-m", "pytest", *spread(arguments), *arguments]
            )
        case "bench":
            return _bench(arguments)
        case "manage":
            manage = [str(PROJECT / "manage.py"), *arguments]
            return _python(manage, launcher.running_environment())
        case "berth":
            client = ["-m", "controlplane.cli.main", *arguments]
            return _python(client, launcher.client_environment())
    raise LauncherError(f"There is no command {command!r}.")


def spread(arguments: Sequence[str]) -> Sequence[str]:
    """Return the options that spread all tests over the processors.

    None where somebody says how many processes there shall be, wants to debug in this one, or
    names files: those few are done before other processes have started.
    """
    chosen = ("-n", "--numprocesses", "--dist", "--pdb", "--trace", "-s", "--capture")
    if any(argument.startswith(chosen) for argument in arguments):
        return ()
    if any((PROJECT / argument.split("::")[0]).exists() for argument in arguments):
        return ()
    return SPREAD


def _bench(arguments: list[str]) -> int:
    known = sorted(path.stem for path in (PROJECT / "benchmarks").glob("[a-z]*.py"))
    if not arguments or arguments[0] not in known:
        raise LauncherError(f"Name a benchmark: {', '.join(known) or 'there is none yet'}.")
    name, *rest = arguments
    return launcher.run_with_servers([sys.executable, "-m", f"benchmarks.{name}", *rest])


def _python(arguments: list[str], environment: dict[str, str]) -> int:
    return subprocess.run(  # noqa: S603  (our own command)
        [sys.executable, *arguments], env=environment, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
