import io
import os
import socket
import stat
import tempfile
from pathlib import Path

import pytest

from controlplane.embedded import instance as instance_module
from controlplane.embedded import options
from controlplane.embedded.instance import (
    PROJECT,
    InstanceDirectory,
    kernels_digest,
    migrations_digest,
    require_space,
    socket_directory,
)
from controlplane.embedded.join import client_environment, running_environment
from controlplane.embedded.launcher import (
    _announce,
    check_policy,
    check_port,
    check_trace,
)
from controlplane.embedded.processes import LauncherError
from controlplane.embedded.progress import Progress
from controlplane.embedded.servers import Servers
from controlplane.embedded.session import Session


def test_a_second_start_in_the_same_directory_is_refused(tmp_path: Path) -> None:
    refused = pytest.raises(LauncherError, match=f"already runs in {tmp_path}.*{os.getpid()}")
    with InstanceDirectory(tmp_path).lock(), refused:
        InstanceDirectory(tmp_path).lock().__enter__()


def test_the_lock_leaves_no_file_behind(tmp_path: Path) -> None:
    with InstanceDirectory(tmp_path).lock():
        assert (tmp_path / "lock").exists()
    assert not (tmp_path / "lock").exists()


def test_the_lock_is_released_when_a_run_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), InstanceDirectory(tmp_path).lock():
        raise ZeroDivisionError
    with InstanceDirectory(tmp_path).lock():
        assert (tmp_path / "lock").read_text() == str(os.getpid())


def test_the_directory_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTH_HOME", str(tmp_path / "new"))
    assert stat.S_IMODE(InstanceDirectory.here().home.stat().st_mode) == 0o700


def test_saved_values_are_private_and_loaded_again(tmp_path: Path) -> None:
    instance = InstanceDirectory(tmp_path)
    instance.save("credentials", {"token": "t"})
    assert instance.load("credentials") == {"token": "t"}
    assert stat.S_IMODE((tmp_path / "credentials.json").stat().st_mode) == 0o600


def test_an_incomplete_file_loads_as_empty(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"servers": 6')
    assert InstanceDirectory(tmp_path).load("state") == {}


def test_the_secret_key_is_made_once(tmp_path: Path) -> None:
    first = InstanceDirectory(tmp_path).secret_key()
    assert len(first) >= 50
    assert InstanceDirectory(tmp_path).secret_key() == first


def test_the_log_of_the_previous_run_is_kept(tmp_path: Path) -> None:
    instance = InstanceDirectory(tmp_path)
    instance.new_log("web").write_text("earlier")
    assert instance.new_log("web").read_text() == ""
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


def test_a_fresh_start_deletes_all_but_lock_and_logs(tmp_path: Path) -> None:
    instance = InstanceDirectory(tmp_path)
    log = instance.new_log("web")
    instance.save("state", {"servers": 6})
    with instance.lock():
        instance.delete_files()
        assert (tmp_path / "lock").exists()
    assert log.exists()
    assert instance.load("state") == {}


def test_an_unknown_policy_is_refused_with_the_known_ones() -> None:
    with pytest.raises(LauncherError, match=r"Unknown policy 'best': choose one of .*tarcil"):
        check_policy("best")


def test_commands_join_a_running_instance_and_ignore_a_dead_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BERTH_HOME", str(tmp_path))
    monkeypatch.setenv("REDIS_URL", "redis://ours/0")
    theirs = {"REDIS_URL": "redis://theirs/0"}
    InstanceDirectory(tmp_path).save("run", {"pid": os.getpid(), "environment": theirs})
    assert running_environment()["REDIS_URL"] == "redis://theirs/0"
    InstanceDirectory(tmp_path).save("run", {"pid": 2**22 + 1, "environment": theirs})
    assert running_environment()["REDIS_URL"] == "redis://ours/0"


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that an instance runs, and that the user has set nothing."""
    monkeypatch.setenv("BERTH_HOME", str(tmp_path))
    monkeypatch.delenv("BERTH_URL", raising=False)
    monkeypatch.delenv("BERTH_TOKEN", raising=False)
    theirs = {"BERTH_URL": "http://theirs", "BERTH_TOKEN": "admin"}
    InstanceDirectory(tmp_path).save("run", {"pid": os.getpid(), "environment": theirs})


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
def test_user_settings_override_those_of_the_instance(
    own: dict[str, str], url: str, token: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", {**os.environ, **own})
    environment = client_environment()
    assert (environment["BERTH_URL"], environment.get("BERTH_TOKEN")) == (url, token)


@pytest.mark.parametrize(
    ("variables", "used"),
    [({}, ("tarcil", "paper")), ({"BERTH_POLICY": "random"}, ("random", "paper"))],
)
def test_a_run_uses_the_variables_then_what_the_previous_run_used(
    variables: dict[str, str],
    used: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "environ", variables)
    instance = InstanceDirectory(tmp_path)
    before = {"migrations": migrations_digest(), "kernels": kernels_digest()}
    instance.save("state", {**before, "database": "", "policy": "tarcil", "world": "paper"})
    (tmp_path / "token").write_text("secret")
    session = Session(
        options.parse(["--empty"]), instance, Servers("", ""), dict(variables), Progress()
    )
    session.prepare()
    environment = session.environment
    assert (environment["BERTH_POLICY"], environment["BERTH_WORLD"]) == used


def test_an_unknown_policy_names_the_option_and_the_variable() -> None:
    with pytest.raises(LauncherError, match=r"with --policy or BERTH_POLICY\.$"):
        check_policy("best")


@pytest.mark.parametrize(
    ("password", "token"), [("first-time", "API token   secret"), (None, "API token   in ")]
)
def test_the_token_is_shown_only_at_the_first_start(
    tmp_path: Path, password: str | None, token: str
) -> None:
    output = io.StringIO()
    session = Session(
        options.parse([]),
        InstanceDirectory(tmp_path),
        Servers("", ""),
        {"BERTH_TOKEN": "secret"},
        Progress(stream=output),
    )
    _announce(session, password)
    assert token in output.getvalue()
    assert ("secret" in output.getvalue()) is (password is not None)


@pytest.mark.parametrize("changed", ["requirements/base.txt", "apps/a/core/b/kernel.py"])
def test_kernels_are_compiled_again_when_what_they_depend_on_has_changed(
    changed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instance_module, "PROJECT", tmp_path)
    file = tmp_path / changed
    file.parent.mkdir(parents=True)
    file.write_text("before")
    before = kernels_digest()
    (tmp_path / "README.md").write_text("another")
    assert kernels_digest() == before
    file.write_text("after")
    assert kernels_digest() != before


def test_a_start_whose_kernels_do_not_compile_says_why(tmp_path: Path) -> None:
    environment = {"PYTHONPATH": str(PROJECT), "DJANGO_SETTINGS_MODULE": "missing"}
    session = Session(
        options.parse([]),
        InstanceDirectory(tmp_path),
        Servers("", ""),
        environment,
        Progress(stream=io.StringIO()),
    )
    # whichever of the groups fails first
    said = r"compile_kernels-(scheduling|classification|emulation) ended with code 1: .*'missing'"
    with pytest.raises(LauncherError, match=said):
        session._compile_kernels()
