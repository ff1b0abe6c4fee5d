"""The text of an API error."""

from typing import Any

import pytest

from tests.browser.unit.conftest import Script

TEXT = """
    const { fullProblemText } = await load("notices.js");
    return fullProblemText(argument);
"""
LOW = {"pointer": "/cells/0/value", "detail": "must be at least 0, not -1"}
HIGH = {"pointer": "/cells/1/value", "detail": "must be at most 100, not 101"}
TITLE = {"title": "Invalid input"}


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (
            {**TITLE, "detail": "/cells/0/value: must be at least 0, not -1", "errors": [LOW]},
            "Invalid input: value: must be at least 0, not -1",
        ),
        (
            {**TITLE, "detail": "2 fields are invalid", "errors": [LOW, HIGH]},
            "Invalid input: 2 fields are invalid; must be at least 0, not -1;"
            " must be at most 100, not 101",
        ),
        (
            {**TITLE, "detail": "Too late.", "request_id": "r1"},
            "Invalid input: Too late. (request r1)",
        ),
        ({**TITLE, "errors": [LOW]}, "Invalid input; must be at least 0, not -1"),
        (
            {
                **TITLE,
                "detail": "/: a job must be an object",
                "errors": [{"pointer": "", "detail": "a job must be an object"}],
            },
            "Invalid input: a job must be an object",
        ),
    ],
)
def test_every_problem_of_a_field_is_told_once(
    problem: dict[str, Any], text: str, js: Script
) -> None:
    assert js(TEXT, problem) == text
