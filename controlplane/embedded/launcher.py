"""`./dev run`, `./dev test` and `./dev bench`: checks, servers, signals and cleanup."""

import gzip
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType

from controlplane.embedded.instance import (
    MEBIBYTE,
    PROJECT,
    InstanceDirectory,
    require_space,
    socket_directory,
)
from controlplane.embedded.options import Options, parse
from controlplane.embedded.postgres import DatabaseCluster, drop_data, plan_cluster, stop_orphans
from controlplane.embedded.processes import (
    LauncherError,
    StopRequestedError,
    bound_to_parent,
)
from controlplane.embedded.progress import Progress
from controlplane.embedded.servers import Servers, running_servers
from controlplane.embedded.session import Session

MIN_FREE_TO_START_BYTES = 256 * MEBIBYTE
FOREGROUND_STOP_TIMEOUT_S = 10.0
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(arguments: Sequence[str]) -> int:
    """Run `./dev run` until a signal or failure."""
    options = parse(arguments)
    progress = Progress()
    try:
        with stop_on_signals():
            _run(options, progress)
    except StopRequestedError:
        progress.write_line("Stopped.")
        return 0
    return 0


def run_with_servers(command: Sequence[str]) -> int:
    """Run a command with temporary embedded servers; return its exit code."""
    home = Path(tempfile.mkdtemp(prefix="berth-servers-"))
    instance = InstanceDirectory(home=home)
    cluster = None
    try:
        with stop_on_signals(), socket_directory() as sockets:
            cluster = None if os.environ.get("DATABASE_URL") else plan_cluster(home)
            with running_servers(cluster, sockets, instance.new_log, is_durable=False) as up:
                environment = _environment(instance, up, sockets)
                return _in_foreground(command, environment)
    except StopRequestedError:
        return 130
    finally:
        if cluster is not None:
            drop_data(cluster)
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def stop_on_signals() -> Iterator[None]:
    """Turn the first Ctrl-C, SIGTERM or SIGHUP into `StopRequestedError`; ignore later ones.

    The error is raised immediately; a child just being started ends with this process.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        for stopping in STOP_SIGNALS:
            # Not SIG_IGN, which later children would inherit.
            signal.signal(stopping, lambda _number, _frame: None)
        raise StopRequestedError(signal.Signals(number).name)

    before = {number: signal.signal(number, stop) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def check_port(port: int) -> None:
    """Check that a port is free.

    Raises
    ------
    LauncherError : the port is in use or not permitted.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise LauncherError(
                f"Port {port} cannot be used ({error.strerror}): choose another with --port "
                "(the dashboard uses this port, event streams the next one)."
            ) from error


def check_trace(trace: Path) -> None:
    """Check that a trace can be read.

    Raises
    ------
    LauncherError : it is missing, unreadable, empty or a broken gzip file.
    """
    try:
        with trace.open("rb") as stream:
            beginning = stream.read(2)
        if beginning == b"\x1f\x8b":
            with gzip.open(trace) as unpacked:
                beginning = unpacked.read(2)
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise LauncherError(f"The trace {trace} cannot be read: {reason}.") from error
    if not beginning:
        raise LauncherError(f"The trace {trace} is empty.")


def check_policy(name: str) -> None:
    """Check that a policy exists.

    Raises
    ------
    LauncherError : it does not exist; names the existing ones.
    """
    # imported here, as it loads numba and slows down the start
    from apps.scheduling.core import registry  # noqa: PLC0415
    from apps.scheduling.infrastructure.plugins import (  # noqa: PLC0415
        PolicyPluginError,
        load_policies,
    )

    try:
        load_policies()
    except PolicyPluginError as error:
        raise LauncherError(str(error)) from error
    if name not in registry.POLICIES:
        known = ", ".join(sorted(registry.POLICIES))
        raise LauncherError(
            f"Unknown policy {name!r}: choose one of {known} with --policy or BERTH_POLICY."
        )


