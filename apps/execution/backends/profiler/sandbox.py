"""Where the runs of a profiled command happen: in its directory, or in a sandbox.

`CopyOnWrite` gives each run a copy of all file systems (Quasar §4.2, Q8), and all runs of a
profile their own processes, network and IPC. It hides what a command does. It is not a security
boundary: root can leave a chroot. `EmptyDirectory` is for accounts without the right to
namespaces.
"""

import fcntl
import os
import shutil
import signal
import socket
import stat
import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn, Protocol

from apps.execution.backends.agent.command import PR_SET_PDEATHSIG, preload
from apps.execution.backends.profiler.accounts import Account
from apps.execution.backends.profiler.mounts import (
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_RDONLY,
    MS_REC,
    check,
    file_systems,
    mount,
    mount_copy,
)

CLONE_NEWNS, CLONE_NEWIPC = 0x00020000, 0x08000000
CLONE_NEWPID, CLONE_NEWNET = 0x20000000, 0x40000000
KINDS: Final = {"pid": CLONE_NEWPID, "net": CLONE_NEWNET, "ipc": CLONE_NEWIPC}
DEVICES: Final = (("null", 3), ("zero", 5), ("full", 7), ("random", 8), ("urandom", 9))
PROGRESS: Final = "/dev/berth-progress"  # in a copy, where /dev is new
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
NOT_ENFORCED: Final = "the network, other processes and files elsewhere are not protected"


class NoSandboxError(Exception):
    """The account or the kernel cannot make a copy; the message says why."""


class Place(Protocol):
    """Where each run of a command happens.

    Attributes
    ----------
    progress : path of the progress file, as the command sees it
    sandbox : "copy-on-write" or "empty directory"; None without one
    note : what the sandbox does not enforce, and why; empty if nothing
    """

    progress: str
    sandbox: str | None
    note: str

    def prepared(self) -> AbstractContextManager[str]:
        """Prepare one run; its process must start meanwhile, in the directory that is yielded."""
        ...

    def enter(self) -> None:
        """Bring the calling process, which becomes the command, to the place.

        Raises
        ------
        OSError : the kernel refuses.
        """
        ...


@dataclass(slots=True)
class Directory:
    """A directory of this machine, as it is."""

    directory: str
    progress: str
    sandbox: str | None = None
    note: str = ""

    @contextmanager
    def prepared(self) -> Iterator[str]:
        """Yield the directory."""
        yield self.directory

    def enter(self) -> None:
        """Do nothing: the process starts there."""


