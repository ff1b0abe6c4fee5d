"""The parts of the berth command that need no server."""

import json
import socket
import stat
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import yaml

from apps.workloads.api.spec_serializers import SCOPES as JOB_SCOPES
from apps.workloads.api.spec_serializers import ConstraintsSerializer, JobSpecSerializer
from controlplane.cli.check import _predicted
from controlplane.cli.config import Config, load_config, save_config
from controlplane.cli.errors import CliError, Exit
from controlplane.cli.job_options import read_job
from controlplane.cli.jobfile import seconds, size
from controlplane.cli.jobs import _why_table
from controlplane.cli.main import main, parser_for
from controlplane.cli.output import columns, duration, render, start_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10ms", 0.01),
        ("90", 90.0),
        ("5min", 300.0),
        ("5m", 300.0),
        ("1.5h", 5400.0),
        ("2us", 2e-6),
    ],
)
def test_durations_are_parsed(text: str, expected: float) -> None:
    assert seconds(text) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("seconds_late", "text"), [(-7200.0, "-2.0 h"), (-90.0, "-1.5 min"), (-4.0, "-4 s")]
)
def test_early_starts_have_the_units_of_late_ones(seconds_late: float, text: str) -> None:
    assert duration(seconds_late) == text
    assert duration(-seconds_late) == text.removeprefix("-")


@pytest.mark.parametrize("text", ["", "ms", "10 parsecs", "10d", "x"])
def test_invalid_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        seconds(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1048576", 1 << 20),
        ("64Mi", 64 << 20),
        ("64MiB", 64 << 20),
        ("2GB", 2 * 10**9),
        ("1k", 1000),
    ],
)
def test_sizes_are_parsed(text: str, expected: int) -> None:
    assert size(text) == expected


@pytest.mark.parametrize("text", ["", "G", "inf", "1e400", "nan", "5 parsecs"])
def test_invalid_sizes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        size(text)


OPTIONS: dict[str, Any] = dict.fromkeys(
    ["file", "app", "name", "project", "tasks", "units", "priority", "input", "label", "within",
     "p99", "qps", "ips", "policy", "sample_size", "guarantee", "max_cost", "exclude", "command",
     "env", "chdir", "files", "user", "copyable", "progress", "progress_every", "kind", "duration",
     "gang", "hold", "platforms", "server_label", "locality", "spread", "unit_memory",
     "unit_network", "unit_storage"]
)  # fmt: skip


def options(**values: Any) -> Namespace:
    return Namespace(**{**OPTIONS, "best_effort": False, **values})


def test_options_make_a_job() -> None:
    job = read_job(options(app="memcached", p99=0.01, qps=2e4, label=["team=ml"]))
    assert job == {
        "application": "memcached",
        "labels": {"team": "ml"},
        "target": {
            "kind": "throughput_latency", "qps": 2e4, "latency_seconds": 0.01, "percentile": 99,
        },
    }  # fmt: skip


EVERY_OPTION = """
check --app a --kind analytics --name n --project p --label l=1 --input 1Ki --tasks 2 --units 3
--priority 4 --duration 5s --no-gang --hold --env E=1 --chdir /d --files {files} --progress tick
--progress-every 6s --user u --copyable --within 7s --max-cost 8 --platforms A,B
--server-label disk=ssd --locality rack --spread server --exclude s,t --unit-memory 2Ki
--unit-network 9 --unit-storage 10 --policy random --sample-size 11 --guarantee 0.8,0.01 -- run me
"""


