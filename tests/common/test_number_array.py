"""Numbers and UUIDs as the text of an array."""

import math
from collections.abc import Iterable
from uuid import UUID

import numpy as np
import pytest

from apps.common.infrastructure.database import fetch_rows, number_array

pytestmark = pytest.mark.django_db
KEY = UUID("01a224bb-a8d5-7766-b9db-952a775040f3")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([], "float8"),
        ([1, -2, 2**62], "int8"),
        ([0.1, -1e22, 5e-324, 3.0], "float8"),
        ([1.5, math.inf, -math.inf], "float8"),
        ([KEY, UUID(int=0)], "uuid"),
        (np.array([0.25, 1e-9]), "float8"),
        (np.arange(3), "int8"),
        ((np.float64(2.5), 1), "float8"),
        ({KEY: 1.0}, "uuid"),
        ((number for number in (3, 4)), "int8"),
    ],
)
def test_postgresql_reads_the_same_values(values: Iterable[float], kind: str) -> None:
    items = list(values)
    assert fetch_rows(f"SELECT %s::{kind}[]", [number_array(items)]) == [(items,)]
    assert number_array(iter(items)) == number_array(items)


def test_a_value_that_is_not_a_number_stays_one() -> None:
    ((found,),) = fetch_rows("SELECT %s::float8[]", [number_array([math.nan, 0.5])])
    assert math.isnan(found[0])
    assert found[1] == 0.5
