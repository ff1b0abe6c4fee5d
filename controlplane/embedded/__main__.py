"""`python -m controlplane.embedded run|test|bench|manage|berth ...`, called by `./dev`."""

import errno
import sys
from collections.abc import Sequence
from typing import Final

from controlplane.embedded import join
from controlplane.embedded.instance import PROJECT
from controlplane.embedded.processes import LauncherError

# One process per test file, as tests of a file share costly fixtures.
PARALLEL_OPTIONS: Final = ("-n", "logical", "--maxprocesses", "4", "--dist", "loadfile")


def main(command: str, arguments: Sequence[str]) -> int:
    """Run a command; print expected errors as one sentence on stderr."""
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
            from controlplane.embedded import launcher  # noqa: PLC0415 - the others start faster

            return launcher.run(arguments)
        case "test":
            pytest = [sys.executable, "-m", "pytest", *parallel_options(arguments), *arguments]
            return _with_servers(pytest)
        case "bench":
            return _bench(arguments)
        case "manage":
            return join.manage(arguments)
        case "berth":
            return join.berth(arguments)
    raise LauncherError(f"Unknown command {command!r}.")


def parallel_options(arguments: Sequence[str]) -> Sequence[str]:
    """Return the pytest options that distribute tests over the processors.

    No options if the arguments set the number of processes, request debugging or name files: a
    few files finish before other processes have started.
    """
    chosen = ("-n", "--numprocesses", "--dist", "--pdb", "--trace", "-s", "--capture")
    if any(argument.startswith(chosen) for argument in arguments):
        return ()
    if any((PROJECT / argument.split("::")[0]).exists() for argument in arguments):
        return ()
    return PARALLEL_OPTIONS


def _bench(arguments: list[str]) -> int:
    known = sorted(path.stem for path in (PROJECT / "benchmarks").glob("[a-z]*.py"))
    if not arguments or arguments[0] not in known:
        raise LauncherError(f"Give a benchmark: {', '.join(known) or 'none exist'}.")
    name, *rest = arguments
    return _with_servers([sys.executable, "-m", "benchmarks._run", name, *rest])


def _with_servers(command: Sequence[str]) -> int:
    from controlplane.embedded import launcher  # noqa: PLC0415 - the others start faster

    return launcher.run_with_servers(command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
