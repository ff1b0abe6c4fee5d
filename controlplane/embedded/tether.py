"""Run a program that cannot outlive the process that started it.

    python tether.py PARENT SIGNAL PROGRAM [ARGUMENT...]

Started by path, with the standard library alone, so that it costs milliseconds. PARENT is the id
of the starting process. The kernel forgets the wish when the user changes or a privileged program
is executed, so a change of user comes before this program, never after it; and it watches the
thread that forked, so the launcher starts its children from its main thread.
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1


def main(parent: int, signal_number: int, command: list[str]) -> None:
    """Ask the kernel for `signal_number` when the parent ends, then become `command`."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal_number, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) refused")
    if os.getppid() != parent:
        sys.exit("tether: the starting process has already ended")
    os.execvp(command[0], command)  # noqa: S606  (the command comes from the launcher)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
