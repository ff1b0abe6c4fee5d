"""What the command says of errors: exit codes, what is accepted, and what to try next."""

from typing import Any

import pytest

from controlplane.cli.audit import _change
from controlplane.cli.errors import _NEXT_OF, Exit, from_problem
from controlplane.cli.main import main, parser_for


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (401, "not_authenticated", Exit.AUTH),
        (403, "permission_denied", Exit.AUTH),
        (404, "not_found", Exit.NOT_FOUND),
        (409, "state_conflict", Exit.CONFLICT),
        (412, "precondition_failed", Exit.CONFLICT),
        (422, "infeasible_target", Exit.INFEASIBLE),
        (422, "invalid_input", Exit.FAILED),
        (422, "key_reused", Exit.CONFLICT),
        (504, "", Exit.TIMEOUT),
        (500, "internal_error", Exit.FAILED),
    ],
)
def test_every_problem_has_its_exit_code(status: int, code: str, expected: Exit) -> None:
    assert from_problem(status, {"code": code}, "").code is expected


def test_an_error_says_title_detail_fields_request_and_what_next() -> None:
    problem = {
        "title": "T", "detail": "D", "code": "not_found", "request_id": "r1",
        "errors": [{"pointer": "/a", "detail": "wrong"}],
    }  # fmt: skip
    assert from_problem(404, problem, "", "/api/v1/jobs/x/").text() == (
        "berth: T\n  D\n  /a: wrong\n  request id: r1\n  try: berth list"
    )


@pytest.mark.parametrize(
    ("status", "path", "command"),
    [
        (404, "/api/v1/jobs/x/explanation/", "berth list"),
        (404, "/api/v1/decisions/x/replay/", "berth why JOB"),
        (404, "/api/v1/shadows/x/", "berth shadow list"),
        (404, "/api/v1/preemptions/7/", "berth preemption list"),
        (404, "/api/v1/projects/x/", "berth projects list"),
        (404, "/api/v1/operations/x/", ""),
        (409, "/api/v1/jobs/x/cancel/", "berth get JOB"),
        (412, "/api/v1/policies/default/", "berth policy show"),
        (412, "/api/v1/placement-loop/", "berth loop show"),
        (409, "/api/v1/operations/x/cancel/", ""),
        (504, "/api/v1/plans/", ""),
    ],
)
def test_an_error_suggests_a_command_for_the_requested_resource(
    status: int, path: str, command: str
) -> None:
    assert from_problem(status, {}, "", path).next_command == command


@pytest.mark.parametrize(
    "command", sorted({text for known in _NEXT_OF.values() for text in known.values()})
)
def test_every_suggested_command_exists(command: str) -> None:
    words = command.split()[1:]
    assert callable(parser_for(words).parse_args(words).run)


def test_a_missing_role_does_not_suggest_login() -> None:
    assert from_problem(403, {"code": "permission_denied"}, "").next_command == "berth whoami"
    assert from_problem(401, {"code": "not_authenticated"}, "").next_command == "berth login"


def test_a_single_field_error_is_printed_once() -> None:
    error = {"pointer": "/tasks", "detail": "too low"}
    problem = {"title": "T", "detail": "/tasks: too low", "errors": [error]}
    assert from_problem(422, problem, "").text() == "berth: T\n  /tasks: too low"


def test_an_invalid_query_parameter_is_printed_once() -> None:
    sentence = "must be at most 500, not '1000'"
    error = {"pointer": "limit", "detail": sentence}
    problem = {"title": "T", "detail": f"limit {sentence}.", "errors": [error]}
    assert from_problem(400, problem, "").text() == f"berth: T\n  limit: {sentence}"