def _run(options: Options, progress: Progress) -> None:
    if options.trace is not None:
        trace = options.trace.resolve()
        check_trace(trace)
        options = replace(options, trace=trace)
    if options.policy is not None:
        check_policy(options.policy)
    instance = InstanceDirectory.here()
    require_space(instance.home, MIN_FREE_TO_START_BYTES)
    with instance.lock():
        check_port(options.port)
        check_port(options.port + 1)
        cluster = None if os.environ.get("DATABASE_URL") else plan_cluster(instance.home)
        stale = instance.load("run").get("socket_dir")
        if options.is_fresh:
            _drop_everything(instance, cluster)
        with socket_directory(stale) as sockets:
            # If this process is killed, the next start deletes the directory.
            instance.save("run", {"socket_dir": str(sockets)})
            progress.begin("Starting PostgreSQL and Valkey")
            with running_servers(cluster, sockets, instance.new_log, is_durable=True) as up:
                progress.end()
                environment = _environment(instance, up, sockets)
                _serve(Session(options, instance, up, environment, progress))


def _serve(session: Session) -> None:
    environment = session.environment
    environment["BERTH_URL"] = session.url
    environment["BERTH_STREAM_ORIGIN"] = f"http://127.0.0.1:{session.options.port + 1}"
    try:
        password = session.prepare()
        session.instance.save(
            "run",
            {
                "pid": os.getpid(),
                "url": session.url,
                "socket_dir": environment["BERTH_SOCKET_DIR"],
                "environment": _shared(environment),
            },
        )
        session.open()
        _announce(session, password)
        session.watch()
    finally:
        session.progress.write_line("Stopping ...")
        session.close()
        session.instance.delete("run")


def _announce(session: Session, password: str | None) -> None:
    write_line = session.progress.write_line
    write_line("")
    write_line(f"  Berth runs at {session.url}/")
    if password is not None:
        write_line(f"  Log in      as admin with the one-time password {password}")
        write_line(f"  API token   {session.environment['BERTH_TOKEN']}")
    else:
        write_line(f"  API token   in {session.instance.home / 'token'}")
    write_line(f"  Logs        {session.instance.logs}")
    write_line("  Ctrl-C stops Berth and keeps the data.")
    write_line("")


def _environment(instance: InstanceDirectory, servers: Servers, sockets: Path) -> dict[str, str]:
    """Return the environment of the child processes."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return {
        **threads,
        **os.environ,
        "DATABASE_URL": servers.database_url,
        "REDIS_URL": servers.redis_url,
        # Identity of the database; the embedded one has a new address at every start.
        "BERTH_DATABASE": os.environ.get("DATABASE_URL", "embedded"),
        "BERTH_HOME": str(instance.home),
        "BERTH_SECRET_KEY": instance.secret_key(),
        "BERTH_SOCKET_DIR": str(sockets),
        "PYTHONPATH": str(PROJECT),
        "PYTHONUNBUFFERED": "1",
    }


def _shared(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the part of the environment that `./dev manage` and `./dev berth` need."""
    names = ("DATABASE_URL", "REDIS_URL")
    return {
        name: value
        for name, value in environment.items()
        if name in names or name.startswith("BERTH_")
    }


def _drop_everything(instance: InstanceDirectory, cluster: DatabaseCluster | None) -> None:
    if cluster is None:
        raise LauncherError(
            "--fresh deletes only the embedded database, but DATABASE_URL is set: "
            "empty that database yourself."
        )
    stop_orphans(cluster.data)
    drop_data(cluster)
    instance.delete_files()


def _in_foreground(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command on this terminal and wait for it, also after a signal."""
    process = subprocess.Popen(  # noqa: S603  (fixed command)
        bound_to_parent(command), env=dict(environment)
    )
    try:
        return process.wait()
    finally:
        try:
            process.wait(timeout=FOREGROUND_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
