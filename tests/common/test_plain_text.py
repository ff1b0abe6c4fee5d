"""Characters that cannot be stored or logged, over arbitrary texts."""

import json
import logging
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.common.api.parsers import load_json
from apps.common.api.queries import read_time
from apps.common.core.errors import InvalidInputError
from apps.common.core.plain_text import (
    has_control_character,
    one_line,
    unstorable_character,
    unstorable_fields,
)
from apps.common.infrastructure.log_records import OneLineRecord

ANY_TEXT = st.text(st.characters(), max_size=20) | st.text("\x00\ud800a~/\\\r\n\u2028")
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=8,
)


def is_storable(text: str) -> bool:
    return "\x00" not in text and text == text.encode("utf-8", "ignore").decode()


@given(ANY_TEXT)
def test_a_logged_text_stays_on_one_line(text: str) -> None:
    logged = one_line(text)
    assert len(logged.splitlines()) <= 1
    assert not has_control_character(logged.replace("\t", ""))


@given(st.text(st.characters(exclude_categories=("Cc", "Zl", "Zp"))))
def test_a_text_without_control_characters_is_logged_as_it_is(text: str) -> None:
    assert one_line(text) == text


@given(ANY_TEXT)
def test_a_record_is_one_line(text: str) -> None:
    record = OneLineRecord("berth", logging.INFO, "", 0, "at %s %s", ("GET", text), None)
    assert len(logging.Formatter("%(levelname)s %(message)s").format(record).splitlines()) == 1


def test_a_traceback_keeps_its_lines() -> None:
    error = RuntimeError("first\nsecond")
    raised = (RuntimeError, error, None)
    record = OneLineRecord("berth", logging.ERROR, "", 0, "failed", (), raised)
    assert "\n" in logging.Formatter("%(message)s").format(record)


@given(ANY_TEXT)
def test_a_text_is_refused_exactly_if_it_cannot_be_stored(text: str) -> None:
    assert (unstorable_character(text) is None) == is_storable(text)


def texts(value: Any) -> list[str]:
    match value:
        case str():
            return [value]
        case dict():
            return [*value, *(text for inner in value.values() for text in texts(inner))]
        case list():
            return [text for inner in value for text in texts(inner)]
        case _:
            return []


@given(JSON)
def test_every_field_that_cannot_be_stored_is_named(value: Any) -> None:
    problems = list(unstorable_fields(value))
    assert len(problems) == sum(not is_storable(text) for text in texts(value))
    assert all(is_storable(problem.pointer) for problem in problems)


@given(JSON)
def test_a_body_is_decoded_or_refused_with_its_fields(value: Any) -> None:
    body = json.dumps(value).encode()
    if all(is_storable(text) for text in texts(value)):
        assert load_json(body) == value
        return
    with pytest.raises(InvalidInputError) as refused:
        load_json(body)
    assert refused.value.problems == list(unstorable_fields(value))


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (b'{"metadata": {"labels": {"team": "a\\u0000"}}}', "/metadata/labels/team"),
        (b'{"labels": {"a\\u0000/b": 1}}', "/labels/a\\u0000~1b"),
        (b'["a", "\\ud800"]', "/1"),
        (b'"\\u0000"', ""),
    ],
)
def test_the_field_is_named_by_its_pointer(body: bytes, pointer: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        load_json(body)
    assert [problem.pointer for problem in refused.value.problems] == [pointer]


@pytest.mark.parametrize("body", [b'{"name": "\\\\u0000"}', '"\U0001f600"'.encode()])
def test_an_escaped_backslash_and_a_character_outside_the_first_plane_pass(body: bytes) -> None:
    assert load_json(body) == json.loads(body)


@pytest.mark.parametrize("number", [b"1e400", b"-1e999", b"9" * 400 + b".0", b"9" * 400])
def test_a_number_beyond_the_floats_is_refused(number: bytes) -> None:
    with pytest.raises(InvalidInputError) as refused:
        load_json(b'{"seconds": %s}' % number)
    assert [problem.pointer for problem in refused.value.problems] == ["/seconds"]


@given(st.datetimes(), st.integers(-1439, 1439))  # RFC 3339 has offsets of whole minutes
def test_a_time_is_read_to_utc_or_refused(moment: datetime, offset_minutes: int) -> None:
    given_time = moment.replace(tzinfo=timezone(timedelta(minutes=offset_minutes)))
    try:
        read = read_time(given_time.isoformat())
    except ValueError:
        with pytest.raises(OverflowError):
            given_time.astimezone(UTC)
    else:
        assert (read, read.tzinfo) == (given_time, UTC)
