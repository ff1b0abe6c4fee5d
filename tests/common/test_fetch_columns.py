"""Columns of numbers that are read in PostgreSQL's binary format."""

import math

import numpy as np
import pytest

from apps.common.infrastructure.database import fetch_columns

pytestmark = pytest.mark.django_db


def test_every_type_of_number_comes_back_exactly() -> None:
    integers = [-(2**31), 7, 2**31 - 1]
    floats = [1 / 3, -math.inf, 5e-324]
    sql = (
        "SELECT i::int2 / 2::int2, i::int4, i::int8 * 4, x, x::float4 FROM"
        " unnest(%s::int8[], %s::float8[]) WITH ORDINALITY AS d(i, x, place) ORDER BY place"
    )
    small = [-(2**15), 7, 2**15 - 1]
    found = fetch_columns(sql, [small, [*floats[:2], 0.5]], columns=5)
    assert found[0].tolist() == [-(2**14), 3, 2**14 - 1]
    assert found[1].tolist() == small
    assert found[2].tolist() == [4 * value for value in small]
    assert found[3].tolist() == [1 / 3, -math.inf, 0.5]
    assert found[4].tolist() == [float(np.float32(1 / 3)), -math.inf, 0.5]
    (wide,) = fetch_columns("SELECT unnest(%s::int4[])", [integers], columns=1)
    assert wide.tolist() == integers
    (tiny,) = fetch_columns("SELECT unnest(%s::float8[])", [floats], columns=1)
    assert tiny.tolist() == floats


def test_nan_is_not_null() -> None:
    (found,) = fetch_columns("SELECT coalesce(NULL, 'NaN'::float8)", [], columns=1)
    assert np.isnan(found).tolist() == [True]


def test_no_rows_are_empty_arrays() -> None:
    found = fetch_columns("SELECT 1::float8, 2 LIMIT 0", [], columns=2)
    assert [each.size for each in found] == [0, 0]


@pytest.mark.parametrize("value", ["NULL::float8", "1::numeric", "'1'::text"])
def test_null_and_other_types_are_refused(value: str) -> None:
    with pytest.raises(ValueError, match="not numbers without NULL: column 2 of SELECT"):
        fetch_columns(f"SELECT 1, {value}", [], columns=2)
