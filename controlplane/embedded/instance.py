"""One instance of Berth on this machine: its directory, its lock and what it remembers."""

import fcntl
import hashlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controlplane.embedded.processes import LauncherError

PROJECT = Path(__file__).resolve().parent.parent.parent
LONGEST_SOCKET_DIR = 80  # sockaddr_un holds 107 characters, PostgreSQL's socket name takes 18
MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Instance:
    """The directory an instance keeps everything in, `.berth/` unless BERTH_HOME names another."""

    home: Path

    @classmethod
    def here(cls) -> "Instance":
        """Return the instance this checkout uses; its directory is private to the user."""
        home = Path(os.environ.get("BERTH_HOME") or PROJECT / ".berth").resolve()
        try:
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise LauncherError(
                f"The directory {home} cannot be made: {error.strerror}."
            ) from error
        return cls(home=home)

    @property
    def logs(self) -> Path:
        """Directory of the children's logs."""
        return self.home / "logs"

    def fresh_log(self, name: str) -> Path:
        """Return an empty log file; the one of the run before is kept as `.1`."""
        self.logs.mkdir(exist_ok=True)
        path = self.logs / f"{name}.log"
        if path.exists():
            path.replace(path.with_suffix(".log.1"))
        path.touch()
        return path

    def secret_key(self) -> str:
        """Return the key that signs sessions, made once and kept."""
        path = self.home / "secret_key"
        if not path.exists():
            _write_private(path, secrets.token_urlsafe(48))
        return path.read_text()

    def recall(self, name: str) -> dict[str, Any]:
        """Return what was remembered under a name; empty when nothing or half of it was."""
        try:
            remembered: dict[str, Any] = json.loads((self.home / f"{name}.json").read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return {}
        return remembered

    def remember(self, name: str, values: dict[str, Any]) -> None:
        """Keep values under a name, whole or not at all."""
        _write_private(self.home / f"{name}.json", json.dumps(values, indent=2) + "\n")

    def forget(self, name: str) -> None:
        """Drop what is remembered under a name."""
        (self.home / f"{name}.json").unlink(missing_ok=True)

    def forget_everything(self) -> None:
        """Drop every file of the instance but its lock and its logs; the database is not here."""
        for path in self.home.iterdir():
            if path.is_file() and path.name != "lock":
                path.unlink()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the instance; the kernel gives it back whatever way this process ends.

        Raises
        ------
        LauncherError : another process holds it.
        """
        path = self.home / "lock"
        with path.open("a+") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                handle.seek(0)
                holder = handle.read().strip() or "unknown"
                raise LauncherError(
                    f"Berth already runs in {self.home} (process {holder}): stop it first, or "
                    "give this one a directory of its own with BERTH_HOME."
                ) from error
            if not path.exists() or path.stat().st_ino != os.fstat(handle.fileno()).st_ino:
                # Its last holder removed it between our open and our lock.
                raise LauncherError(f"Berth is just stopping in {self.home}: start it again.")
            handle.truncate(0)
            handle.write(str(os.getpid()))
            handle.flush()
            try:
                yield
            finally:
                path.unlink(missing_ok=True)


@contextmanager
def socket_directory(stale: str | None = None) -> Iterator[Path]:
    """Make a short private directory for sockets; `stale` names one a killed run left behind."""
    if stale and Path(stale).name.startswith("berth-"):
        shutil.rmtree(stale, ignore_errors=True)
    parent = tempfile.gettempdir()
    if len(parent) > LONGEST_SOCKET_DIR:
        parent = "/tmp"  # noqa: S108  (mkdtemp makes a private directory with a random name)
    directory = Path(tempfile.mkdtemp(prefix="berth-", dir=parent))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def require_space(directory: Path, minimum_bytes: int) -> None:
    """Refuse to go on when the disk is nearly full.

    Raises
    ------
    LauncherError : less than `minimum_bytes` are free.
    """
    free = shutil.disk_usage(directory).free
    if free < minimum_bytes:
        raise LauncherError(
            f"The disk is full: {directory} has {free // MEBIBYTE} MiB left and Berth needs "
            f"{minimum_bytes // MEBIBYTE} MiB; free some space and start again."
        )


def migrations_digest() -> str:
    """Return a digest of every migration, to know without Django whether any is new."""
    digest = hashlib.sha256()
    for path in sorted(PROJECT.glob("apps/*/migrations/*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _write_private(path: Path, text: str) -> None:
    new = path.with_name(path.name + ".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)
    new.replace(path)
