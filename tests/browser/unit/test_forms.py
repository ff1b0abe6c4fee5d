"""Validation errors at fields, and the submit page's documents and programs."""

import ast
import json
import shlex
from typing import Any

import pytest

from tests.browser.unit.conftest import Script

FORM = """
    document.body.innerHTML = `<form><details><div class="field">
        <input id="units" data-pointer="/spec/units"></div></details>
        <div class="field"><input id="name" data-pointer="/metadata/name"></div></form>`;
    const { clearProblems, showProblems } = await load("fields.js");
    const form = document.querySelector("form");
    const unplaced = showProblems(form, argument);
"""


def test_an_error_is_shown_at_its_field_which_is_opened_and_focused(js: Script) -> None:
    script = (
        FORM
        + """return [unplaced, document.getElementById("units-error").textContent,
        document.activeElement.id, document.querySelector("details").open,
        document.getElementById("units").getAttribute("aria-describedby")];"""
    )
    error = {"pointer": "/spec/units", "detail": "At most 8.", "suggestion": 8}
    assert js(script, [error]) == [
        [],
        "At most 8. Nearest valid value: 8.",
        "units",
        True,
        "units-error",
    ]


def test_editing_a_field_removes_its_error_and_keeps_its_hint(js: Script) -> None:
    script = """
        document.body.innerHTML = `<form><div class="field"><label for="f">Size</label>
            <input id="f" data-pointer="/spec/units" aria-describedby="h"><span id="h">Hint</span>
            </div></form>`;
        const { showProblems } = await load("fields.js");
        const field = document.getElementById("f");
        showProblems(document.querySelector("form"), argument);
        const marked = [field.getAttribute("aria-describedby"), field.ariaInvalid];
        field.dispatchEvent(new Event("input", { bubbles: true }));
        return [marked, field.getAttribute("aria-describedby"), field.ariaInvalid,
            document.querySelectorAll(".error").length];"""
    error = {"pointer": "/spec/units", "code": "too_low", "detail": "must be at least 1, not 0"}
    assert js(script, [error]) == [["h f-error", "true"], "h", None, 0]


LINES = """
    document.body.innerHTML = `<form>
        <div class="field"><label for="l">Latency</label>
            <input id="l" data-pointer="/spec/target/latency_seconds" data-scale="0.001"></div>
        <label class="chk-row"><input type="checkbox" id="g" data-pointer="/spec/gang"> Gang
        </label>
        </form>`;
    const { problemLine } = await load("fields.js");
    return argument.map((error) => problemLine(document.querySelector("form"), error));
"""


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            {"pointer": "/spec/gang", "code": "wrong_type", "detail": "must be true or false"},
            "Gang: must be true or false",
        ),
        (
            {
                "pointer": "/spec/target/latency_seconds",
                "code": "too_low",
                "detail": "must be at least 1e-09, not -0.01",
            },
            "Latency: must be at least 0.000001, not -10",
        ),
        (
            {
                "pointer": "/spec/target/latency_seconds",
                "code": "wrong_type",
                "detail": "must be a number, not '10ms'",
            },
            "Latency: must be a number, not '10ms'",
        ),
        (
            {
                "pointer": "/spec/target/latency_seconds",
                "code": "required",
                "detail": "a throughput_latency target needs latency_seconds",
            },
            "Latency: a value is required",
        ),
        (
            {"pointer": "/spec/a~1b/0", "code": "unknown_field", "detail": "not known"},
            "spec, a/b, 1: not known",
        ),
        ({"pointer": "", "code": "wrong_type", "detail": "a job must be an object"},
         "a job must be an object"),
    ],
    ids=["checkbox", "scaled", "text", "required", "no-field", "whole"],
)  # fmt: skip
def test_an_error_is_told_with_the_label_and_the_unit_of_its_field(
    js: Script, error: dict[str, str], line: str
) -> None:
    assert js(LINES, [error]) == [line]


RANGED = """
    document.body.innerHTML = `<form><div class="field"><label for="t">Top</label>
        <input id="t" value="150" data-pointer="/spec/guarantee/rank_threshold"
            data-range="more than 0 and less than 100"></div>
        <div class="field"><label for="i">Input</label>
            <input id="i" data-pointer="/spec/input_bytes" data-scale="1e9"></div>
        <div class="field"><label for="s">Spread</label>
            <input id="s" data-pointer="/spec/constraints/spread"></div></form>`;
    const { problemLine } = await load("fields.js");
    return argument.map((error) => problemLine(document.querySelector("form"), error));
"""


def test_errors_use_the_words_of_a_form(js: Script) -> None:
    threshold = {"pointer": "/spec/guarantee/rank_threshold", "code": "too_low", "detail": "-0.5"}
    whole = {"pointer": "/spec/guarantee", "code": "contradiction", "detail": "needs R = 90"}
    size = {"pointer": "/spec/input_bytes", "code": "wrong_type"}
    size["detail"] = "must be a whole number, not 'x'"
    spread = {"pointer": "/spec/constraints/spread", "code": "contradiction"}
    spread["detail"] = "must be null while locality is server"
    part = {"pointer": "/spec", "code": "wrong_type", "detail": "must be an object"}
    assert js(RANGED, [threshold, whole, size, spread, part]) == [
        "Top: must be more than 0 and less than 100, not 150",
        "Top: needs R = 90",
        "Input: must be a number, not 'x'",
        "Spread: must be empty while locality is server",
        "spec: must be an object",
    ]


