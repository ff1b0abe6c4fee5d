import io
import os
import socket
import stat
import tempfile
from pathlib import Path

import pytest

from controlplane.embedded import options
from controlplane.embedded.instance import Instance, require_space, socket_directory
from controlplane.embedded.launcher import (
    _announce,
    check_policy,
    check_port,
    check_trace,
    client_environment,
    running_environment,
)
from controlplane.embedded.processes import LauncherError
from controlplane.embedded.progress import Progress
from controlplane.embedded.servers import Servers
from controlplane.embedded.session import Session


def test_a_second_start_in_the_same_directory_is_refused(tmp_path: Path) -> None:
    refused = pytest.raises(LauncherError, match=f"already runs in {tmp_path}.*{os.getpid()}")
    with Instance(tmp_path).lock(), refused:
        Instance(tmp_path).lock().__enter__()


def test_the_lock_leaves_no_file_behind(tmp_path: Path) -> None:
    with Instance(tmp_path).lock():
        assert (tmp_path / "lock").exists()
    assert not (tmp_path / "lock").exists()


def test_the_lock_is_given_back_when_a_run_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), Instance(tmp_path).lock():
        raise ZeroDivisionError
    with Instance(tmp_path).lock():
        assert (tmp_path / "lock").read_text() == str(os.getpid())


def test_the_directory_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTH_HOME", str(tmp_path / "new"))
    assert stat.S_IMODE(Instance.here().home.stat().st_mode) == 0o700


def test_what_is_remembered_is_private_and_comes_back(tmp_path: Path) -> None:
    instance = Instance(tmp_path)
    instance.remember("credentials", {"token": "t"})
    assert instance.recall("credentials") == {"token": "t"}
    assert stat.S_IMODE((tmp_path / "credentials.json").stat().st_mode) == 0o600


def test_a_half_written_memory_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"servers": 6')
    assert Instance(tmp_path).recall("state") == {}


def test_the_secret_key_is_made_once(tmp_path: Path) -> None:
    first = Instance(tmp_path).secret_key()
    assert len(first) >= 50
    assert Instance(tmp_path).secret_key() == first


def test_the_log_of_the_run_before_is_kept(tmp_path: Path) -> None:
    instance = Instance(tmp_path)
    instance.fresh_log("web").write_text("earlier")
    assert instance.fresh_log("web").read_text() == ""
    assert (instance.logs / "web.log.1").read_text() == "earlier"


def test_a_nearly_full_disk_is_refused_with_the_numbers(tmp_path: Path) -> None:
    with pytest.raises(LauncherError, match=r"The disk is full: .* MiB left and Berth needs"):
        require_space(tmp_path, 1 << 62)


def test_a_long_temporary_directory_does_not_make_a_long_socket_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("long" * 30)))
    with socket_directory() as directory:
        assert len(str(directory / ".s.PGSQL.5432.lock")) < 108
    assert not directory.exists()


def test_sockets_of_a_killed_run_are_removed_and_nothing_else(tmp_path: Path) -> None:
    stale, other = tmp_path / "berth-abc", tmp_path / "precious"
    stale.mkdir()
    other.mkdir()
    with socket_directory(str(stale)), socket_directory(str(other)):
        assert (stale.exists(), other.exists()) == (False, True)


def test_a_busy_port_is_refused_with_its_number() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(LauncherError, match=f"Port {port} cannot be used .*--port"):
            check_port(port)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "cannot be read: No such file"),
        (b"", "is empty"),
        (b"\x1f\x8bbroken", "cannot be read"),
    ],
)
def test_a_trace_that_cannot_be_read_is_refused(
    tmp_path: Path, content: bytes | None, sentence: str
) -> None:
    trace = tmp_path / "trace.tsv"
    [trace.write_bytes(part) for part in [content] if part is not None]
    with pytest.raises(LauncherError, match=sentence):
        check_trace(trace)


def test_a_fresh_start_forgets_all_but_lock_and_logs(tmp_path: Path) -> None:
    instance = Instance(tmp_path)
    log = instance.fresh_log("web")
    instance.remember("state", {"servers": 6})
    with instance.lock():
        instance.forget_everything()
        assert (tmp_path / "lock").exists()
    assert log.exists()
    assert instance.recall("state") == {}


def test_an_unknown_policy_is_refused_with_those_there_are() -> None:
    with pytest.raises(LauncherError, match=r"no policy 'best': choose one of .*tarcil"):
        check_policy("best")


def test_commands_join_a_running_instance_and_ignore_a_dead_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BERTH_HOME", str(tmp_path))
    monkeypatch.setenv("REDIS_URL", "redis://ours/0")
    theirs = {"REDIS_URL": "redis://theirs/0"}
    Instance(tmp_path).remember("run", {"pid": os.getpid(), "environment": theirs})
    assert running_environment()["REDIS_URL"] == "redis://theirs/0"
    Instance(tmp_path).remember("run", {"pid": 2**22 + 1, "environment": theirs})
    assert running_environment()["REDIS_URL"] == "redis://ours/0"


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that an instance runs, and that the user has set nothing."""
    monkeypatch.setenv("BERTH_HOME", str(tmp_path))
    monkeypatch.delenv("BERTH_URL", raising=False)
    monkeypatch.delenv("BERTH_TOKEN", raising=False)
    theirs = {"BERTH_URL": "http://theirs", "BERTH_TOKEN": "admin"}
    Instance(tmp_path).remember("run", {"pid": os.getpid(), "environment": theirs})


@pytest.mark.parametrize(
    ("own", "url", "token"),
    [
        ({}, "http://theirs", "admin"),
        ({"BERTH_TOKEN": "viewer"}, "http://theirs", "viewer"),
        ({"BERTH_URL": "http://theirs"}, "http://theirs", "admin"),
        ({"BERTH_URL": "http://other"}, "http://other", None),
        ({"BERTH_URL": "http://other", "BERTH_TOKEN": "t"}, "http://other", "t"),
    ],
)
@pytest.mark.usefixtures("running")
def test_the_users_settings_outrank_the_instances_whose_token_stays_with_it(
    own: dict[str, str], url: str, token: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", {**os.environ, **own})
    environment = client_environment()
    assert (environment["BERTH_URL"], environment.get("BERTH_TOKEN")) == (url, token)


@pytest.mark.parametrize(
    ("password", "token"), [("first-time", "API token   secret"), (None, "API token   in ")]
)
def test_every_start_tells_where_the_token_is_but_shows_it_once(
    tmp_path: Path, password: str | None, token: str
) -> None:
    said = io.StringIO()
    session = Session(
        options.parse([]),
        Instance(tmp_path),
        Servers("", "", ()),
        {"BERTH_TOKEN": "secret"},
        Progress(stream=said),
    )
    _announce(session, password)
    assert token in said.getvalue()
    assert ("secret" in said.getvalue()) is (password is not None)
