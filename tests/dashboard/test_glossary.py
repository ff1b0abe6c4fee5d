"""Terms on the pages are explained by the glossary."""

import re
from pathlib import Path

import pytest
from django.template import Context, Template

from apps.dashboard.core.glossary import read_glossary
from apps.dashboard.files import glossary

TERMS = {
    (path, word)
    for path in Path("templates").rglob("*.html")
    for word in re.findall(r'{% term "([^"]+)"', path.read_text(encoding="utf-8"))
}
TABLE = """
| word | meaning |
|---|---|
| resource unit (RU), unit | one **core** of a `server` (Tarcil §3.2) |
| F | the weighted sum 0.7P + 0.3C (C5), which `x` minimises |
"""


def test_a_term_is_found_by_each_synonym_without_marks_and_sources() -> None:
    unit = "One core of a server"
    assert read_glossary(TABLE) == {
        "resource unit": unit,
        "ru": unit,
        "unit": unit,
        "f": "The weighted sum 0.7P + 0.3C, which x minimises",
    }


@pytest.mark.parametrize("word", [
    "blend", "revision", "p", "d", "c", "hypervolume", "f", "tier", "protected", "exposed",
    "match",
])  # fmt: skip
def test_newcomers_find_the_words_of_the_pages(word: str) -> None:
    meaning = glossary()[word]
    assert len(meaning) > 20
    assert not re.search(r"[*`§|]", meaning)


@pytest.mark.parametrize(("path", "word"), sorted(TERMS), ids=str)
def test_every_term_on_a_page_is_in_the_glossary(path: Path, word: str) -> None:
    assert word.lower() in glossary(), f"{path} explains a word that docs/glossary.md lacks"


def test_a_term_carries_its_escaped_definition() -> None:
    page = Template('{% load berth %}{% term "F" shown %}')
    html = page.render(Context({"shown": "<F>"}))
    assert html.startswith('<dfn class="term" tabindex="0" aria-description="The weighted sum')
    assert html.endswith(">&lt;F&gt;</dfn>")


def test_an_unknown_term_is_an_error() -> None:
    with pytest.raises(KeyError, match="no such word"):
        Template('{% load berth %}{% term "no such word" %}').render(Context())
