"""Run a program that ends with the process that started it.

    python bind_to_parent.py PARENT SIGNAL PROGRAM [ARGUMENT...]

Run by path with the standard library only, to start in milliseconds. PARENT is the pid of the
starting process. The kernel clears the death signal when the user changes or a privileged program
is executed, so change the user before this program, not after. The signal is sent when the thread
that forked ends, so the launcher starts its children from its main thread.
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1


def main(parent: int, signal_number: int, command: list[str]) -> None:
    """Set `signal_number` as parent death signal, then execute `command`."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal_number, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) refused")
    if os.getppid() != parent:
        sys.exit("bind_to_parent: the starting process has already ended")
    os.execvp(command[0], command)  # noqa: S606  (the command comes from the launcher)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
