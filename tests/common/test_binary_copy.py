"""Rows that are appended in the binary format of COPY."""

import json
from typing import Any

import pytest
from django.db import connection

from apps.common.infrastructure.database import copy_binary_rows, fetch_rows

TYPES = {"id": "int4", "data": "bytea", "facts": "jsonb"}


@pytest.fixture
def _table(transactional_db: None) -> Any:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE copied (id int, data bytea, facts jsonb)")
    yield
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE copied")


@pytest.mark.usefixtures("_table")
def test_bytes_and_json_are_read_as_they_were_written() -> None:
    facts: list[Any] = [{"busy": 3, "low": 1e-7, "é": [None, True, "\\x00"]}, {}, []]
    copy_binary_rows("copied", TYPES, [(n, b"\0\\\xff", each) for n, each in enumerate(facts)])
    rows = list(fetch_rows("SELECT id, data, facts FROM copied ORDER BY id"))
    assert [(n, bytes(data), json.loads(known)) for n, data, known in rows] == [
        (n, b"\0\\\xff", each) for n, each in enumerate(facts)
    ]


@pytest.mark.usefixtures("_table")
def test_json_has_null_for_numbers_that_are_not_finite() -> None:
    copy_binary_rows("copied", TYPES, [(1, b"", {"low": float("nan"), "high": float("inf")})])
    ((facts,),) = fetch_rows("SELECT facts FROM copied")
    assert json.loads(facts) == {"low": None, "high": None}


@pytest.mark.usefixtures("_table")
def test_keys_that_are_not_text_are_refused_and_no_row_is_left() -> None:
    with pytest.raises(TypeError):
        copy_binary_rows("copied", TYPES, [(1, b"", {"busy": 1}), (2, b"", {3: 1})])
    assert list(fetch_rows("SELECT count(*) FROM copied")) == [(0,)]
