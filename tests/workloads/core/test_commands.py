"""Commands of jobs: what they may hold, and what follows from them."""

from typing import Any

import pytest

from apps.common.core.errors import InvalidInputError
from apps.workloads.core.commands import MAX_ARGUMENTS, MAX_BYTES, application_of
from apps.workloads.core.spec import JobSpec, parse_job
from apps.workloads.core.targets import BestEffort, CompletionTime

SLEEP = ["sleep", "5"]


def parsed(**values: Any) -> JobSpec:
    return parse_job({"command": SLEEP, **values})


def problems(**values: Any) -> dict[str, str]:
    with pytest.raises(InvalidInputError) as raised:
        parsed(**values)
    return {problem.pointer: problem.code for problem in raised.value.problems}


def test_a_command_alone_is_a_job_of_one_unit_on_one_server() -> None:
    spec = parsed()
    assert (spec.command, spec.application, spec.target) == (("sleep", "5"), "sleep", BestEffort())
    assert (spec.units, spec.gang, spec.constraints.locality) == (1, True, "server")


def test_what_a_job_says_itself_is_kept() -> None:
    spec = parsed(
        application="nap",
        units=3,
        target={"kind": "completion_time", "seconds": 60},
        environment={"LANG": "C", "EMPTY": ""},
        working_directory="/srv/data",
    )
    assert (spec.application, spec.units) == ("nap", 3)
    assert spec.target == CompletionTime(60.0)
    assert spec.environment == {"LANG": "C", "EMPTY": ""}
    assert spec.working_directory == "/srv/data"
    assert not spec.copyable


def test_the_document_form_is_equivalent() -> None:
    document = {"spec": {"command": SLEEP, "environment": {"A": "1"}}}
    assert parse_job(document) == parsed(environment={"A": "1"})


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("/usr/bin/env",), "env"),
        (("python3", "/srv/train.py", "--fast"), "train.py"),
        (("python3.11", "-c", "print(1)"), "python3.11"),
        (("bash", "-c", "ls | wc"), "bash"),
        (("./run me!",), "run-me"),
        (("???",), "command"),
        (("/",), "command"),
        (("x" * 300,), "x" * 127),
    ],
)
def test_an_application_is_named_after_its_program(command: tuple[str, ...], name: str) -> None:
    assert application_of(command) == name
    assert parse_job({"command": list(command)}).application == name


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"command": "sleep 5"}, {"/command": "wrong_type"}),
        ({"command": ["sleep", 5]}, {"/command": "wrong_type"}),
        ({"command": []}, {"/command": "wrong_count"}),
        ({"command": ["x"] * (MAX_ARGUMENTS + 1)}, {"/command": "wrong_count"}),
        ({"command": [""]}, {"/command/0": "required"}),
        ({"command": ["x", "a\0b"]}, {"/command": "bad_characters"}),
        ({"command": ["x", "\ud800"]}, {"/command": "bad_characters"}),
        ({"command": ["x" * MAX_BYTES]}, {"/command": "too_long"}),
    ],
)
def test_a_wrong_command_is_named(values: dict[str, Any], found: dict[str, str]) -> None:
    application = {"application": "a", "target": {"kind": "best_effort"}}
    assert problems(**application, **values) == found


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"environment": ["A=1"]}, {"/environment": "wrong_type"}),
        ({"environment": {"1A": "x"}}, {"/environment/1A": "bad_characters"}),
        ({"environment": {"A=B": "x"}}, {"/environment/A=B": "bad_characters"}),
        ({"environment": {"BERTH_TOKEN": "x"}}, {"/environment/BERTH_TOKEN": "reserved"}),
        ({"environment": {"A": 1}}, {"/environment/A": "wrong_type"}),
        ({"environment": {"A": "\0"}}, {"/environment": "bad_characters"}),
        ({"working_directory": "data"}, {"/working_directory": "bad_path"}),
        ({"working_directory": 7}, {"/working_directory": "wrong_type"}),
        ({"target": {"kind": "ips", "ips": 1e9}}, {"/target": "contradiction"}),
        ({"copyable": "yes"}, {"/copyable": "wrong_type"}),
        ({"gang": False}, {"/gang": "contradiction"}),
        ({"tasks": 8}, {"/tasks": "contradiction"}),
        ({"input_bytes": 1}, {"/input_bytes": "contradiction"}),
        ({"constraints": {"locality": "rack"}}, {"/constraints": "contradiction"}),
        ({"constraints": {"locality": "switch"}}, {"/constraints": "contradiction"}),
        ({"constraints": {"spread": "server"}}, {"/constraints": "contradiction"}),
    ],
)
def test_what_contradicts_a_command_is_named(
    values: dict[str, Any], found: dict[str, str]
) -> None:
    assert problems(**values) == found


@pytest.mark.parametrize("name", ["environment", "working_directory", "copyable"])
def test_only_a_command_has_an_environment_a_directory_and_copies(name: str) -> None:
    value = {"environment": {"A": "1"}, "working_directory": "/srv", "copyable": True}[name]
    emulated = {"command": None, "application": "a", "target": {"kind": "best_effort"}}
    assert problems(**emulated, **{name: value}) == {f"/{name}": "contradiction"}


def test_a_job_without_a_command_still_needs_application_and_target() -> None:
    assert problems(command=None) == {"/application": "required", "/target": "required"}


def test_a_job_names_the_account_of_its_command() -> None:
    assert parsed(user="berth-jobs").user == "berth-jobs"
    assert parsed(user=None).user is None


@pytest.mark.parametrize(
    ("user", "code"),
    [("root", "reserved"), ("Root", "bad_characters"), ("-x", "bad_characters"),
     ("a:b", "bad_characters"), ("a" * 33, "bad_characters"), ("", "bad_characters"),
     (0, "bad_characters")],
)  # fmt: skip
def test_a_wrong_account_is_named(user: object, code: str) -> None:
    assert problems(user=user) == {"/user": code}


def test_a_progress_command_runs_every_half_minute_unless_its_job_says_otherwise() -> None:
    spec = parsed(progress_command=["cat", "log"])
    assert (spec.progress_command, spec.progress_every_s) == (("cat", "log"), 30.0)
    assert parsed(progress_command=["x"], progress_every_seconds=5).progress_every_s == 5.0
    assert parsed().progress_every_s is None


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"progress_command": "cat"}, {"/progress_command": "wrong_type"}),
        ({"progress_command": []}, {"/progress_command": "wrong_count"}),
        ({"progress_command": ["x"], "progress_every_seconds": 0.5},
         {"/progress_every_seconds": "too_low"}),
        ({"progress_every_seconds": 5}, {"/progress_every_seconds": "contradiction"}),
        ({"progress_command": ["x"], "command": None, "application": "a",
          "target": {"kind": "best_effort"}}, {"/progress_command": "contradiction"}),
    ],
    ids=["text", "empty", "often", "alone", "no command"],
)  # fmt: skip
def test_a_wrong_progress_command_is_named(values: dict[str, Any], found: dict[str, str]) -> None:
    assert problems(**values) == found