def test_an_error_below_a_field_belongs_to_it_and_others_are_returned(js: Script) -> None:
    script = FORM + "return [unplaced.map((error) => error.pointer), form.innerText.trim()];"
    errors = [
        {"pointer": "/metadata/name/0", "detail": "Too long."},
        {"pointer": "/metadata/names", "detail": "Unknown."},
    ]
    unplaced, text = js(script, errors)
    assert unplaced == ["/metadata/names"]
    assert text == "Too long."


def test_only_the_first_of_two_errors_of_a_field_is_shown_and_clearing_removes_it(
    js: Script,
) -> None:
    script = (
        FORM
        + """const shown = form.querySelectorAll(".error").length;
        clearProblems(form);
        const rest = form.querySelectorAll(".error, [aria-invalid], [aria-describedby]");
        return [shown, rest.length];"""
    )
    error = {"pointer": "/metadata/name", "detail": "Missing."}
    assert js(script, [error, error]) == [1, 0]


def test_no_errors_change_nothing(js: Script) -> None:
    assert js(FORM + "return [unplaced, form.querySelectorAll('.error').length];", None) == [[], 0]


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("", {}),
        ("  ", {}),
        ("a=1 b", {"a": "1", "b": ""}),
        ("a=1\na=2", {"a": "2"}),
        ("url=a=b=c", {"url": "a=b=c"}),
        ('note="nightly run" b=2', {"note": "nightly run", "b": "2"}),
        ('a="b', {"a": '"b'}),
        ("=1", {"": "1"}),
    ],
)
def test_labels_are_parsed(js: Script, text: str, labels: dict[str, str]) -> None:
    script = "const m = await load('submit/form.js'); return m.parseLabels(argument);"
    assert js(script, text) == labels


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        ({}, ""),
        ({"team": "ml", "empty": ""}, "team=ml empty="),
        ({"note": "nightly run", "url": "a=b"}, 'note="nightly run" url=a=b'),
        ({"path": r"C:\x", "size": '3"'}, r'path=C:\x size=3"'),
        ({"say": '"no"', "both": '\\ and "'}, r'say="\"no\"" both="\\ and \""'),
    ],
)
def test_labels_are_written_as_they_are_parsed(
    js: Script, labels: dict[str, str], text: str
) -> None:
    script = """const m = await load("submit/form.js");
        const text = m.labelText(argument);
        return [text, m.parseLabels(text)];"""
    assert js(script, labels) == [text, labels]


BODY: dict[str, Any] = {
    "metadata": {"name": "it's true"},
    "spec": {"gang": True, "held": False, "input_bytes": None, "note": 'say "null"\\'},
}
PROGRAM = """const m = await load("submit/programs.js");
    return m[argument.name](argument.body, { host: "http://host", key: "k-1" });"""


def test_the_curl_program_sends_the_document_unchanged(js: Script) -> None:
    words = shlex.split(js(PROGRAM, {"name": "curlProgram", "body": BODY}))
    assert words[:4] == ["curl", "-X", "POST", "http://host/api/v1/jobs/"]
    assert "Idempotency-Key: k-1" in words
    assert json.loads(words[words.index("-d") + 1]) == BODY


def test_programs_send_a_document_with_an_array_to_the_arrays(js: Script) -> None:
    body = BODY | {"array": {"indexes": "0-9"}}
    words = shlex.split(js(PROGRAM, {"name": "curlProgram", "body": body}))
    assert words[3] == "http://host/api/v1/arrays/"
    program = js(PROGRAM, {"name": "pythonProgram", "body": body})
    assert '"http://host/api/v1/arrays/"' in program
    assert program.endswith('print(response.json()["id"])')


def test_the_python_program_is_valid_and_holds_the_document(js: Script) -> None:
    tree = ast.parse(js(PROGRAM, {"name": "pythonProgram", "body": BODY}))
    values = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "job"
    ]
    assert [ast.literal_eval(value) for value in values] == [BODY]


def test_the_command_line_program_holds_the_document_and_the_key(js: Script) -> None:
    program = js(PROGRAM, {"name": "cliProgram", "body": BODY})
    document = program.split("<<'EOF'\n")[1].split("\nEOF\n")[0]
    assert json.loads(document) == BODY
    assert program.endswith("berth submit -f job.json --key k-1")


def test_equal_candidates_that_follow_each_other_are_merged(js: Script) -> None:
    script = "const m = await load('submit/result.js'); return m.mergeEqual(argument);"

    def candidate(server: str, closeness: float) -> dict[str, Any]:
        return {"server": server, "verdict_text": "ranked lower", "closeness": closeness}

    rows = [candidate("a", 1), candidate("a", 1), candidate("a", 2), candidate("b", 2)]
    merged = js(script, [*rows, candidate("a", 1)])
    assert [(row["server"], row["units"]) for row in merged] == [
        ("a", 2),
        ("a", 1),
        ("b", 1),
        ("a", 1),
    ]
    assert js(script, []) == []


