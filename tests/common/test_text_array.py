"""Arrays of texts as one parameter."""

import pytest

from apps.common.infrastructure.database import fetch_prepared, fetch_rows, text_array

TEXTS = [
    "plain",
    "",
    None,
    "NULL",
    "quotes \"inside\" and 'single' ones",
    'back\\slash, \\" and \\\\',
    "{braces}, commas, %s and %",
    "line\nbreak\tand ünïcode ✓",
    ' "',
]


@pytest.mark.django_db
@pytest.mark.parametrize("fetch", [fetch_rows, fetch_prepared])
def test_every_text_arrives_as_it_was_sent(fetch: object) -> None:
    rows = fetch("SELECT * FROM unnest(%s::text[])", [text_array(TEXTS)])  # type: ignore[operator]
    assert [text for (text,) in rows] == TEXTS


@pytest.mark.django_db
def test_an_array_may_be_empty() -> None:
    assert fetch_rows("SELECT cardinality(%s::text[])", [text_array([])]) == [(0,)]
