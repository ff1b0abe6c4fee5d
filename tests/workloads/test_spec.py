"""Parsing of jobs: both forms, and all problems with their pointers."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.common.core.errors import FieldProblem, InvalidInputError
from apps.workloads.core.constraints import Constraints
from apps.workloads.core.guarantees import JobLimits, QualityGuarantee
from apps.workloads.core.spec import parse_changes, parse_job
from apps.workloads.core.targets import (
    BestEffort,
    CompletionTime,
    InstructionRate,
    Target,
    ThroughputLatency,
    read_target,
)

SHORT = {"application": "hadoop-17", "target": {"kind": "best_effort"}}


def problems_of(data: Any) -> dict[str, str]:
    """Return the code of each problem by its pointer."""
    with pytest.raises(InvalidInputError) as caught:
        parse_job(data)
    return {problem.pointer: problem.code for problem in caught.value.problems}


def test_only_application_and_target_are_needed() -> None:
    spec = parse_job(SHORT)
    assert (spec.application, spec.target) == ("hadoop-17", BestEffort())
    assert (spec.tasks, spec.priority, spec.gang, spec.units) == (1, 0, False, None)


def test_the_document_form_and_the_flat_form_are_equivalent() -> None:
    document = {
        "metadata": {"name": "n", "labels": {"team": "ml"}},
        "spec": {**SHORT, "input_bytes": 5, "duration_seconds": 60},
    }
    short = {
        **SHORT,
        "name": "n",
        "labels": {"team": "ml"},
        "input_bytes": 5,
        "duration_seconds": 60,
    }
    assert parse_job(document) == parse_job(short)


@pytest.mark.parametrize(
    ("data", "target"),
    [
        ({"kind": "completion_time", "seconds": 600}, CompletionTime(600.0)),
        (
            {"kind": "throughput_latency", "qps": 20000, "latency_seconds": 0.01},
            ThroughputLatency(20000.0, 0.01, 99.0),
        ),
        ({"kind": "ips", "ips": 1.2e9}, InstructionRate(1.2e9)),
        ({"kind": "best_effort"}, BestEffort()),
    ],
)
def test_every_kind_of_target_is_read(data: dict[str, Any], target: Target) -> None:
    assert parse_job({**SHORT, "target": data}).target == target


@pytest.mark.parametrize(
    "target",
    [CompletionTime(1.5), ThroughputLatency(10.0, 0.1, 95.0), InstructionRate(7.0), BestEffort()],
)
def test_a_stored_target_is_read_back(target: Target) -> None:
    assert read_target(target.as_json()) == target


def test_all_problems_are_reported_together() -> None:
    problems = problems_of(
        {
            "aplication": "x",
            "target": {"kind": "ips", "rate": 1},
            "tasks": 0,
            "units": True,
            "gang": 1,
            "priority": 101,
            "labels": {"a": 3},
            "input_bytes": 1.5,
        }
    )
    assert problems == {
        "/aplication": "unknown_field",
        "/application": "required",
        "/target/rate": "unknown_field",
        "/target/ips": "required",
        "/tasks": "too_low",
        "/units": "wrong_type",
        "/gang": "wrong_type",
        "/priority": "too_high",
        "/labels/a": "wrong_type",
        "/input_bytes": "wrong_type",
    }


def test_pointers_refer_to_the_document_form() -> None:
    problems = problems_of({"metadata": {"nam": 1}, "spec": {"target": {"kind": "soon"}}})
    assert problems == {
        "/metadata/nam": "unknown_field",
        "/spec/application": "required",
        "/spec/target/kind": "unknown_value",
    }


def test_an_unknown_field_suggests_the_nearest_known_one() -> None:
    with pytest.raises(InvalidInputError, match="did you mean application"):
        parse_job({**SHORT, "aplication": "x"})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 0, "10", None, True, [1]])
def test_a_target_must_be_a_positive_finite_number(value: object) -> None:
    assert problems_of({**SHORT, "target": {"kind": "completion_time", "seconds": value}})


@pytest.mark.parametrize("name", ["", "-a", "a-", "a b", "a\x00", "ü", "a" * 128, 5, None])
def test_an_application_needs_a_plain_name(name: object) -> None:
    assert "/application" in problems_of({**SHORT, "application": name})


@pytest.mark.parametrize(
    "annotations",
    [{"a": "\x00"}, {"a": "\ud800"}, {"a": "x" * 20_000}, {"a": float("nan")}, [], "x"],
)
def test_annotations_must_be_storable(annotations: object) -> None:
    assert "/annotations" in problems_of({**SHORT, "annotations": annotations})


def test_a_backslash_before_u0000_is_ordinary_text() -> None:
    assert parse_job({**SHORT, "annotations": {"a": "\\u0000"}}).annotations == {"a": "\\u0000"}


def test_all_constraints_are_parsed() -> None:
    constraints = {"platforms": ["A", "C", "A"], "labels": {"zone": "1"}, "spread": "rack"}
    expected = Constraints(platforms=("A", "C"), labels={"zone": "1"}, spread="rack")
    assert parse_job({**SHORT, "constraints": constraints}).constraints == expected


@pytest.mark.parametrize(
    ("locality", "spread", "detail"),
    [
        ("server", "server", "must be null while locality is server, not 'server'"),
        ("server", "rack", "must be null while locality is server, not 'rack'"),
        ("server", "switch", "must be null while locality is server, not 'switch'"),
        ("rack", "rack", "must be server or null while locality is rack, not 'rack'"),
        ("rack", "switch", "must be server or null while locality is rack, not 'switch'"),
        (
            *("switch", "switch"),
            "must be server, rack or null while locality is switch, not 'switch'",
        ),
    ],
)
def test_units_cannot_be_together_in_a_place_and_not_two_in_it(
    locality: str, spread: str, detail: str
) -> None:
    constraints = {"locality": locality, "spread": spread}
    with pytest.raises(InvalidInputError) as caught:
        parse_job({**SHORT, "constraints": constraints})
    assert caught.value.problems == [FieldProblem("/constraints/spread", "contradiction", detail)]


@pytest.mark.parametrize(
    ("locality", "spread"), [("rack", "server"), ("switch", "server"), ("switch", "rack")]
)
def test_units_in_one_place_can_be_apart_within_it(locality: str, spread: str) -> None:
    constraints = {"locality": locality, "spread": spread}
    expected = Constraints(locality=locality, spread=spread)
    assert parse_job({**SHORT, "constraints": constraints}).constraints == expected


@pytest.mark.parametrize("data", [None, [], "job", 3])
def test_a_job_must_be_an_object(data: object) -> None:
    assert problems_of(data) == {"": "wrong_type"}


def test_changes_contain_only_the_given_fields() -> None:
    assert parse_changes({"spec": {"priority": 5}}) == {"priority": 5}


def test_problems_of_batch_items_name_their_position() -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_job({**SHORT, "tasks": 0}, at="/items/7")
    assert [problem.pointer for problem in caught.value.problems] == ["/items/7/tasks"]


GUARANTEE = {"rank_threshold": 0.8, "probability": 0.01}
LIMITS = JobLimits(
    ("expected", "random", "tarcil"), ("tarcil",), 32, lambda x, p: round(1.0 / ((1.0 - x) * p))
)


@pytest.mark.parametrize(
    ("target", "fields", "expected"),
    [
        ({"kind": "best_effort"}, {}, False),
        ({"kind": "completion_time", "seconds": 60.0}, {}, False),
        ({"kind": "completion_time", "seconds": 60.0}, {"gang": None, "units": 8}, False),
        ({"kind": "completion_time", "seconds": 60.0}, {"gang": True}, True),
        ({"kind": "ips", "ips": 1e9}, {}, True),
        ({"kind": "throughput_latency", "qps": 10.0, "latency_seconds": 0.1}, {}, True),
        ({"kind": "throughput_latency", "qps": 10.0, "latency_seconds": 0.1},
         {"gang": False}, False),
    ],
)  # fmt: skip
def test_a_job_is_a_gang_by_default_if_its_target_needs_all_units(
    target: dict[str, Any], fields: dict[str, Any], expected: bool
) -> None:
    assert parse_job({"application": "a", "target": target, **fields}).gang is expected


def test_a_job_may_name_its_policy_and_a_guarantee() -> None:
    spec = parse_job({**SHORT, "policy": "tarcil", "guarantee": GUARANTEE})
    assert (spec.policy, spec.sample_size) == ("tarcil", None)
    assert spec.guarantee == QualityGuarantee(0.8, 0.01)
    assert spec.guarantee.as_json() == GUARANTEE
    assert parse_job({**SHORT, "sample_size": 16}).sample_size == 16
    nothing = parse_job({**SHORT, "policy": None, "sample_size": None, "guarantee": None})
    assert nothing == parse_job(SHORT)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"policy": "tarcle"}, {"/policy": "unknown_value"}),
        ({"policy": 3}, {"/policy": "wrong_type"}),
        ({"sample_size": 0}, {"/sample_size": "too_low"}),
        ({"sample_size": 33}, {"/sample_size": "too_high"}),
        ({"sample_size": 8.0}, {"/sample_size": "wrong_type"}),
        ({"sample_size": 8, "guarantee": {"rank_threshold": 0.5, "probability": 0.5}},
         {"/guarantee": "contradiction"}),
        ({"guarantee": GUARANTEE}, {"/guarantee": "too_strict"}),  # R = 500
        ({"guarantee": {"rank_threshold": 0.5, "probability": 0.0}},
         {"/guarantee/probability": "too_low"}),
        ({"guarantee": {"rank_threshold": 1.0, "probability": 0.5}},
         {"/guarantee/rank_threshold": "too_high"}),
        ({"guarantee": {"rank_threshold": 0.5}}, {"/guarantee/probability": "required"}),
        ({"guarantee": {}},
         {"/guarantee/rank_threshold": "required", "/guarantee/probability": "required"}),
        ({"guarantee": 0.99}, {"/guarantee": "wrong_type"}),
        ({"policy": "expected", "sample_size": 8}, {"/sample_size": "contradiction"}),
        ({"policy": "expected", "guarantee": {"rank_threshold": 0.5, "probability": 0.5}},
         {"/guarantee": "contradiction"}),
    ],
)  # fmt: skip
def test_a_wrong_policy_sample_or_guarantee_is_named(
    fields: dict[str, Any], expected: dict[str, str]
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_job({**SHORT, **fields}, limits=LIMITS)
    assert {problem.pointer: problem.code for problem in caught.value.problems} == expected


def test_an_unknown_policy_is_answered_with_the_known_ones() -> None:
    with pytest.raises(InvalidInputError, match="must be one of expected, random, tarcil or null"):
        parse_job({**SHORT, "policy": "x"}, limits=LIMITS)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A value, or a short list or object of such values."""
    names = st.text(max_size=20)
    return inner | st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3)


JSON = nested(nested(SCALARS))


@given(
    st.dictionaries(
        st.sampled_from(
            ["application", "target", "tasks", "units", "labels", "annotations", "constraints",
             "priority", "gang", "policy", "sample_size", "guarantee",
             "name", "spec", "metadata", "client_id", "duration_seconds"]
        ),
        JSON,
        max_size=4,
    )
)  # fmt: skip
def test_no_json_raises_another_error(data: dict[str, Any]) -> None:
    data.pop("spec", None)
    with pytest.raises(InvalidInputError):
        parse_job({**data, "application": "a b"})


@pytest.mark.parametrize(
    ("change", "pointer"),
    [({"name": None}, "/name"), ({"metadata": {"name": None}}, "/metadata/name")],
)
def test_a_job_keeps_a_name(change: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidInputError) as error:
        parse_changes(change)
    assert [(each.pointer, each.code) for each in error.value.problems] == [
        (pointer, "wrong_type")
    ]
