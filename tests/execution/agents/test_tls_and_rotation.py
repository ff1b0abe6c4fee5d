"""The address of an agent, and the replacement of its credential, by command."""

import os
from pathlib import Path

import pytest

from apps.execution.models import ServerAgent
from controlplane.cli.main import main
from tests.execution.agents.conftest import Site, eventually

USER = ("--user", "root") if os.geteuid() == 0 else ()
NOBODY = "http://127.0.0.1:1"


@pytest.mark.parametrize("action", ["enrol", "run", "rotate", "install"])
@pytest.mark.parametrize("url", ["http://berth.example", "http://10.1.2.3:8000"])
def test_an_agent_refuses_an_address_without_tls(
    action: str, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--server", "box-1", "--state", str(tmp_path), "--url", url, *USER)
    assert main(["agent", action, *where]) == 2
    error = capsys.readouterr().err
    assert f"the address {url} has no TLS" in error
    assert "--insecure-http permits it" in error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "more"),
    [
        ("https://127.0.0.1:1", ()),
        (NOBODY, ()),
        ("http://[::1]:1", ()),
        ("http://localhost:1", ()),
        ("http://berth.invalid:1", ("--insecure-http",)),
    ],
)
def test_an_address_with_tls_of_this_machine_or_permitted_is_tried(
    url: str, more: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--server", "box-1", "--state", str(tmp_path), "--url", url, "--token", "x")
    assert main(["agent", "enrol", *where, *more]) != 0
    assert "the machine was not enrolled" in capsys.readouterr().err


def test_a_credential_that_cannot_be_replaced_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "credential").write_text("old")
    where = ("--server", "box-1", "--state", str(tmp_path), "--url", NOBODY)
    assert main(["agent", "rotate", *where]) != 0
    assert "the credential was not replaced" in capsys.readouterr().err
    assert (tmp_path / "credential").read_text() == "old"


@pytest.mark.agent
def test_an_agent_goes_on_with_the_old_credential_until_it_starts_with_the_new_one(
    site: Site,
) -> None:
    machine = site.machine("box-1")
    before = (machine.state / "credential").read_text()
    where = ("--server", "box-1", "--state", str(machine.state), "--url", site.url)
    assert main(["agent", "rotate", *where]) == 0
    after = (machine.state / "credential").read_text()
    assert after != before
    assert (machine.state / "credential").stat().st_mode & 0o777 == 0o600
    assert site.done(site.submit("true")).exit_code == 0
    machine.kill()
    machine.start()
    assert site.done(site.submit("true")).exit_code == 0
    eventually(lambda: ServerAgent.objects.get().next_digest is None, "the old one has ended")
