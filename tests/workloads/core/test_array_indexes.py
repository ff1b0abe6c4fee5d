"""The indexes of job arrays."""

from typing import Any

import pytest

from apps.common.core.errors import InvalidInputError
from apps.workloads.core.arrays import array_variables, member_name, parse_array


def indexes(value: Any, *, most: int = 1000) -> tuple[int, ...]:
    return parse_array(value, at="/array", max_size=most).indexes


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"size": 1}, (0,)),
        ({"size": 3}, (0, 1, 2)),
        ({"indexes": "7"}, (7,)),
        ({"indexes": "0-6:2"}, (0, 2, 4, 6)),
        ({"indexes": "0-5:2"}, (0, 2, 4)),
        ({"indexes": "9, 1-2"}, (9, 1, 2)),
        ({"indexes": "2147483647"}, (2147483647,)),
        ({"indexes": "4-4", "size": None}, (4,)),
    ],
)
def test_sizes_and_ranges_name_the_members(value: Any, expected: tuple[int, ...]) -> None:
    assert indexes(value) == expected


@pytest.mark.parametrize(
    ("value", "pointer", "code"),
    [
        (None, "/array", "wrong_type"),
        ({}, "/array", "contradiction"),
        ({"size": 2, "indexes": "0-1"}, "/array", "contradiction"),
        ({"size": 0}, "/array/size", "too_low"),
        ({"size": 1001}, "/array/size", "too_high"),
        ({"size": True}, "/array/size", "wrong_type"),
        ({"indexes": 5}, "/array/indexes", "wrong_type"),
        ({"indexes": ""}, "/array/indexes", "bad_indexes"),
        ({"indexes": "1,"}, "/array/indexes", "bad_indexes"),
        ({"indexes": "-1"}, "/array/indexes", "bad_indexes"),
        ({"indexes": "5-4"}, "/array/indexes", "bad_indexes"),
        ({"indexes": "0-9:0"}, "/array/indexes", "bad_indexes"),
        ({"indexes": "0-9%2"}, "/array/indexes", "bad_indexes"),
        ({"indexes": "\u0663"}, "/array/indexes", "bad_indexes"),
        ({"indexes": "2147483648"}, "/array/indexes", "bad_indexes"),
        ({"indexes": "0-2147483647"}, "/array/indexes", "too_many"),
        ({"indexes": "0-3,2"}, "/array/indexes", "repeated"),
        ({"indexes": "1," * 251}, "/array/indexes", "too_long"),
        ({"size": 2, "limit": 0}, "/array/limit", "too_low"),
        ({"size": 2, "step": 1}, "/array/step", "unknown_field"),
    ],
)
def test_other_values_are_refused_with_the_field(value: Any, pointer: str, code: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        indexes(value)
    (found,) = caught.value.problems
    assert (found.pointer, found.code) == (pointer, code)


def test_an_array_keeps_its_text_and_limit() -> None:
    array = parse_array({"indexes": "0-99:2", "limit": 10}, at="", max_size=50)
    assert (array.text, len(array.indexes), array.limit) == ("0-99:2", 50, 10)
    assert parse_array({"size": 4}, at="", max_size=4).text == "0-3"


def test_the_name_of_a_member_ends_with_its_index_and_fits() -> None:
    assert member_name("sweep", 7) == "sweep-7"
    assert member_name("n" * 127, 123) == "n" * 123 + "-123"


def test_only_members_get_variables() -> None:
    assert array_variables("a", 0) == {"BERTH_ARRAY_ID": "a", "BERTH_ARRAY_INDEX": "0"}
    assert array_variables(None, None) == {}


@pytest.mark.parametrize(
    ("value", "end"),
    [
        (["0-3"], ", not ['0-3']"),
        ({"indexes": 5}, ", not 5"),
        ({"indexes": "0-3,9,2,2"}, "; 2 is named 3 times"),
    ],
)
def test_a_refusal_names_the_value(value: Any, end: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        indexes(value)
    (found,) = caught.value.problems
    assert found.detail.endswith(end)
