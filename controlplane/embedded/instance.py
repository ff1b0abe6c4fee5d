"""An instance of Berth on this machine: directory, lock and stored state."""

import fcntl
import hashlib
import json
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controlplane.embedded.processes import LauncherError

PROJECT = Path(__file__).resolve().parent.parent.parent
MAX_SOCKET_DIR = 80  # sockaddr_un holds 107 characters, PostgreSQL's socket name takes 18
MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class InstanceDirectory:
    """The directory of an instance, BERTH_HOME or `.berth/`."""

    home: Path

    @classmethod
    def here(cls) -> "InstanceDirectory":
        """Return the instance of this checkout; its directory is private to the user."""
        home = Path(os.environ.get("BERTH_HOME") or PROJECT / ".berth").resolve()
        try:
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise LauncherError(
                f"Cannot create the directory {home}: {error.strerror}."
            ) from error
        return cls(home=home)

    @property
    def logs(self) -> Path:
        """Directory of the log files."""
        return self.home / "logs"

    def new_log(self, name: str) -> Path:
        """Return an empty log file; the previous run's log becomes `.1`."""
        self.logs.mkdir(exist_ok=True)
        path = self.logs / f"{name}.log"
        if path.exists():
            path.replace(path.with_suffix(".log.1"))
        path.touch()
        return path

    def secret_key(self) -> str:
        """Return the session signing key, created on first use."""
        path = self.home / "secret_key"
        if not path.exists():
            _write_private(path, secrets.token_urlsafe(48))
        return path.read_text()

    def load(self, name: str) -> dict[str, Any]:
        """Return the values saved under a name; empty if the file is missing or incomplete."""
        try:
            values: dict[str, Any] = json.loads((self.home / f"{name}.json").read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return {}
        return values

    def save(self, name: str, values: dict[str, Any]) -> None:
        """Save values under a name atomically."""
        _write_private(self.home / f"{name}.json", json.dumps(values, indent=2) + "\n")

    def delete(self, name: str) -> None:
        """Delete the values saved under a name."""
        (self.home / f"{name}.json").unlink(missing_ok=True)

    def delete_files(self) -> None:
        """Delete all files of the instance except its lock and logs; keeps the database."""
        for path in self.home.iterdir():
            if path.is_file() and path.name != "lock":
                path.unlink()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the instance; the kernel releases the lock when this process ends.

        Raises
        ------
        LauncherError : another process holds the lock.
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
                    "use another directory with BERTH_HOME."
                ) from error
            if not path.exists() or path.stat().st_ino != os.fstat(handle.fileno()).st_ino:
                # The previous holder removed the file between open and flock.
                raise LauncherError(
                    f"Berth is stopping in {self.home}: try again in a few seconds."
                )
            handle.truncate(0)
            handle.write(str(os.getpid()))
            handle.flush()
            try:
                yield
            finally:
                path.unlink(missing_ok=True)


@contextmanager
def socket_directory(stale: str | None = None) -> Iterator[Path]:
    """Create a short private directory for sockets; delete `stale`, left by a killed run."""
    if stale and Path(stale).name.startswith("berth-"):
        shutil.rmtree(stale, ignore_errors=True)
    parent = tempfile.gettempdir()
    if len(parent) > MAX_SOCKET_DIR:
        parent = "/tmp"  # noqa: S108  (mkdtemp makes a private directory with a random name)
    directory = Path(tempfile.mkdtemp(prefix="berth-", dir=parent))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def require_space(directory: Path, minimum_bytes: int) -> None:
    """Raise an error if the disk is nearly full.

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
    """Return a digest of all migrations, to detect new ones without loading Django."""
    digest = hashlib.sha256()
    for path in sorted(PROJECT.glob("apps/*/migrations/*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def kernels_digest() -> str:
    """Return a digest of what compiled kernels depend on, to detect new ones without numba."""
    digest = hashlib.sha256(sys.version.encode())
    for pattern in ("requirements/*.txt", "apps/*/core/**/*.py"):
        for path in sorted(PROJECT.glob(pattern)):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _write_private(path: Path, text: str) -> None:
    new = path.with_name(path.name + ".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)
    new.replace(path)
