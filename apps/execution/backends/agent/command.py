"""A process that joins its control groups first, and becomes a command when it is told which.

Joining costs 3 to 15 ms, because the kernel waits for a grace period of RCU. A process that has
joined before its order arrives starts in 2 ms. Standard library only, and no other module of this
project.
"""

import ctypes
import json
import os
import pwd
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, NoReturn

PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38
NOT_STARTED = 127  # exit code of a command that could not be started, as in a shell
POLL_S = 0.02
DEFAULTS = ("SIGPIPE", "SIGXFSZ", "SIGINT", "SIGHUP", "SIGTERM")  # Python ignores or catches them


class Command:
    """One process; `run` makes it a command.

    Attributes
    ----------
    pid : of the process, which leads a session of its own
    stdout, stderr : descriptors from which its output is read
    """

    def __init__(self, groups: Sequence[str]) -> None:
        """Fork the process; it joins the groups of these files, and waits."""
        orders, self._orders = os.pipe()
        self._errors, errors = os.pipe()
        self.stdout, stdout = os.pipe()
        self.stderr, stderr = os.pipe()
        self._code: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            for each in (self._orders, self._errors):
                os.close(each)  # else it would hold its own pipes open
            _become(groups, orders, errors, (stdout, stderr))
        for each in (orders, errors, stdout, stderr):
            os.close(each)

    def run(self, order: Mapping[str, Any]) -> None:
        """Make the process the command of an order; waits until it is, or could not.

        Raises
        ------
        OSError : it could not be started; the text says why.
        KeyError : the account is unknown.
        """
        self.begin(order)
        said = self.failure()  # nothing: it is the command now
        if said:
            self.wait()
            raise OSError(said)

    def begin(self, order: Mapping[str, Any]) -> None:
        """Let the process become the command of an order; does not wait, as a directory may hang.

        Raises
        ------
        KeyError : the account is unknown.
        """
        account = pwd.getpwnam(order["user"]) if order.get("user") else None
        is_other = account is not None and account.pw_uid != os.geteuid()
        body = {
            "command": order["command"],
            "environment": order["environment"],
            "working_directory": order["working_directory"],
            "cpus": order["cpus"],
            "account": [account.pw_name, account.pw_uid, account.pw_gid]
            if account is not None and is_other
            else None,
        }
        # a process that has ended said why; what is written to it is sent as the file is closed
        with suppress(BrokenPipeError), open(self._orders, "wb") as orders:
            orders.write(json.dumps(body).encode())

    def failure(self) -> str:
        """Return why it could not be started, once; empty if it was. Waits until that is known."""
        with open(self._errors) as errors:
            return errors.read()

    def poll(self) -> int | None:
        """Return the exit code, or minus the signal that ended it; None while it runs."""
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def wait(self) -> int:
        """Wait for the end; return what `poll` returns."""
        if self._code is None:
            self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._code

    def has_ended_within(self, seconds: float) -> bool:
        """Return True as soon as it has ended, else False after some seconds."""
        until = time.monotonic() + seconds
        while self.poll() is None:
            if time.monotonic() > until:
                return False
            time.sleep(POLL_S)
        return True


def _become(groups: Sequence[str], orders: int, errors: int, outputs: tuple[int, int]) -> NoReturn:
    """Join the groups, wait for an order, and execute its command."""
    try:
        os.setsid()
        preload().prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        for name in DEFAULTS:
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in zip((nothing, *outputs), (0, 1, 2), strict=True):
            os.dup2(source, target)
        for path in groups:
            with open(path, "w") as stream:
                stream.write(str(os.getpid()))
        with open(orders, "rb") as stream_of_orders:
            text = stream_of_orders.read()
        if not text:
            os._exit(0)  # the supervisor has ended without an order
        _execute(json.loads(text))
    except BaseException as error:  # noqa: BLE001 - nothing may return into the loop of the parent
        with suppress(OSError):
            os.write(errors, (str(error) or repr(error)).encode())
    os._exit(NOT_STARTED)


def _execute(order: Mapping[str, Any]) -> None:
    """Replace this process by the command, as the user, on the cores; raises OSError."""
    os.sched_setaffinity(0, order["cpus"])
    libc = preload()
    if order["account"] is not None:
        name, user, group = order["account"]
        os.initgroups(name, group)
        os.setgid(group)
        os.setuid(user)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # a change of the user clears it
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    os.chdir(order["working_directory"])
    program = order["command"][0]
    try:
        os.execvpe(program, order["command"], order["environment"])  # noqa: S606 - no shell
    except OSError as error:
        raise OSError(error.errno, error.strerror, program) from None


@cache
def preload() -> ctypes.CDLL:
    """Load the C library: before a fork it costs nothing after it."""
    return ctypes.CDLL(None, use_errno=True)