@dataclass(slots=True)
class EmptyDirectory:
    """A directory that is empty when a run begins."""

    directory: Path
    progress: str
    note: str
    account: Account | None = None
    sandbox: str | None = "empty directory"

    @contextmanager
    def prepared(self) -> Iterator[str]:
        """Empty the directory, and yield it."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir()
        if self.account is not None:
            os.chown(self.directory, self.account.user, self.account.group)
        yield str(self.directory)

    def enter(self) -> None:
        """Do nothing: the process starts there."""


class CopyOnWrite:
    """A copy of all file systems for each run, and namespaces for all runs together.

    Raises
    ------
    NoSandboxError : this account or this kernel cannot make it.
    """

    def __init__(self, layers: Path, directory: str, progress: Path) -> None:
        self.progress, self.note = PROGRESS, ""
        self.sandbox: str | None = "copy-on-write"
        self._layers, self._directory, self._progress = layers, directory, str(progress)
        self._root = str(layers / "root")
        self._places = file_systems()
        self._open = ExitStack()
        self._namespaces: dict[str, int] = {}
        try:
            os.mkdir(self._root)
            self._own = self._namespace("self", "pid")
            self._start_init()
            self._try()
        except (OSError, subprocess.SubprocessError) as error:
            self.close()
            raise NoSandboxError(str(error)) from error

    def _namespace(self, process: int | str, name: str) -> int:
        handle = os.open(f"/proc/{process}/ns/{name}", os.O_RDONLY)
        self._open.callback(os.close, handle)
        return handle

    def _start_init(self) -> None:
        """Start the first process of the namespaces: the others end with it."""
        check(preload().unshare(CLONE_NEWPID), "unshare")  # for children, until it is set again
        try:
            init = subprocess.Popen(
                ["sleep", "infinity"],  # noqa: S607 - wherever it is
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=_become_init,  # noqa: PLW1509 - one thread
            )
        finally:
            check(preload().setns(self._own, CLONE_NEWPID), "setns")
        self._open.callback(init.wait)
        self._open.callback(init.kill)
        for name in KINDS:
            self._namespaces[name] = self._namespace(init.pid, name)

    def _try(self) -> None:
        """Enter it once, so that an error is known before the first run."""
        readable, writable = os.pipe()
        with self.prepared():
            process = os.fork()
            if process == 0:
                _report_error(self.enter, writable)
        os.close(writable)
        with open(readable) as stream:
            said = stream.read()
        os.waitpid(process, 0)
        if said:
            raise OSError(said)

    @contextmanager
    def prepared(self) -> Iterator[str]:
        """Make empty layers; a process that starts meanwhile is in the PID namespace."""
        for number in range(len(self._places)):
            for layer in (self._layer(number, "upper"), self._layer(number, "work")):
                shutil.rmtree(layer, ignore_errors=True)
                layer.mkdir()
                _copy_owner(self._places[number], layer)
        check(preload().setns(self._namespaces["pid"], CLONE_NEWPID), "setns")
        try:
            yield "/"
        finally:
            check(preload().setns(self._own, CLONE_NEWPID), "setns")

    def _layer(self, number: int, name: str) -> Path:
        return self._layers / f"{number}.{name}"

    def enter(self) -> None:
        """Mount a copy for the calling process, and make it its root."""
        for name in ("net", "ipc"):
            check(preload().setns(self._namespaces[name], KINDS[name]), "setns")
        check(preload().unshare(CLONE_NEWNS), "unshare")
        mount("none", "/", "", MS_REC | MS_PRIVATE)
        for number, place in enumerate(self._places):
            mount_copy(place, self._root, str(self._layers / str(number)))
        plain = MS_NOSUID | MS_NOEXEC
        mount("proc", f"{self._root}/proc", "proc", plain | MS_NODEV)
        mount("sysfs", f"{self._root}/sys", "sysfs", plain | MS_NODEV | MS_RDONLY)
        mount("tmpfs", f"{self._root}/dev", "tmpfs", plain)
        _make_devices(f"{self._root}/dev")
        Path(self._root + PROGRESS).touch()
        mount(self._progress, self._root + PROGRESS, "", MS_BIND)
        os.chroot(self._root)
        os.chdir(self._directory)

    def close(self) -> None:
        """End all processes inside."""
        self._open.close()


@contextmanager
def opened(
    directory: str,
    progress: Path,
    *,
    account: Account | None = None,
    layers: str | None = None,
) -> Iterator[Place]:
    """Yield the best sandbox that this account can make.

    Parameters
    ----------
    directory : working directory of the command
    account : that runs the command; None = the caller's
    layers : where a new directory holds what the copies write until the end; None = the working
        directory, so that writes reach the same disk. No other account may write there.
    """
    wanted = layers or directory
    parent = wanted if os.access(wanted, os.W_OK) else None  # else where files are temporary
    with tempfile.TemporaryDirectory(prefix=".berth-sandbox-", dir=parent) as folder:
        progress.touch()
        if account is not None:
            os.chmod(folder, 0o711)  # noqa: S103 - an empty directory below it is the command's
        try:
            copy = CopyOnWrite(Path(folder), directory, progress)
        except NoSandboxError as error:
            note = f"{NOT_ENFORCED}: {error}"
            yield EmptyDirectory(Path(folder) / "empty", str(progress), note, account)
            return
        try:
            yield copy
        finally:
            copy.close()


def _copy_owner(place: str, layer: Path) -> None:
    """Give a layer the owner and mode of a file system, which the copy then has."""
    found = os.stat(place)
    if stat.S_ISDIR(found.st_mode):
        os.chown(layer, found.st_uid, found.st_gid)
        layer.chmod(stat.S_IMODE(found.st_mode))


def _become_init() -> None:
    """Leave the network and IPC; reap what its processes leave behind; end with the parent."""
    preload().prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    check(preload().unshare(CLONE_NEWNET | CLONE_NEWIPC), "unshare")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))


def _report_error(enter: Callable[[], None], errors: int) -> NoReturn:
    """Enter a place in a process of its own; write why that fails."""
    try:
        enter()
    except BaseException as error:  # noqa: BLE001 - nothing may return into the parent's code
        os.write(errors, (str(error) or repr(error)).encode())
    os._exit(0)


def _make_devices(directory: str) -> None:
    for name, minor in DEVICES:
        path = f"{directory}/{name}"
        os.mknod(path, stat.S_IFCHR, os.makedev(1, minor))
        os.chmod(path, 0o666)  # noqa: S103 - as everywhere
    for target, name in (("/proc/self/fd", "fd"), ("fd/0", "stdin"), ("fd/1", "stdout")):
        os.symlink(target, f"{directory}/{name}")
    os.symlink("fd/2", f"{directory}/stderr")
    os.mkdir(f"{directory}/shm")
    os.chmod(f"{directory}/shm", 0o1777)  # noqa: S103 - as everywhere
