"""The embedded servers: started, used, killed and started again."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
import redis

from controlplane.embedded import postgres
from controlplane.embedded.instance import PROJECT, InstanceDirectory, socket_directory
from controlplane.embedded.processes import LauncherError
from controlplane.embedded.servers import Servers, running_servers

pytestmark = pytest.mark.service

# Stands in for the launcher where the launcher itself is to be killed.
HOLDER = """
import os, sys, time
from pathlib import Path
from controlplane.embedded.instance import InstanceDirectory, socket_directory
from controlplane.embedded.postgres import plan_cluster
from controlplane.embedded.servers import running_servers
home = Path(sys.argv[1])
with socket_directory() as sockets, running_servers(
    plan_cluster(home), sockets, InstanceDirectory(home).new_log, is_durable=True
) as servers:
    print(*(child.process.pid for child in servers.children), servers.database_url, flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def _no_servers_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.delenv("REDIS_URL", raising=False)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def servers(home: Path) -> Iterator[Servers]:
    with (
        socket_directory() as sockets,
        running_servers(
            postgres.plan_cluster(home), sockets, InstanceDirectory(home).new_log, is_durable=False
        ) as running,
    ):
        yield running


@pytest.fixture
def short_directory() -> Iterator[Path]:
    """A short path for the sockets; pytest's own paths are too long."""
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory)


@pytest.fixture
def holder(home: Path, short_directory: Path) -> Iterator["subprocess.Popen[str]"]:
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "TMPDIR": str(short_directory)}
    with subprocess.Popen(  # noqa: S603  (our own program)
        [sys.executable, "-c", HOLDER, str(home)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        yield process
        process.kill()


def first_line(process: "subprocess.Popen[str]") -> list[str]:
    assert process.stdout is not None
    return process.stdout.readline().split()


def all_gone(pids: list[int], *, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while any(psutil.pid_exists(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not any(psutil.pid_exists(pid) for pid in pids)


def test_both_servers_answer(servers: Servers) -> None:
    with psycopg.connect(servers.database_url) as connection:
        row = connection.execute("SELECT current_database(), current_user").fetchone()
    with redis.Redis.from_url(servers.redis_url) as client:
        client.set("a", "b")
        value = client.get("a")
    assert (row, value) == (("berth", "berth"), b"b")


def test_neither_server_listens_on_the_network(servers: Servers) -> None:
    listening = [
        connection
        for child in servers.children
        for connection in psutil.Process(child.process.pid).net_connections("inet")
    ]
    assert listening == []


def test_nothing_is_left_after_a_stop(home: Path) -> None:
    with socket_directory() as sockets:
        cluster = postgres.plan_cluster(home)
        log = InstanceDirectory(home).new_log
        with running_servers(cluster, sockets, log, is_durable=False) as running:
            pids = [child.process.pid for child in running.children]
        assert all_gone(pids, within_s=0)
        assert list(sockets.iterdir()) == []
        assert not (cluster.data / "postmaster.pid").exists()


def test_data_outlives_a_stop(home: Path) -> None:
    cluster, log = postgres.plan_cluster(home), InstanceDirectory(home).new_log
    with (
        socket_directory() as sockets,
        running_servers(cluster, sockets, log, is_durable=True) as running,
        psycopg.connect(running.database_url) as connection,
    ):
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    with (
        socket_directory() as sockets,
        running_servers(cluster, sockets, log, is_durable=True) as running,
        psycopg.connect(running.database_url) as connection,
    ):
        assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)


def test_killing_the_launcher_ends_its_servers(holder: "subprocess.Popen[str]") -> None:
    valkey, database, _url = first_line(holder)
    holder.send_signal(signal.SIGKILL)
    assert all_gone([int(valkey), int(database)], within_s=10)


def test_a_start_after_a_killed_server_keeps_what_was_committed(
    home: Path, holder: "subprocess.Popen[str]"
) -> None:
    _valkey, database, url = first_line(holder)
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    os.kill(int(database), signal.SIGKILL)
    holder.kill()
    holder.wait()
    with (
        socket_directory() as sockets,
        running_servers(
            postgres.plan_cluster(home), sockets, InstanceDirectory(home).new_log, is_durable=False
        ) as running,
        psycopg.connect(running.database_url) as connection,
    ):
        assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)


def test_a_lock_file_naming_an_innocent_process_does_not_stop_the_start(home: Path) -> None:
    cluster, log = postgres.plan_cluster(home), InstanceDirectory(home).new_log
    with socket_directory() as sockets, running_servers(cluster, sockets, log, is_durable=False):
        lock = (cluster.data / "postmaster.pid").read_text().splitlines()
    lock[0] = str(os.getppid())
    (cluster.data / "postmaster.pid").write_text("\n".join(lock) + "\n")
    with (
        socket_directory() as sockets,
        running_servers(cluster, sockets, log, is_durable=False) as running,
        psycopg.connect(running.database_url) as connection,
    ):
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_data_of_another_version_is_refused_with_both_versions(home: Path) -> None:
    cluster = postgres.plan_cluster(home)
    cluster.data.mkdir(exist_ok=True)
    (cluster.data / "PG_VERSION").write_text("9.6\n")
    with (
        socket_directory() as sockets,
        pytest.raises(LauncherError, match=r"created by PostgreSQL 9.6, but this is .* 1\d"),
    ):
        postgres.start_postgres(cluster, sockets, log=home / "log")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become another user")
def test_root_becomes_nobody_where_namespaces_are_forbidden(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "IN_NAMESPACE", ("false",))
    elsewhere = Path(tempfile.gettempdir()) / "berth-test-relocated"
    monkeypatch.setattr(postgres, "RELOCATED_HOME", elsewhere)
    cluster, log = postgres.plan_cluster(home), InstanceDirectory(home).new_log
    # As after `--fresh`, which drops the data of an instance that is just being started.
    postgres.drop_data(cluster)
    try:
        with (
            socket_directory() as sockets,
            running_servers(cluster, sockets, log, is_durable=False) as running,
            psycopg.connect(running.database_url) as connection,
        ):
            assert connection.execute("SELECT 1").fetchone() == (1,)
            assert psutil.Process(running.children[1].process.pid).uids().effective == 65534
    finally:
        shutil.rmtree(elsewhere)