def test_every_field_of_a_submission_has_an_option(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    argv = EVERY_OPTION.format(files=tmp_path).split()
    job = read_job(parser_for(argv).parse_args(argv))
    metadata = {"name", "project", "labels"}
    assert job.keys() - metadata == JobSpecSerializer().fields.keys()
    assert job["constraints"].keys() == ConstraintsSerializer().fields.keys()
    assert job["gang"] is False
    assert job["held"] is True
    assert [job[f"unit_{each}"] for each in ("memory_bytes", "network_bps")] == [2048, 9]


@pytest.mark.parametrize("option", ["--locality", "--spread"])
@pytest.mark.parametrize("scope", [value for value, _ in JOB_SCOPES])
def test_a_scope_of_the_api_is_one_of_the_command(option: str, scope: str) -> None:
    argv = ["submit", "--app", "a", option, scope]
    job = read_job(parser_for(argv).parse_args(argv))
    assert job["constraints"] == {option.removeprefix("--"): scope}


@pytest.mark.parametrize("option", ["--locality", "--spread", "--kind"])
def test_an_unknown_choice_is_a_usage_error(option: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        parser_for(["submit"]).parse_args(["submit", option, "planet"])


@pytest.mark.parametrize("text", ['{"application": "a"}', "application: a\n"])
def test_options_override_the_file(text: str, tmp_path: Path) -> None:
    path = tmp_path / "job"
    path.write_text(text)
    assert read_job(options(file=str(path), tasks=3)) == {"application": "a", "tasks": 3}


def test_options_override_metadata_and_spec(tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    path.write_text('{"metadata": {"name": "n"}, "spec": {"application": "a"}}')
    assert read_job(options(file=str(path), tasks=3, name="m")) == {
        "metadata": {"name": "m"},
        "spec": {"application": "a", "tasks": 3},
    }


@pytest.mark.parametrize(
    "fields",
    [{}, {"qps": 1.0}, {"ips": 1.0, "within": 1.0}, {"label": ["x"]}, {"file": "/nowhere/at/all"}],
)
def test_an_invalid_job_is_a_usage_error(fields: dict[str, Any]) -> None:
    with pytest.raises(CliError) as caught:
        read_job(options(**fields))
    assert caught.value.code is Exit.USAGE


@pytest.mark.parametrize("text", ["[1]", "{", "a: [", "x"])
def test_a_broken_file_is_a_usage_error(text: str, tmp_path: Path) -> None:
    path = tmp_path / "job"
    path.write_text(text)
    with pytest.raises(CliError) as caught:
        read_job(options(file=str(path)))
    assert caught.value.code is Exit.USAGE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"\xff\xfe\0", "is not text in UTF-8"),
        (b'{"spec": "x"}', "spec of .* must be an object"),
        (b'{"metadata": null, "spec": {}}', "metadata of .* must be an object"),
    ],
)
def test_a_file_of_another_kind_is_a_usage_error(
    text: bytes, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "job"
    path.write_bytes(text)
    with pytest.raises(CliError, match=message) as caught:
        read_job(options(file=str(path), name="n"))
    assert caught.value.code is Exit.USAGE


def test_a_date_in_yaml_is_text(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("labels: {since: 2026-01-31, at: 2026-01-31T08:00:00Z}\n")
    labels = {"since": "2026-01-31", "at": "2026-01-31T08:00:00Z"}
    assert read_job(options(file=str(path))) == {"labels": labels}


def test_an_open_quote_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        parser_for(["submit"]).parse_args(["submit", "--progress", "it's", "--", "x"])
    assert '--progress: "it\'s": No closing quotation' in capsys.readouterr().err


@pytest.mark.parametrize(
    "url", ["http://host:port", "http://[::1", "http://:80", "http://h:99999"]
)
def test_an_invalid_address_is_a_usage_error(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--url", url]) == Exit.USAGE
    assert f"must be http://HOST or http://HOST:PORT, not {url!r}" in capsys.readouterr().err


def test_what_no_header_can_hold_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        for token in ("t\u2013", "a\nb"):
            monkeypatch.setenv("BERTH_TOKEN", token)
            assert main(["list", "--url", url]) == Exit.USAGE
            assert "the request cannot be sent" in capsys.readouterr().err


def test_the_place_of_the_configuration_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "berth").write_text("no directory")
    with pytest.raises(CliError, match=r"cannot write .*config\.json"):
        save_config({"XDG_CONFIG_HOME": str(tmp_path)}, Config("http://a", "t"))


VALUE = {
    "a": [1, {"b": None, "c": []}, [True, "x: y"]],
    "d": {},
    "e": "line\nbreak",
    "f": 1.5,
}


@pytest.mark.parametrize(("how", "parse"), [("yaml", yaml.safe_load), ("json", json.loads)])
def test_json_and_yaml_output_can_be_parsed(how: str, parse: Any) -> None:
    assert parse(render(VALUE, how, "")) == VALUE


def test_tables_are_aligned() -> None:
    table = columns(("ID", "STATE"), [("a", None), ("long", 0.123456)])
    assert table == "ID    STATE\na     -\nlong  0.123"


def test_an_empty_table_says_so() -> None:
    assert columns(("ID",), []) == "Nothing found."


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "0 s"),
        (0.000463, "463 us"),
        (0.00099996, "1 ms"),
        (0.0123, "12.3 ms"),
        (0.09996, "0.1 s"),
        (0.5, "0.5 s"),
        (90.0, "1.5 min"),
        (7200.0, "2.0 h"),
    ],
)
def test_durations_are_formatted(value: float | None, text: str) -> None:
    assert duration(value) == text


