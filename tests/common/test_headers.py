"""Request ids, entity tags and bodies, without a server."""

import gzip
from io import BytesIO

import pytest
from django.test import RequestFactory

from apps.common.api.etags import entity_tag, expected_generation, is_unchanged
from apps.common.api.middleware import content_security_policy
from apps.common.api.parsers import load_json, read_body
from apps.common.api.problems import ProblemError
from apps.common.core.preconditions import (
    ChangedMeanwhileError,
    generation_of,
    require_generation,
)
from apps.common.core.problem_codes import ProblemCode
from apps.common.infrastructure.request_id import choose_request_id

REQUESTS = RequestFactory()
TRACE = f"00-{'ab' * 16}-{'cd' * 8}-01"


def test_the_callers_id_outranks_the_trace() -> None:
    assert choose_request_id("mine", TRACE) == "mine"


def test_the_trace_outranks_a_new_id() -> None:
    assert choose_request_id("", TRACE) == "ab" * 16


def test_two_new_ids_differ() -> None:
    assert choose_request_id("", "") != choose_request_id("", "broken")


@pytest.mark.parametrize(
    ("generation", "content", "start"),
    [(17, None, '"g17"'), (17, b"x", '"g17-'), (None, b"x", '"')],
)
def test_tags_are_strong(generation: int | None, content: bytes | None, start: str) -> None:
    assert entity_tag(generation, content).startswith(start)


def test_other_content_is_another_tag() -> None:
    assert entity_tag(1, b"a") != entity_tag(1, b"b")


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ('"g1"', True),
        ('W/"g1"', True),
        ('"g0", "g1"', True),
        ("*", True),
        ('"g2"', False),
        ("", False),
    ],
)
def test_if_none_match_takes_lists_weak_tags_and_stars(header: str, expected: bool) -> None:
    request = REQUESTS.get("/", headers={"If-None-Match": header})
    assert is_unchanged(request, '"g1"') is expected


@pytest.mark.parametrize(
    ("header", "expected"), [('"g17"', 17), ('"g17-0a1b"', 17), ("*", None), ("", None)]
)
def test_if_match_names_a_generation(header: str, expected: int | None) -> None:
    request = REQUESTS.get("/", headers={"If-Match": header})
    assert expected_generation(request) == expected


@pytest.mark.parametrize("header", ['W/"g17"', '"17"', "g17", '"g17", "g18"', '"gx"'])
def test_an_if_match_that_nothing_can_match_fails(header: str) -> None:
    with pytest.raises(ProblemError) as caught:
        expected_generation(REQUESTS.get("/", headers={"If-Match": header}))
    assert caught.value.code is ProblemCode.PRECONDITION_FAILED


def test_an_edit_from_an_old_version_is_refused() -> None:
    with pytest.raises(ChangedMeanwhileError, match="generation 3, not 2"):
        require_generation(2, 3)


def test_an_edit_that_insists_on_nothing_passes() -> None:
    require_generation(None, 3)


def test_equal_fields_have_one_generation_and_others_another() -> None:
    assert generation_of({"a": 1, "b": None}) == generation_of({"b": None, "a": 1})
    assert generation_of({"a": 1, "b": None}) != generation_of({"a": 1, "b": 0})


def test_bodies_are_read_up_to_their_limit() -> None:
    limited = {"view": type("View", (), {"max_body_bytes": 4})()}
    assert read_body(BytesIO(b"1234"), limited) == b"1234"
    with pytest.raises(ProblemError) as caught:
        read_body(BytesIO(b"12345"), limited)
    assert caught.value.code is ProblemCode.BODY_TOO_LARGE


def test_the_limit_holds_for_what_is_unpacked() -> None:
    request = REQUESTS.post("/", headers={"Content-Encoding": "gzip"})
    limited = {"view": type("View", (), {"max_body_bytes": 100})(), "request": request}
    with pytest.raises(ProblemError) as caught:
        read_body(BytesIO(gzip.compress(b"x" * 101)), limited)
    assert caught.value.code is ProblemCode.BODY_TOO_LARGE


@pytest.mark.parametrize("text", [b"NaN", b"[Infinity]", b"{", b"", b"\xff"])
def test_what_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises(ProblemError) as caught:
        load_json(text)
    assert caught.value.code is ProblemCode.MALFORMED_JSON


def test_the_stream_is_the_only_other_origin_a_page_may_speak_to() -> None:
    assert "connect-src 'self' http://s:1;" in content_security_policy("http://s:1")
    assert "connect-src 'self';" in content_security_policy("")