@pytest.mark.parametrize("verb", ["list", "servers"])
def test_a_limit_of_zero_is_refused(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([verb, "--limit", "0"])
    assert caught.value.code == Exit.USAGE
    assert "must be at least 1, not 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    [
        "submit -f",
        "check -f",
        "submit --app a --best-effort --files",
        "classify",
        "solve --weights 1,1,1",
        "front",
        "replay --servers 9",
        "replay trace.tsv --servers",
        "workload fit --out fit.json",
        "workload generate --out trace.jsonl",
        "lab run",
        "profile --verify",
    ],
)
def test_a_file_that_cannot_be_read_is_a_usage_error(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*line.split(), "/nowhere"]) == Exit.USAGE
    assert "/nowhere" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ({"state": "active"}, {"state": "draining"}, "state active > draining"),
        (None, {"last": "srv-0040", "labels": []}, "last set to srv-0040"),
        ({"projects": []}, {"projects": ["a", "b"]}, "projects set to a, b"),
        ({"labels": {"a": "1"}}, {"labels": {}}, "labels a=1 removed"),
        ({"units": 0, "on": False}, {"units": 3, "on": True}, "units 0 > 3, on False > True"),
        ({"note": None}, {"note": ""}, None),
    ],
)
def test_a_change_is_shown_in_plain_words(
    before: dict[str, Any] | None, after: dict[str, Any], text: str | None
) -> None:
    assert _change({"before": before, "after": after}) == text


TARGET = '{"kind": "completion_time", "seconds": 600}'
DURATION = "must be a number and a unit (ns, us, ms, s, min, m or h), such as 10min"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("list --limit abc", "--limit: must be a whole number of at least 1, not 'abc'"),
        ("plan list --limit 0", "--limit: must be at least 1, not 0"),
        ("fronts list --limit 0", "--limit: must be at least 1, not 0"),
        ("pref list --limit 0", "--limit: must be at least 1, not 0"),
        ("users list --limit 0", "--limit: must be at least 1, not 0"),
        (
            "submit --input 5Q",
            "--input: '5Q': must be a number and a unit (k, M, G, T, Ki, Mi, Gi or Ti), such as"
            " 64Gi",
        ),
        ("submit --within abc", f"--within: 'abc': {DURATION}"),
        ("submit --within 10d", f"--within: '10d': {DURATION}"),
        ("submit --within s", f"--within: 's': {DURATION}"),
        ("submit --guarantee a,b", "--guarantee: 'a,b': must be X,P, such as 0.8,0.01"),
        (
            "decision redecide x --set neighbours=abc",
            "--set: must look like PARAMETER=NUMBER, not 'neighbours=abc'",
        ),
        ("decision redecide x --target abc", f"--target: must be JSON such as {TARGET}: 'abc'"),
        ("shadow start random --set a", "--set: must look like PARAMETER=NUMBER, not 'a'"),
        (
            "shadow start random --share 0",
            "--share: must be a number from 0.001 to 1, not '0'",
        ),
        *(
            (f"submit --app a {option} {value}", f"{option}: must be a finite number, not {value}")
            for option in ("--max-cost", "--qps", "--ips")
            for value in ("nan", "inf")
        ),
        ("shadow start random --share 2", "--share: must be a number from 0.001 to 1, not '2'"),
        (
            "shadow start random --share nan",
            "--share: must be a number from 0.001 to 1, not 'nan'",
        ),
        ("shadow start random --share x", "--share: must be a number from 0.001 to 1, not 'x'"),
        ("quota set p --units x", "--units: must be a whole number of at least 0, not 'x'"),
        ("profile --window x", "--window: must be a number of seconds from 0.1 to 60, not 'x'"),
        (
            "agent run --server s --cores x",
            "--cores: 'x': must be numbers of cores, such as 0-3,8",
        ),
    ],
)
def test_an_error_of_an_option_says_what_is_accepted(
    line: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(line.split())
    assert caught.value.code == Exit.USAGE
    assert message in capsys.readouterr().err


def test_a_quota_below_zero_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["quota", "set", "vision", "--units", "-1"])
    assert caught.value.code == Exit.USAGE
    assert "must be at least 0" in capsys.readouterr().err