def test_the_help_keeps_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "130 interrupted\nenvironment: BERTH_URL" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ("completion_time", "1.5 min (90% interval 1.0 min to 2.0 min)"),
        ("ips", "90 ips (90% interval 60 ips to 120 ips)"),
    ],
)
def test_a_check_predicts_in_the_unit_of_the_target(kind: str, shown: str) -> None:
    assert _predicted({"value": 90.0, "low": 60.0, "high": 120.0}, kind) == shown


def test_a_check_predicts_best_effort_in_shares_of_the_work() -> None:
    shown = _predicted({"value": 0.01, "low": 0.008, "high": 0.0125}, "best_effort")
    assert shown == (
        "36 times its work per hour (90% interval 28.8 times its work per hour"
        " to 45 times its work per hour)"
    )


@pytest.mark.parametrize("kind", ["ips", "completion_time", "best_effort"])
def test_a_prediction_without_an_interval_is_shown_alone(kind: str) -> None:
    alone = _predicted({"value": 90.0, "low": None, "high": None}, kind)
    whole = _predicted({"value": 90.0, "low": 60.0, "high": 120.0}, kind)
    assert alone is not None
    assert whole is not None
    assert whole.startswith(f"{alone} (90% interval ")


@pytest.mark.parametrize(
    ("p50", "p90", "shown"),
    [
        (60.0, 120.0, "in 1.0 min (p50), 2.0 min (p90)"),
        (60.0, None, "in 1.0 min (p50), unknown (p90)"),
        (None, None, "unknown"),
    ],
)
def test_a_start_that_cannot_be_predicted_is_unknown(
    p50: float | None, p90: float | None, shown: str
) -> None:
    assert start_text({"p50_seconds": p50, "p90_seconds": p90}) == shown


REFUSED: dict[str, Any] = {
    "summary": "Not placed.",
    "reason": None,
    "decision": {
        "id": "d", "policy": "tarcil", "policy_version": 1, "snapshot": 0, "seed": 0,
        "sample": {"elapsed_seconds": 0.0, "units_examined": 0},
        "guarantee": {"statement": "P(best of 0 ...) = 1", "assumption": "uniform"},
    },
}  # fmt: skip


def test_a_decision_without_examined_units_has_no_guarantee() -> None:
    assert "best of" not in _why_table(REFUSED)


@pytest.mark.parametrize(
    ("units", "shown"),
    [
        (1, "  1 unit is reserved for it, free by day 65, 02:44 of cluster time at the latest"),
        (1234, "  1,234 units are reserved for it, "),
    ],
)
def test_reserved_units_are_counted(units: int, shown: str) -> None:
    reason = {"code": "c", "tier": 7, "sentence": "s", "message": "", "also": [],
              "next_action": "n"}  # fmt: skip
    kept = {"units": units, "start_seconds": 5_539_455.0}
    assert shown in _why_table({**REFUSED, "reason": reason, "reservation": kept})


