"""docs/api.md names every verb of the berth command."""

import re
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from pathlib import Path

import pytest

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
