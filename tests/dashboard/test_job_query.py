from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from apps.dashboard.core.job_query import JobQuery, parse, with_part


def test_reads_every_key() -> None:
    query = parse(
        "state:running app:wc target:ips reason:Held project:web label:team=ml priority:5 "
        "is:held x"
    )
    assert query == JobQuery(
        states=("running",),
        app="wc",
        target="ips",
        reason="Held",
        project="web",
        labels=(("team", "ml"),),
        priority=5,
        flags=("held",),
        words=("x",),
    )


def test_an_array_is_named_by_its_id() -> None:
    query = parse("array:0199a3b8-5a3c-7d1e-8f00-000000000001 state:running")
    assert query.array == UUID("0199a3b8-5a3c-7d1e-8f00-000000000001")
    assert not query.is_counted
    assert not query.is_empty


def test_groups_of_states_are_spelled_out() -> None:
    assert parse("state:waiting").states == ("submitted", "profiling", "queued")


def test_invalid_parts_are_reported() -> None:
    assert parse("colour:red").problems == (
        "colour: is not a filter; use one of "
        "state, app, target, reason, project, label, priority, array, is",
    )
    assert "state:lost is not a state" in parse("state:lost").problems[0]
    assert parse("priority:high").problems == ("priority:high must be a whole number",)
    assert parse("label:team").problems == ("label:team must have the form label:name=value",)
    assert parse("array:7").problems == ("array:7 must be the id of a job array",)
    assert parse("app:").problems == ("app: needs a value",)


def test_quotes_hold_a_value_together() -> None:
    assert parse('app:"word count"').app == "word count"


def test_an_unclosed_quote_is_accepted() -> None:
    assert parse('say "hello').words == ("say", "hello")


def test_setting_a_key_replaces_its_value() -> None:
    assert with_part("state:running x", "state", "queued") == "x state:queued"
    assert with_part("state:running x", "state", "") == "x"


def test_an_empty_query_lists_everything() -> None:
    assert parse("").is_empty


@given(st.text(max_size=60))
def test_any_text_can_be_parsed(text: str) -> None:
    assert isinstance(parse(text), JobQuery)
