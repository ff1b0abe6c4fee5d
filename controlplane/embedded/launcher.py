"""`./dev run`, `./dev test` and `./dev bench`: what happens before, around and after a session."""

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
    Instance,
    require_space,
    socket_directory,
)
from controlplane.embedded.options import Options, parse
from controlplane.embedded.postgres import Cluster, drop_data, end_orphans, plan_cluster
from controlplane.embedded.processes import (
    LauncherError,
    StopRequestedError,
    alive,
    tethered,
)
from controlplane.embedded.progress import Progress
from controlplane.embedded.servers import Servers, running_servers
from controlplane.embedded.session import Session

SPACE_TO_START_BYTES = 256 * MEBIBYTE
FOREGROUND_PATIENCE_S = 10.0
# what a user may set to reach another server, or this one as somebody else
CLIENT_SETTINGS = ("BERTH_URL", "BERTH_TOKEN")
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(arguments: Sequence[str]) -> int:
    """`./dev run`: everything, until a signal or a failure."""
    options = parse(arguments)
    progress = Progress()
    try:
        with stop_on_signals():
            _run(options, progress)
    except StopRequestedError:
        progress.say("Stopped.")
        return 0
    return 0


def run_with_servers(command: Sequence[str]) -> int:
    """Run a command on embedded servers that leave nothing behind; return its exit code."""
    home = Path(tempfile.mkdtemp(prefix="berth-servers-"))
    instance = Instance(home=home)
    cluster = None
    try:
        with stop_on_signals(), socket_directory() as sockets:
            cluster = None if os.environ.get("DATABASE_URL") else plan_cluster(home)
            with running_servers(cluster, sockets, instance.fresh_log, is_durable=False) as up:
                environment = _environment(instance, up, sockets)
                return _in_foreground(command, environment)
    except StopRequestedError:
        return 130
    finally:
        if cluster is not None:
            drop_data(cluster)
        shutil.rmtree(home, ignore_errors=True)


def running_environment() -> dict[str, str]:
    """Return the environment of the running instance, or ours when none runs."""
    run = Instance.here().recall("run")
    is_running = "pid" in run and alive(run["pid"])
    return {**os.environ, **(run["environment"] if is_running else {})}


def client_environment() -> dict[str, str]:
    """Return the environment of the berth command: what the user set outranks the instance.

    The instance's token never goes to another address than its own.
    """
    own = {name: os.environ[name] for name in CLIENT_SETTINGS if os.environ.get(name)}
    environment = running_environment()
    if own.get("BERTH_URL", environment.get("BERTH_URL")) != environment.get("BERTH_URL"):
        environment.pop("BERTH_TOKEN", None)
    return {**environment, **own}


@contextmanager
def stop_on_signals() -> Iterator[None]:
    """Turn the first Ctrl-C, SIGTERM or SIGHUP into `StopRequestedError`, ignore later ones.

    Raised at once wherever we are: a child that was just being started dies with us, tethered.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        for stopping in STOPPING:
            # Not SIG_IGN, which children started from now on would inherit.
            signal.signal(stopping, lambda _number, _frame: None)
        raise StopRequestedError(signal.Signals(number).name)

    before = {number: signal.signal(number, stop) for number in STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def check_port(port: int) -> None:
    """Refuse a port somebody listens on.

    Raises
    ------
    LauncherError : the port cannot be had.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise LauncherError(
                f"Port {port} cannot be used ({error.strerror}): choose another with --port "
                "(pages use it, event streams the next one)."
            ) from error


def check_trace(trace: Path) -> None:
    """Refuse a trace that cannot be read, before anything is started.

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
    """Refuse a policy nobody knows.

    Raises
    ------
    LauncherError : names those there are.
    """
    # Only when somebody asks for one: it brings numba, and a start has little time.
    from apps.scheduling.core import registry  # noqa: PLC0415

    if name not in registry.POLICIES:
        known = ", ".join(sorted(registry.POLICIES))
        raise LauncherError(f"There is no policy {name!r}: choose one of {known}.")


def _run(options: Options, progress: Progress) -> None:
    if options.trace is not None:
        trace = options.trace.resolve()
        check_trace(trace)
        options = replace(options, trace=trace)
    if options.policy is not None:
        check_policy(options.policy)
    instance = Instance.here()
    require_space(instance.home, SPACE_TO_START_BYTES)
    with instance.lock():
        check_port(options.port)
        check_port(options.port + 1)
        cluster = None if os.environ.get("DATABASE_URL") else plan_cluster(instance.home)
        stale = instance.recall("run").get("socket_dir")
        if options.is_fresh:
            _drop_everything(instance, cluster)
        with socket_directory(stale) as sockets:
            # So that the next start finds them should this process be killed.
            instance.remember("run", {"socket_dir": str(sockets)})
            progress.begin("Starting PostgreSQL and Valkey")
            with running_servers(cluster, sockets, instance.fresh_log, is_durable=True) as up:
                progress.end()
                environment = _environment(instance, up, sockets)
                _serve(Session(options, instance, up, environment, progress))


def _serve(session: Session) -> None:
    environment = session.environment
    environment["BERTH_URL"] = session.url
    environment["BERTH_STREAM_ORIGIN"] = f"http://127.0.0.1:{session.options.port + 1}"
    try:
        password = session.prepare()
        session.instance.remember(
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
        session.progress.say("Stopping ...")
        session.close()
        session.instance.forget("run")


def _announce(session: Session, password: str | None) -> None:
    say = session.progress.say
    say("")
    say(f"  Berth is at {session.url}/")
    if password is not None:
        say(f"  Log in      as admin with the one-time password {password}")
        say(f"  API token   {session.environment['BERTH_TOKEN']}")
    else:
        say(f"  API token   in {session.instance.home / 'token'}")
    say(f"  Logs        {session.instance.logs}")
    say("  Ctrl-C stops everything and keeps the data.")
    say("")


def _environment(instance: Instance, servers: Servers, sockets: Path) -> dict[str, str]:
    """Return the environment of every child."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return {
        **threads,
        **os.environ,
        "DATABASE_URL": servers.database_url,
        "REDIS_URL": servers.redis_url,
        # The embedded database changes its address with every start; its identity does not.
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


def _drop_everything(instance: Instance, cluster: Cluster | None) -> None:
    if cluster is None:
        raise LauncherError(
            "--fresh drops only the embedded database, and DATABASE_URL names another one: "
            "empty that one yourself."
        )
    end_orphans(cluster.data)
    drop_data(cluster)
    instance.forget_everything()


def _in_foreground(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command that shares our terminal, and wait for it even when a signal comes."""
    process = subprocess.Popen(  # noqa: S603  (our own command)
        tethered(command), env=dict(environment)
    )
    try:
        return process.wait()
    finally:
        try:
            process.wait(timeout=FOREGROUND_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
