"""Statements that a connection prepares once."""

import pytest
from django.db import connection
from django.db.utils import DataError
from django.forms.models import model_to_dict
from django.test.utils import CaptureQueriesContext

from apps.common.infrastructure.database import fetch_prepared, fetch_rows, insert_prepared
from apps.operations.models import Operation

DOUBLE = "SELECT n * 2 AS doubled FROM generate_series(1, %s) AS n"


def prepared(statement: str) -> list[tuple[str, int]]:
    return fetch_rows(
        """SELECT name, generic_plans + custom_plans FROM pg_prepared_statements
           WHERE statement LIKE %s""",
        [statement.replace("%s", "$1")],
    )


@pytest.mark.django_db
def test_a_statement_is_prepared_once_and_planned_for_any_value() -> None:
    assert fetch_prepared(DOUBLE, [2]) == [(2,), (4,)]
    assert fetch_prepared(DOUBLE, [3]) == [(2,), (4,), (6,)]
    ((_, plans),) = prepared(DOUBLE)
    assert plans == 2


@pytest.mark.django_db
def test_other_statements_are_not_prepared() -> None:
    other = "SELECT %s::int + 41"
    for _ in range(8):
        fetch_rows(other, [1])
    assert prepared("SELECT $1::int + 41") == []


@pytest.mark.django_db
def test_names_and_wrappers_work_as_for_other_statements() -> None:
    with CaptureQueriesContext(connection) as captured:
        assert fetch_prepared("SELECT %(a)s::int, %(b)s::text", {"a": 1, "b": "x"}) == [(1, "x")]
    assert [query["sql"] for query in captured] == ["SELECT $1::int, $2::text"]


@pytest.mark.django_db(transaction=True)
def test_an_error_is_an_error_of_django() -> None:
    with pytest.raises(DataError, match="division by zero"):
        fetch_prepared("SELECT 1 / %s::int", [0])
    assert fetch_prepared("SELECT 1 / %s::int", [1]) == [(1,)]


@pytest.mark.django_db
def test_a_statement_without_rows_returns_none_of_them() -> None:
    assert fetch_prepared("UPDATE inventory_server SET rack_id = rack_id WHERE id = %s", [0]) == []


@pytest.mark.django_db
def test_rows_without_columns_are_counted() -> None:
    sql = "SELECT FROM generate_series(1, %s::int)"
    assert fetch_prepared(sql, [2]) == fetch_rows(sql, [2]) == [(), ()]


@pytest.mark.django_db
def test_rows_of_a_model_are_inserted_by_one_statement() -> None:
    rows = [Operation(kind="drain", total=3, result={"servers": [1, 2]}) for _ in range(2)]
    for row in rows:
        insert_prepared(row)
    stored = Operation.objects.in_bulk([row.pk for row in rows])
    for row in rows:
        assert row.created_at is not None
        assert model_to_dict(stored[row.pk]) == model_to_dict(row)
        assert stored[row.pk].created_at == row.created_at
    statements = fetch_rows(
        "SELECT name FROM pg_prepared_statements WHERE statement LIKE 'INSERT INTO %operation%'"
    )
    assert len(statements) == 1


@pytest.mark.django_db
def test_an_inserted_row_is_updated_later() -> None:
    row = Operation(kind="drain")
    insert_prepared(row)
    row.kind = "undrain"
    row.save()
    assert Operation.objects.get().kind == "undrain"