@pytest.mark.parametrize(
    ("predicted", "ceiling", "shown"),
    [
        ({"cost": 1234.4}, 2000.0, ["  predicted cost: 1,234 of at most 2,000 unit-seconds"]),
        ({}, 2000.0, ["  cost: at most 2,000 unit-seconds"]),
        ({"cost": 1234.4}, None, []),
    ],
)
def test_a_cost_is_shown_beside_its_ceiling(
    predicted: dict[str, float], ceiling: float | None, shown: list[str]
) -> None:
    decision = {**REFUSED["decision"], "predicted": predicted}
    lines = _why_table({**REFUSED, "decision": decision}, ceiling).splitlines()
    assert [line for line in lines if "cost" in line] == shown


def test_candidates_are_shown_by_their_predictions_and_smallest_headroom() -> None:
    predicted = {"speed": 0.5, "own": 0.9, "neighbours": 0.99, "busy": 0.25}
    candidate = {"server": "s1", "verdict": "chosen", "quality": None, "closeness": 0.7}
    rest = {**candidate, "server": "s2", "verdict": "outranked", "expected": None}
    results = [
        {**candidate, "headroom": [30.0, None, -2.5], "expected": predicted},
        {**rest, "headroom": None},
    ]
    shown = _why_table({**REFUSED, "candidates": {"columns": [], "results": results}})
    assert [line.split() for line in shown.splitlines()[-3:]] == [
        ["SERVER", "VERDICT", "CLOSENESS", "SPEED", "OWN", "NEIGHBOURS", "BUSY", "HEADROOM"],
        ["s1", "chosen", "0.7", "0.5", "0.9", "0.99", "0.25", "-2.5"],
        ["s2", "outranked", "0.7", "-", "-", "-", "-", "-"],
    ]


def test_a_refusal_by_the_quota_shows_no_policy() -> None:
    decision = {"id": "d", "reason": "QuotaExceeded", "sample": None, "guarantee": None}
    lines = _why_table({**REFUSED, "decision": decision}).splitlines()
    assert lines[-1] == "Decision d by the quota of the project, before a policy examined any unit"


def test_options_override_the_environment_and_the_environment_the_file(tmp_path: Path) -> None:
    home = {"XDG_CONFIG_HOME": str(tmp_path)}
    save_config(home, Config("http://kept", "t0"))
    assert load_config(home) == Config("http://kept", "t0")
    assert load_config({**home, "BERTH_URL": "http://env", "BERTH_TOKEN": "t1"}) == Config(
        "http://env", "t1"
    )
    assert load_config({**home, "BERTH_URL": "http://env"}, "http://opt/").url == "http://opt"


def test_a_stored_token_is_sent_only_to_its_server(tmp_path: Path) -> None:
    home = {"XDG_CONFIG_HOME": str(tmp_path)}
    save_config(home, Config("http://kept", "t0"))
    assert load_config(home, "http://other").token is None


def test_the_configuration_is_readable_only_by_its_owner(tmp_path: Path) -> None:
    path = save_config({"XDG_CONFIG_HOME": str(tmp_path)}, Config("http://kept", "t0"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_damaged_configuration_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "berth" / "config.json"
    path.parent.mkdir()
    path.write_text("{")
    with pytest.raises(CliError, match="cannot read"):
        load_config({"XDG_CONFIG_HOME": str(tmp_path)})


def test_an_unknown_verb_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["dance"])
    assert caught.value.code == Exit.USAGE
    assert "invalid choice" in capsys.readouterr().err


def test_an_unreachable_server_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["whoami", "--url", "http://127.0.0.1:1"]) == Exit.FAILED
    assert "cannot reach http://127.0.0.1:1" in capsys.readouterr().err


def test_a_noun_without_a_verb_lists_its_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["loop"])
    assert "{show,set}" in capsys.readouterr().err


def test_reverting_weights_requires_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["pref", "revert", "-m", " "])
    assert "give a reason" in capsys.readouterr().err
