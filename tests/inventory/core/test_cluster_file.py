"""Cluster files: parsing, and one clear problem for each mistake."""

import contextlib
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.common.core.errors import FieldProblem, InvalidInputError
from apps.inventory.core.cluster_file import (
    MAX_BYTES,
    MAX_CORES,
    ClusterSpec,
    PlatformSpec,
    RackSpec,
    ServerSpec,
    parse_cluster,
)

PLATFORM: dict[str, Any] = {
    "name": "big", "cores": 8, "memory_bytes": 64e9, "network_bps": 10**10,
    "storage_bytes": 10**12, "idle_watts": 90, "peak_watts": 300.5,
}  # fmt: skip
SERVER: dict[str, Any] = {"name": "a", "platform": "big", "rack": "r1", "labels": {"zone": "1"}}
GOOD: dict[str, Any] = {"name": "quay", "platforms": [PLATFORM], "servers": [SERVER]}


def problems(data: Any) -> list[FieldProblem]:
    with pytest.raises(InvalidInputError) as caught:
        parse_cluster(data)
    return caught.value.problems


def of_platform(**fields: Any) -> dict[str, Any]:
    return {**GOOD, "platforms": [{**PLATFORM, **fields}]}


def of_server(**fields: Any) -> dict[str, Any]:
    return {**GOOD, "servers": [{**SERVER, **fields}]}


def test_a_whole_file_is_read() -> None:
    big = PlatformSpec("big", 8, 64 * 10**9, 10**10, 10**12, 90.0, 300.5)
    server = ServerSpec("a", "big", "r1", {"zone": "1"})
    assert parse_cluster(GOOD) == ClusterSpec("quay", (big,), (server,))


def test_the_name_of_the_cluster_and_labels_may_be_left_out() -> None:
    plain = {key: SERVER[key] for key in ("name", "platform", "rack")}
    spec = parse_cluster({"platforms": [PLATFORM], "servers": [plain]})
    assert (spec.name, spec.servers[0].labels) == ("", {})


def test_racks_may_name_the_switch_above() -> None:
    spec = parse_cluster({**GOOD, "racks": [{"name": "r1", "switch": "agg-1"}]})
    assert spec.racks == (RackSpec("r1", "agg-1"),)


@pytest.mark.parametrize(
    ("racks", "expected"),
    [
        ([], {"/racks": "required"}),
        ([{"name": "r1"}], {"/racks/0/switch": "invalid"}),
        ([{"name": "r9", "switch": "agg"}], {"/racks/0/name": "unknown"}),
        ([{"name": "r1", "switch": "a"}, {"name": "r1", "switch": "b"}],
         {"/racks/1/name": "duplicate"}),
        ([{"name": "r1", "switch": "a", "row": 3}], {"/racks/0/row": "unknown"}),
    ],
)  # fmt: skip
def test_invalid_racks_are_refused(racks: Any, expected: dict[str, str]) -> None:
    assert {p.pointer: p.code for p in problems({**GOOD, "racks": racks})} == expected


def test_the_largest_numbers_are_accepted() -> None:
    spec = parse_cluster(of_platform(cores=MAX_CORES, storage_bytes=MAX_BYTES, idle_watts=0))
    assert spec.platforms[0].storage_bytes == MAX_BYTES


HUGE = 10**5000  # Python refuses to write it out
MANY_DIGITS = pytest.param(HUGE, id="many digits")
CIRCULAR: list[Any] = []
CIRCULAR.append(CIRCULAR)


@pytest.mark.parametrize(
    "value",
    [
        0,
        -1,
        1.5,
        "8",
        None,
        True,
        math.nan,
        math.inf,
        -math.inf,
        2**31,
        MANY_DIGITS,
        [],
        {},
        "1e9",
    ],
)
def test_invalid_cores_are_refused(value: Any) -> None:
    assert [p.pointer for p in problems(of_platform(cores=value))] == ["/platforms/0/cores"]


@pytest.mark.parametrize("field", ["memory_bytes", "network_bps", "storage_bytes"])
@pytest.mark.parametrize("value", [0, 2**63, MAX_BYTES + 1, 0.5, math.nan, False])
def test_invalid_sizes_are_refused(field: str, value: Any) -> None:
    assert [p.pointer for p in problems(of_platform(**{field: value}))] == [
        f"/platforms/0/{field}"
    ]


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, True, "90", 2e6, MANY_DIGITS, CIRCULAR])
def test_invalid_watts_are_refused_once(value: Any) -> None:
    reported = problems(of_platform(idle_watts=value))
    assert [p.pointer for p in reported] == ["/platforms/0/idle_watts"]


def test_the_peak_is_not_below_idle() -> None:
    assert problems(of_platform(peak_watts=80)) == [
        FieldProblem(
            "/platforms/0/peak_watts", "too_low", "expected at least idle_watts (90), got 80"
        )
    ]


@pytest.mark.parametrize(
    "value", ["", "x" * 64, None, 7, [], {}, "a\0b", "a\nb", "\ud800", " a", "a ", CIRCULAR]
)
@pytest.mark.parametrize("field", ["name", "rack"])
def test_invalid_names_are_refused(field: str, value: Any) -> None:
    assert [p.pointer for p in problems(of_server(**{field: value}))] == [f"/servers/0/{field}"]


