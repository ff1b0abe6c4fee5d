"""SQL helpers: rows of a query, bulk inserts, the wall time that all hosts share."""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from typing import Any, Final
from uuid import UUID

import numpy as np
import orjson
import psycopg
from django.db import OperationalError, connection, models, transaction
from django.db.models import DateTimeField, Func
from numpy.typing import NDArray
from psycopg._queries import PostgresQuery
from psycopg.abc import AdaptContext
from psycopg.types.json import set_json_dumps

_CANCELLED: Final = "57014"


class TookTooLongError(Exception):
    """A statement was cancelled at its time limit."""


@contextmanager
def time_limit(milliseconds: int) -> Iterator[None]:
    """Cancel each statement of the block that takes longer.

    Raises
    ------
    TookTooLongError : a statement was cancelled; what the block wrote is rolled back.
    """
    try:
        with transaction.atomic():
            fetch_nothing(f"SET LOCAL statement_timeout = {milliseconds}")
            yield
            fetch_nothing("SET LOCAL statement_timeout TO DEFAULT")
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", None) != _CANCELLED:
            raise
        raise TookTooLongError from error


_OFF_FOR_CLAIMS: Final = (
    "synchronous_commit",
    "enable_seqscan",
    "enable_sort",
    "enable_incremental_sort",
    "jit",
)
_BEGIN_CLAIM: Final = "SELECT clock_timestamp(), " + ", ".join(
    f"set_config('{name}', 'off', true)" for name in _OFF_FOR_CLAIMS
)


def commit_without_flush() -> None:
    """Let the commit of the caller's transaction not wait for the disk.

    If PostgreSQL or its machine crashes within the next second, the transaction may be lost, but
    never a part of it. For claims, which expire, and for readings, which the next ones replace.
    """
    fetch_nothing("SET LOCAL synchronous_commit = off")


def begin_claim() -> datetime:
    """Let the caller's transaction read in the order of indexes, and `commit_without_flush`.

    A claim wants the first rows of several orders. With statistics from a nearly empty table, the
    planner would read and sort all rows. JIT is off because it compiles statements by their cost,
    and that of a sort that cannot be avoided is now the highest.

    Returns
    -------
    `database_now`
    """
    ((now, *_),) = fetch_prepared(_BEGIN_CLAIM, ())
    return now


def without_index(condition: str) -> str:
    """Return a condition for which the planner uses no index.

    For statements that find rows by their ids, and filter them by a state that changes all the
    time. By the statistics few rows are in that state, so the planner would read an index by the
    state, with the entries of the thousands of rows that have left it since the last vacuum.
    """
    return f"CASE WHEN {condition} THEN true ELSE false END"


def fetch_nothing(sql: str) -> None:
    """Run a statement without rows."""
    with connection.cursor() as cursor:
        cursor.execute(sql)


def fetch_rows(
    sql: str, parameters: Sequence[Any] | Mapping[str, Any] | None = None
) -> list[tuple[Any, ...]]:
    """Run a statement and return its rows.

    JSON columns are text, as Django leaves them in plain cursors. Without parameters, a ``%`` in
    the statement stands for itself.
    """
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()


def fetch_prepared(
    sql: str, parameters: Sequence[Any] | Mapping[str, Any]
) -> list[tuple[Any, ...]]:
    """Run a statement as `fetch_rows`; the connection parses and plans it once.

    For statements of hot paths whose plan does not depend on the parameters: a claim of jobs
    takes longer to plan than to run. Each combination of types of the parameters is prepared
    once, so pass arrays as the text of `number_array`, and never a statement made of values.
    """
    with connection.cursor() as cursor:
        cursor.cursor = _PreparingCursor(connection.connection)
        cursor.execute(sql, parameters)
        return [] if cursor.description is None else cursor.fetchall()


def insert_prepared(row: models.Model) -> None:
    """Insert a new instance as ``save(force_insert=True)`` does, but without signals.

    For rows of small requests: Django builds, and PostgreSQL plans, the same statement each time.
    Fields must have values, not expressions: Django leaves those of ``db_default`` to PostgreSQL.
    """
    statement, fields = _insertion(type(row))
    values = [
        field.get_db_prep_save(field.pre_save(row, add=True), connection) for field in fields
    ]
    fetch_prepared(statement, values)
    row._state.adding = False


@cache
def _insertion(model: type[models.Model]) -> "tuple[str, Sequence[models.Field[Any, Any]]]":
    fields = model._meta.concrete_fields
    names = ", ".join(f'"{field.column}"' for field in fields)
    places = ", ".join("%s" for _ in fields)
    sql = f'INSERT INTO "{model._meta.db_table}" ({names}) VALUES ({places})'  # noqa: S608 - names
    return sql, fields


class _PreparingCursor(psycopg.Cursor[tuple[Any, ...]]):
    """A cursor that prepares each statement on the server."""

    def execute(self, query: Any, params: Any = None, **_: Any) -> "_PreparingCursor":
        """Prepare the statement unless the connection has it, then execute it."""
        return super().execute(query, params, prepare=True)

    def _send_query_prepared(self, name: bytes, pgq: PostgresQuery, **options: Any) -> None:
        """Keep the statement, which Django logs; psycopg keeps only those that it parses again."""
        self._query = pgq
        super()._send_query_prepared(name, pgq, **options)


