"""docs/api.md names every verb of the berth command."""

import json
import re
import shlex
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.common.core.keyed_requests import body_digest
from controlplane.cli.job_options import read_job
from controlplane.cli.main import parser_for

DOCUMENT = Path(__file__).parents[2] / "docs/api.md"


def verbs(parser: ArgumentParser, *before: str) -> Iterator[tuple[str, ...]]:
    """Yield each verb with the verbs below it."""
    found = [each for each in parser._actions if isinstance(each, _SubParsersAction)]
    if not found and before:
        yield before
    for action in found:
        for name, below in action.choices.items():
            yield from verbs(below, *before, name)


@pytest.mark.parametrize("verb", [*verbs(parser_for([]))], ids=" ".join)
def test_the_document_names_a_verb(verb: tuple[str, ...]) -> None:
    first, *rest = verb
    lines = re.findall(rf"^    berth (?:[a-z]+ \| )*{first}\b.*$", DOCUMENT.read_text(), re.M)
    words = set(re.findall(r"[a-z][a-z-]*", " ".join(lines)))
    assert lines
    assert {first, *rest} <= words


def test_the_first_example_is_the_same_request_in_both_forms() -> None:
    text = DOCUMENT.read_text().partition("## A first job")[2]
    printed = re.search(r"-d '(\{.*?\})'$", text, re.DOTALL | re.MULTILINE)
    command = re.search(r"^    berth (submit .*)$", text, re.MULTILINE)
    assert printed
    assert command
    words = shlex.split(command[1])
    body = read_job(parser_for(words).parse_args(words))
    assert body_digest(body) == body_digest(json.loads(printed[1]))