def test_names_of_63_characters_are_accepted() -> None:
    assert parse_cluster(of_server(name="ö" * 63, rack="r" * 63)).servers[0].name == "ö" * 63


def test_a_name_of_the_cluster_is_a_name() -> None:
    assert [p.pointer for p in problems({**GOOD, "name": 12})] == ["/name"]


def test_a_number_as_a_name_gets_a_hint() -> None:
    (problem,) = problems(of_server(name=7))
    assert problem.detail == (
        "expected a text of 1 to 63 printable characters, got 7 (a number; write it in quotes)"
    )


@pytest.mark.parametrize("value", [[], {}, None, "small", 3, {"big"}])
def test_an_unknown_platform_is_refused(value: Any) -> None:
    (problem,) = problems(of_server(platform=value))
    assert (problem.pointer, problem.code) == ("/servers/0/platform", "unknown")
    assert problem.detail.startswith("expected one of the platforms 'big', got ")


def test_a_platform_with_a_mistake_is_known_to_its_servers() -> None:
    assert [p.pointer for p in problems(of_platform(cores=0))] == ["/platforms/0/cores"]


def test_only_some_of_many_platforms_are_named() -> None:
    many = [{**PLATFORM, "name": f"p{i}"} for i in range(20)]
    (problem,) = problems({**GOOD, "platforms": many})
    assert "'p7' or 12 others, got 'big'" in problem.detail


@pytest.mark.parametrize(
    ("labels", "pointer"),
    [
        ([], "/servers/0/labels"),
        (None, "/servers/0/labels"),
        ({"zone": 1}, "/servers/0/labels/zone"),
        ({"a/b": "x\0"}, "/servers/0/labels/a~1b"),
        ({"": "x"}, "/servers/0/labels/"),
        ({"a=b": "x"}, "/servers/0/labels/a=b"),
        ({3: "x"}, "/servers/0/labels/3"),
        ({"zone": "x" * 256}, "/servers/0/labels/zone"),
        ({f"k{i}": "x" for i in range(65)}, "/servers/0/labels"),
    ],
)
def test_invalid_labels_are_refused(labels: Any, pointer: str) -> None:
    assert [p.pointer for p in problems(of_server(labels=labels))] == [pointer]


def test_duplicate_names_are_refused() -> None:
    reported = problems({**GOOD, "platforms": [PLATFORM] * 2, "servers": [7, SERVER, SERVER]})
    assert [(p.pointer, p.code) for p in reported] == [
        ("/platforms/1/name", "duplicate"),
        ("/servers/0", "type"),
        ("/servers/2/name", "duplicate"),
    ]
    assert reported[2].detail == "expected a unique name, got 'a' as at /servers/1"


def test_a_misspelt_field_is_found() -> None:
    (problem,) = problems(of_server(label={}))
    assert problem.pointer == "/servers/0/label"
    assert problem.detail == "expected one of name, platform, rack, labels, got a field 'label'"


@pytest.mark.parametrize("data", [None, [], "cluster", 3, CIRCULAR])
def test_a_file_without_an_object_is_refused(data: Any) -> None:
    assert [(p.pointer, p.code) for p in problems(data)] == [("", "type")]


@pytest.mark.parametrize("rows", [None, [], {}, "abc", 3])
def test_there_is_at_least_one_server(rows: Any) -> None:
    assert [p.pointer for p in problems({**GOOD, "servers": rows})] == ["/servers"]


def test_only_the_first_of_many_problems_are_listed() -> None:
    reported = problems({**GOOD, "servers": [7] * 3000})
    assert len(reported) == 1025
    assert reported[-1].detail == "and 1,976 more problems"


def test_the_limit_of_problems_is_inclusive() -> None:
    assert {p.code for p in problems({**GOOD, "servers": [7] * 1024})} == {"type"}


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.dates()
)
HUGE_NUMBERS = st.integers(300, 5000).map(lambda digits: 10**digits)
UNUSUAL = HUGE_NUMBERS | st.sampled_from([2**62, 2**1024, CIRCULAR, "\ud800", "x" * 64])
KEYS = st.sampled_from([*PLATFORM, *SERVER, "platforms", "servers"]) | st.text() | st.integers()
ANYTHING = st.recursive(
    SCALARS | UNUSUAL,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


def changed(row: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A valid row in which some fields are replaced by arbitrary values."""
    return st.fixed_dictionaries({}, optional=dict.fromkeys(row, ANYTHING)).map(
        lambda replaced: {**row, **replaced}
    )


FILES = ANYTHING | st.fixed_dictionaries(
    {
        "platforms": st.lists(changed(PLATFORM) | ANYTHING, max_size=3),
        "servers": st.lists(changed(SERVER) | ANYTHING, max_size=3),
    },
    optional={"name": ANYTHING},
)


@given(FILES)
def test_no_document_raises_another_error(data: Any) -> None:
    with contextlib.suppress(InvalidInputError):
        spec = parse_cluster(data)
        assert {s.platform for s in spec.servers} <= {p.name for p in spec.platforms}


@given(FILES)
def test_all_problems_can_be_printed_on_one_line(data: Any) -> None:
    try:
        parse_cluster(data)
    except InvalidInputError as error:
        text = str(error)
        assert text.encode("utf-8").decode("utf-8") == text
        assert "\n" not in text
