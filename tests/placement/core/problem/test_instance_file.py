"""Instances from JSON: parsed values, and the message of each problem."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from apps.common.core.errors import InvalidInputError
from apps.placement.core.problem.examples import InstanceSpec, JobMix, generate_instance
from apps.placement.core.problem.instance import NOWHERE, Communication
from apps.placement.core.problem.instance_file import parse, parse_assignment, read_json
from apps.placement.core.problem.schema import SCHEMA
from tests.placement.core.tiny import tiny

PUBLISHED = Path(__file__).parents[4] / "docs" / "placement-instance.schema.json"
SOUND: dict[str, Any] = {
    "nodes": [
        {"id": "a", "rack": "r", "slots": 2, "idle_watts": 100, "peak_watts": 200},
        {"id": "b", "rack": "s", "slots": 1, "idle_watts": 0.5, "peak_watts": 0.5},
    ],
    "containers": [
        {"id": "x", "job": "j", "intensity": 1, "class": "taz", "communication": "rack"},
        {"id": "y", "job": "j", "intensity": 0.25, "class": "turtle", "communication": "rack"},
    ],
    "current": {"y": "b"},
}
MISSING = object()


def changed(path: str, value: Any) -> dict[str, Any]:
    """SOUND with the value at a path such as ``nodes.0.slots`` replaced or removed."""
    data = deepcopy(SOUND)
    *steps, last = path.split(".")
    at: Any = data
    for step in steps:
        at = at[int(step) if step.isdigit() else step]
    key: Any = int(last) if last.isdigit() else last
    if value is MISSING:
        del at[key]
    else:
        at[key] = value
    return data


def problems(data: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidInputError) as caught:
        parse(data)
    return [(problem.pointer, problem.detail) for problem in caught.value.problems]


def test_every_field_is_read_into_its_array() -> None:
    case = parse(SOUND)
    assert (case.node_ids, case.rack_ids, case.rack.tolist()) == (("a", "b"), ("r", "s"), [0, 1])
    assert (case.slots.tolist(), case.peak_watts.tolist()) == ([2, 1], [200.0, 0.5])
    assert (case.container_ids, case.job_ids, case.job.tolist()) == (("x", "y"), ("j",), [0, 0])
    assert (case.intensity.tolist(), case.is_taz.tolist()) == ([1.0, 0.25], [True, False])
    assert (case.communication.tolist(), case.current.tolist()) == (
        [Communication.RACK],
        [NOWHERE, 1],
    )
    assert (case.size.tolist(), case.effective_communication.tolist()) == (
        [2],
        [Communication.RACK],
    )


def test_slots_default_to_two_and_current_is_optional() -> None:
    data = changed("nodes.1.slots", MISSING)
    del data["current"]
    assert parse(data).slots.tolist() == [2, 2]
    assert not parse(data).has_current


def test_ids_may_be_whole_numbers() -> None:
    data = changed("nodes.0.id", 7)
    data["current"] = {"y": 7}
    case = parse(data)
    assert case.node_ids == ("7", "b")
    assert case.current.tolist() == [NOWHERE, 0]


def test_an_instance_may_be_empty() -> None:
    case = parse({"nodes": [], "containers": []})
    assert (case.node_ids, case.job_ids, case.size.size) == ((), (), 0)


@pytest.mark.parametrize(
    ("path", "value", "pointer", "detail"),
    [
        ("nodes", MISSING, "/nodes", "is missing"),
        ("nodes", {}, "/nodes", "an object is not a list"),
        ("nodes", [1], "/nodes/0", "1 is not an object with id, rack, slots"),
        ("nods", [], "/nods", "unknown key; known: nodes, containers, current"),
        ("nodes.0.rack", MISSING, "/nodes/0/rack", "is missing"),
        ("nodes.0.cpu", 1, "/nodes/0/cpu", "unknown key; known: id, rack, slots"),
        ("nodes.0.a/b~c", 1, "/nodes/0/a~1b~0c", "unknown key"),
        ("nodes.0.id", "", "/nodes/0/id", "'' is blank"),
        ("nodes.0.id", None, "/nodes/0/id", "null is not a text"),
        ("nodes.0.id", True, "/nodes/0/id", "true is not a text"),
        ("nodes.0.id", "n" * 256, "/nodes/0/id", "at most 255 characters"),
        ("nodes.1.id", "a", "/nodes/1/id", "'a' is already the id of /nodes/0"),
        ("nodes.0.slots", 0, "/nodes/0/slots", "0 is out of range; accepted: 1 to 65536"),
        ("nodes.0.slots", 1.5, "/nodes/0/slots", "1.5 is not a whole number"),
        ("nodes.0.slots", "2", "/nodes/0/slots", "'2' is not a whole number"),
        ("nodes.0.slots", True, "/nodes/0/slots", "true is not a whole number"),
        ("nodes.0.slots", 10**400, "/nodes/0/slots", "a huge number is not a whole number"),
        ("nodes.0.idle_watts", -1, "/nodes/0/idle_watts", "-1 is out of range"),
        ("nodes.0.peak_watts", float("nan"), "/nodes/0/peak_watts", "NaN is not a number"),
        ("nodes.0.peak_watts", float("inf"), "/nodes/0/peak_watts", "Infinity is not a number"),
        ("nodes.0.peak_watts", 1e12, "/nodes/0/peak_watts", "accepted: 0 to 1e+09"),
        ("nodes.0.peak_watts", 99, "/nodes/0/peak_watts", "99 is below idle_watts (100)"),
        ("containers.1.id", "x", "/containers/1/id", "'x' is already the id of /containers/0"),
        ("containers.0.intensity", 1.01, "/containers/0/intensity", "accepted: 0 to 1"),
        ("containers.0.intensity", -0.1, "/containers/0/intensity", "-0.1 is out of range"),
        ("containers.0.intensity", None, "/containers/0/intensity", "null is not a number"),
        ("containers.0.class", "wolf", "/containers/0/class", "'wolf' is not one of taz, turtle"),
        ("containers.0.class", ["taz"], "/containers/0/class", "a list is not one of taz"),
        (
            "containers.1.communication",
            "node",
            "/containers/1/communication",
            "job 'j' is 'node' here and 'rack' at /containers/0; a job has one",
        ),
        ("current", [], "/current", "a list is not an object of container: node"),
        ("current.z", "a", "/current/z", "unknown container 'z'"),
        ("current.x", "c", "/current/x", "unknown node 'c'"),
        ("current.x", None, "/current/x", "null is not a text"),
        ("current.x", "b", "/current", "2 containers on node 'b', which has 1 slots"),
    ],
)
def test_each_problem_names_its_pointer_its_value_and_the_accepted_values(
    path: str, value: Any, pointer: str, detail: str
) -> None:
    reported = problems(changed(path, value))
    assert reported[0][0] == pointer
    assert detail in reported[0][1]


def test_more_containers_than_slots_are_refused() -> None:
    data = changed("nodes.0.slots", 1)
    data["containers"].append({**data["containers"][0], "id": "z"})
    assert problems(data) == [
        ("/containers", "3 containers do not fit in 2 slots; add nodes or slots")
    ]


def test_at_most_twenty_problems_are_reported() -> None:
    data: dict[str, Any] = {"nodes": [{} for _ in range(8)], "containers": []}
    reported = problems(data)
    assert len(reported) == 21
    assert reported[-1] == ("", "12 more problems like these")


@pytest.mark.parametrize("data", [None, [], "nodes", 3, True])
def test_values_that_are_not_objects_are_refused(data: Any) -> None:
    assert "is not an object with nodes, containers, current" in problems(data)[0][1]


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("", "is not JSON: Expecting value"),
        ("{", "is not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("9" * 5000, "is not JSON"),
    ],
)
def test_invalid_json_is_refused(text: str, detail: str) -> None:
    with pytest.raises(InvalidInputError, match=detail):
        read_json(text)


@pytest.mark.parametrize(
    ("text", "pointer"),
    [
        ('{"nodes": [], "nodes": [], "containers": []}', ""),
        ('{"nodes": [{"id": 1, "id": 2}], "containers": []}', "/nodes/0"),
        ('{"nodes": [], "containers": [], "current": {"c": 1, "c": 2}}', "/current"),
    ],
)
def test_a_duplicate_key_is_refused(text: str, pointer: str) -> None:
    reported = problems(read_json(text))
    assert reported[0][0] == pointer
    assert "duplicate" in reported[0][1]


# --- assignments


def test_an_assignment_is_read_alone_or_from_a_solution() -> None:
    case = parse(SOUND)
    plain = {"y": "a", "x": "b"}
    assert parse_assignment(case, plain).tolist() == [1, 0]
    assert parse_assignment(case, {"assignment": plain, "F": 1.0}).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("data", "pointer", "detail"),
    [
        ({"x": "a"}, "/y", "the container has no node"),
        ({"x": "a", "y": "q"}, "/y", "unknown node 'q'"),
        ({"x": "a", "y": "a", "z": "a"}, "/z", "unknown container 'z'"),
        ({"x": "b", "y": "b"}, "", "2 containers on node 'b', which has 1 slots"),
        ([], "", "a list is not an object"),
    ],
)
def test_an_infeasible_assignment_is_refused(data: Any, pointer: str, detail: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_assignment(parse(SOUND), data)
    first = caught.value.problems[0]
    assert first.pointer == pointer
    assert detail in first.detail


# --- the published schema


def test_the_published_schema_equals_the_schema_of_the_reader() -> None:
    assert json.loads(PUBLISHED.read_text()) == SCHEMA
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("seed", range(20))
def test_the_schema_accepts_instances_that_the_reader_accepts(seed: int) -> None:
    data = tiny(seed)
    parse(data)
    jsonschema.validate(data, SCHEMA)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("nodes", MISSING),
        ("more", 1),
        ("nodes.0.id", ""),
        ("nodes.0.id", 1.5),
        ("nodes.0.slots", 0),
        ("nodes.0.slots", 1.5),
        ("nodes.0.idle_watts", -1),
        ("nodes.0.idle_watts", "1"),
        ("containers.0.intensity", 1.01),
        ("containers.0.class", "wolf"),
        ("containers.0.communication", MISSING),
        ("containers.0.cpu", 1),
        ("current.x", None),
        ("current", []),
    ],
)
def test_the_reader_refuses_instances_that_the_schema_refuses(path: str, value: Any) -> None:
    data = changed(path, value)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, SCHEMA)
    assert problems(data)


# --- examples


@pytest.mark.parametrize("mix", list(JobMix))
def test_generated_instances_are_valid_and_reproducible(mix: JobMix) -> None:
    instance_spec = InstanceSpec(
        1000, nodes=600, nodes_per_rack=40, mix=mix, occupied=0.5, kinds=2
    )
    case, again = generate_instance(instance_spec, 4), generate_instance(instance_spec, 4)
    assert case.size.sum() == 1000
    assert case.size.max() <= 128
    assert np.array_equal(case.current, again.current)
    assert np.bincount(case.current[case.current != NOWHERE]).max() <= 2
    assert set(case.communication.tolist()) == {0, 1, 2}
    assert set(case.idle_watts.tolist()) == {100.0, 130.0}