_ARRAY_HEADER: Final = struct.Struct(">iiI")  # dimensions, whether there is a NULL, type
_DIMENSION_BYTES: Final = 8
# by type of PostgreSQL: bigint, smallint, integer, real, double precision
_NUMBERS: Final = {20: ">i8", 21: ">i2", 23: ">i4", 700: ">f4", 701: ">f8"}


def fetch_columns(sql: str, parameters: Sequence[Any], *, columns: int) -> list[NDArray[Any]]:
    """Run a query of numbers and return its columns as arrays; for thousands of rows.

    Each column is one array of PostgreSQL, read in its binary format: several times as fast as
    `fetch_rows`. A parameter whose type the statement does not tell needs a cast.

    Raises
    ------
    ValueError : a column has NULL, or is neither an integer nor a float.
    """
    names = [f"c{i}" for i in range(columns)]
    arrays = ", ".join(f"coalesce(array_agg({name}), '{{}}')" for name in names)
    statement = f"SELECT {arrays} FROM ({sql}) AS d({', '.join(names)})"  # noqa: S608  (no values)
    with connection.cursor() as cursor:
        cursor.cursor = psycopg.Cursor(connection.connection)
        cursor.cursor.format = psycopg.pq.Format.BINARY
        cursor.execute(statement, parameters)
        packed = [cursor.cursor.pgresult.get_value(0, i) for i in range(columns)]
    return [_unpacked(each, f"column {i + 1} of {sql}") for i, each in enumerate(packed)]


def _unpacked(array: bytes | None, column: str) -> NDArray[Any]:
    """Read the binary format of an array of numbers: a header, then the size and value of each."""
    dimensions, has_null, kind = _ARRAY_HEADER.unpack_from(array or b"\0" * _ARRAY_HEADER.size)
    if has_null or kind not in _NUMBERS:
        raise ValueError(f"not numbers without NULL: {column}")
    number = np.dtype(_NUMBERS[kind])
    items = np.dtype([("size", ">i4"), ("value", number)])
    body = (array or b"")[_ARRAY_HEADER.size + dimensions * _DIMENSION_BYTES :]
    return np.frombuffer(body, dtype=items)["value"].astype(number.newbyteorder("="))


def number_array(values: Iterable[float | UUID]) -> str:
    """Return numbers or UUIDs as the text of an array, for COPY or a parameter with a cast.

    Some twenty times as fast as a list, whose items psycopg converts one by one. A comparison
    such as ``id = ANY(%s)`` needs no cast: the column gives the type.
    """
    items = list(values)
    text = orjson.dumps(items, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1].decode()
    if "null" in text:  # as JSON has no number that is not finite
        text = ",".join(map(str, items))
    return f"{{{text}}}"


def text_array(values: Iterable[str | None]) -> str:
    """Return texts as the text of an array, for a parameter with a cast; None is NULL.

    For hundreds of rows: psycopg takes several times as long to convert and quote the items of a
    list one by one.
    """
    return f"{{{','.join(map(_array_item, values))}}}"


def _array_item(value: str | None) -> str:
    if value is None:
        return "NULL"
    if "\\" in value or '"' in value:
        value = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{value}"'


def database_now() -> datetime:
    """Return the wall time of the database: leases and deadlines of all hosts are in this time.

    The clocks of the hosts may differ, so a lease must not be written by one and compared with
    another. In queries, use ``statement_timestamp()`` or `django.db.models.functions.Now`.
    """
    now: datetime
    ((now,),) = fetch_rows("SELECT clock_timestamp()")
    return now


class DatabaseClock(Func):
    """`database_now` as an expression of a query."""

    function = "CLOCK_TIMESTAMP"
    output_field = DateTimeField()


def write_json_fast(context: AdaptContext) -> None:
    """Let a cursor or connection write JSON by a compiled library: for rows of small objects.

    It writes numbers that are not finite as null, and refuses keys that are not text.
    """
    set_json_dumps(orjson.dumps, context)


def copy_rows(table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Append rows with COPY: some ten times the speed of INSERT, for hundreds of rows and more."""
    names = ", ".join(f'"{column}"' for column in columns)
    with (
        connection.cursor() as cursor,
        cursor.copy(f'COPY "{table}" ({names}) FROM STDIN') as copy,
    ):
        for row in rows:
            copy.write_row(row)


def copy_binary_rows(table: str, types: Mapping[str, str], rows: Iterable[Sequence[Any]]) -> None:
    """Append rows with COPY in its binary format: bytes are sent as they are, not as text.

    Parameters
    ----------
    types : the exact PostgreSQL type of each column, such as "int4"; JSON is passed as objects
    """
    names = ", ".join(f'"{column}"' for column in types)
    statement = f'COPY "{table}" ({names}) FROM STDIN (FORMAT BINARY)'
    with connection.cursor() as cursor:
        write_json_fast(cursor.cursor)
        with cursor.copy(statement) as copy:
            copy.set_types([*types.values()])
            for row in rows:
                copy.write_row(row)