CHECK = {
    "outcome": "waits", "summary": "The job would wait.", "next_action": "Wait.", "known": True,
    "units": 1, "servers": [], "platforms": [], "probability_met": None, "units_eligible": 1,
    "units_examined": 1, "snapshot": 7, "predicted": None, "candidates": [], "dropped": {},
    "guarantee": {"statement": "The only eligible unit was examined"},
    "suggestions": [{"text": "completion within 9 s", "target": {}}],
    "start": {"p50_seconds": None, "p90_seconds": None},
}  # fmt: skip


def test_a_check_tells_start_guarantee_and_suggestions_in_words(js: Script) -> None:
    script = """
        const { resultSections } = await load("submit/result.js");
        document.body.append(...resultSections(argument, { target: { kind: "ips" } }, () => {}));
        const lists = [...document.querySelectorAll("dl")].map((one) => one.textContent);
        return [lists.join(), document.querySelector("button").textContent];"""
    facts, button = js(script, CHECK)
    assert "Startsunknown: the time when units become free cannot be predicted" in facts
    assert "GuaranteeThe only eligible unit was examined" in facts
    assert button == "Set target: completion within 9 s"


RATED = {"quality": 0.8, "target": 0.7, "closeness": 0.9}
UNRATED = {"quality": None, "target": None, "closeness": -0.2}


@pytest.mark.parametrize(
    ("examined", "title"), [(124, "The best 2 of 124 units examined"), (2, "Candidates")]
)
def test_the_title_of_candidates_says_how_many_were_examined(
    js: Script, examined: int, title: str
) -> None:
    script = """
        const { resultSections } = await load("submit/result.js");
        document.body.append(...resultSections(argument, { target: { kind: "ips" } }, () => {}));
        return [...document.querySelectorAll("h3")].map((one) => one.textContent);"""
    unit = {"server": "s-1", "verdict": "chosen", "verdict_text": "chosen", **UNRATED}
    check = {**CHECK, "candidates": [unit] * 2, "units_examined": examined}
    assert js(script, check)[-1] == title


@pytest.mark.parametrize(
    ("scores", "head", "values"),
    [
        (RATED, ["Quality", "Needs", "Match"], ["0.800", "0.700", "0.900"]),
        (UNRATED, ["Score"], ["-0.200"]),
    ],
    ids=["rated", "unrated"],
)
def test_candidates_have_columns_only_for_what_the_policy_computes(
    js: Script, scores: dict[str, Any], head: list[str], values: list[str]
) -> None:
    script = """
        const { candidateTable } = await load("submit/result.js");
        const box = candidateTable(argument);
        const texts = (cells) => [...cells].map((cell) => cell.textContent);
        return [texts(box.querySelectorAll("th")), texts(box.querySelectorAll("tbody td"))];"""
    candidate = {"server": "a", "verdict": "outranked", "verdict_text": "ranked lower", **scores}
    assert js(script, [candidate]) == [
        ["Server", "Units", *head, "Verdict"],
        ["a", "1", *values, "ranked lower"],
    ]


def test_a_table_of_some_of_the_candidates_names_no_numbers_of_units(js: Script) -> None:
    script = """
        const { candidateTable } = await load("submit/result.js");
        const box = candidateTable(argument, true);
        return [...box.querySelectorAll("th, td")].map((cell) => cell.textContent);"""
    candidate = {"server": "a", "verdict": "outranked", "verdict_text": "lower", **UNRATED}
    found = js(script, [candidate, candidate])
    assert found == ["Server", "Score", "Verdict", "a", "-0.200", "lower"]


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("ips", 2.5e9, "2.5 G instr./s"),
        ("ips", 1234, "1,230 instr./s"),
        ("best_effort", 0.001, "3.6 of the work per hour"),
        ("completion_time", 0.25, "250 ms"),
        ("completion_time", 119, "1 min 59 s"),
        ("completion_time", 120, "2 min"),
    ],
)
def test_performance_has_the_unit_of_its_kind_of_target(
    js: Script, kind: str, value: float, text: str
) -> None:
    script = "const m = await load('performance.js'); return m.performanceText(...argument);"
    assert js(script, [kind, value]) == text


@pytest.mark.parametrize(
    ("estimate", "unit", "text"),
    [
        (None, "seconds", "–"),
        ({"value": 90}, "seconds", "1 min 30 s"),
        ({"value": 5e6}, "instructions/s", "5 M instr./s"),
        ({"value": 0.001}, "share of the work/s", "3.6 of the work per hour"),
    ],
)
def test_estimates_have_the_unit_that_the_api_names(
    js: Script, estimate: dict[str, float] | None, unit: str, text: str
) -> None:
    script = "const m = await load('performance.js'); return m.estimateText(...argument);"
    assert js(script, [estimate, unit]) == text
