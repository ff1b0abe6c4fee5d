"""`berth profile` on this machine, without a server."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from controlplane.cli.errors import Exit
from controlplane.cli.main import main

# Ends at once: each window is one run of it.
SHORT = [sys.executable, "-I", "-S", "-c", "sum(range(200_000))"]
OPTIONS = ["profile", "--no-fifo", "--sources", "core", "--window", "0.1"]


@pytest.fixture
def key(tmp_path: Path) -> Path:
    file = tmp_path / "key"
    file.write_text("0123456789abcdef0123456789abcdef\n")
    return file


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["profile", *arguments]) != Exit.OK
    return capsys.readouterr().err


def test_a_command_is_profiled_and_its_report_signed(
    tmp_path: Path, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "report.json"
    sealing = ["--report", str(file), "--key", str(key)]
    assert main([*OPTIONS, *sealing, "--", *SHORT]) == Exit.OK
    table = capsys.readouterr().out
    report: dict[str, Any] = json.loads(file.read_text())
    assert report["command"] == SHORT
    assert report["measured_by"] == "repeated runs"
    assert report["scheduling"] == "SCHED_OTHER"
    assert report["machine"]["cores"] >= 1
    assert 0.0 < report["cpu_share"] <= 1.05
    (source,) = report["sources"]
    # which state depends on what else runs here
    assert source["stressor"] == "core"
    assert (source["score"] is not None) == (source["state"] == "measured")
    assert [line.split()[0] for line in table.splitlines()[:2]] == ["STRESSOR", "core"]
    assert report["digest"] in table
    assert "l1i (needs more machine code" in table

    assert main(["profile", "--verify", str(file), "--key", str(key)]) == Exit.OK
    assert "digest and signature match" in capsys.readouterr().err
    source["state"] = "measured"
    file.write_text(json.dumps(report))
    assert "the digest does not match" in refused(capsys, "--verify", str(file))


def test_files_of_the_copies_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write = "open('written', 'x'); sum(range(200_000))"  # fails if the file is there
    command = [*SHORT[:-1], write]
    assert main([*OPTIONS, "--sandbox", "--report", "report.json", "--", *command]) == Exit.OK
    report: dict[str, Any] = json.loads((tmp_path / "report.json").read_text())
    assert report["sandbox"] in {"copy-on-write", "empty directory"}  # as the account may
    assert (report["sandbox_note"] is None) == (report["sandbox"] == "copy-on-write")
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]
    assert report["sandbox"] in capsys.readouterr().out


def test_a_report_of_another_key_is_refused(
    tmp_path: Path, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from apps.profiling.core.report import seal  # noqa: PLC0415 - scipy is slow to import

    file = tmp_path / "report.json"
    file.write_text(json.dumps(seal({"command": []}, b"x" * 32)))
    assert "not of this key" in refused(capsys, "--verify", str(file), "--key", str(key))
    assert main(["profile", "--verify", str(file)]) == Exit.OK
    assert "berth: the digest matches" in capsys.readouterr().err


def test_bad_arguments_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short_key = tmp_path / "key"
    short_key.write_text("short")
    assert "name the command" in refused(capsys)
    assert "no stressor is named l1i" in refused(capsys, "--sources", "core,l1i", "--", *SHORT)
    assert "at least 32" in refused(capsys, "--key", str(short_key), "--", *SHORT)
    assert "--cpu" in refused(capsys, "--cpu", "100000", "--", *SHORT)
    assert "could not be started" in refused(capsys, "--no-fifo", "--", "/no/such/command")
    (tmp_path / "text").write_text("no JSON")
    assert "--verify" in refused(capsys, "--verify", str(tmp_path / "text"))


@pytest.mark.parametrize("window", ["0", "61", "long"])
def test_a_window_has_a_sensible_length(window: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["profile", "--window", window, "--", *SHORT])
    assert "--window" in capsys.readouterr().err
