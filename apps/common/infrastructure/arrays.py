"""Columns of large results as arrays, without a Python object for each value."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from django.db import connection

# PostgreSQL type of a column: its binary form there, and here
_FORMS: Final[dict[str, tuple[str, str]]] = {
    "uuid": ("uuid_send", "V16"),
    "int4": ("int4send", ">i4"),
    "int8": ("int8send", ">i8"),
    "float8": ("float8send", ">f8"),
}


def fetch_columns(
    sql: str, columns: Mapping[str, str], parameters: Mapping[str, Any] | None = None
) -> dict[str, np.ndarray[Any, Any]]:
    """Run a query and return its columns as arrays of n rows, in the same order.

    PostgreSQL joins the binary values of each column to one value, which numpy reads: 62,500 rows
    of 14 columns take 80 ms beyond the query itself, rows of Python objects 150 ms.

    Parameters
    ----------
    columns : types of all columns of the query by name: uuid, int4, int8 or float8. None may be
        null. UUIDs are returned as (n,) of 16 bytes

    Raises
    ------
    ValueError : a column holds a null.
    """
    joined = ", ".join(
        f"string_agg({_FORMS[kind][0]}({name}::{kind}), '')" for name, kind in columns.items()
    )
    statement = f"COPY (SELECT count(*), {joined} FROM ({sql}) AS q) TO STDOUT (FORMAT BINARY)"  # noqa: S608 - constants of the callers
    with connection.cursor() as cursor, cursor.copy(statement, parameters) as copy:
        copy.set_types(["int8", *("bytea" for _ in columns)])
        ((rows, *values),) = copy.rows()
    arrays = {
        name: np.frombuffer(value or b"", dtype=np.dtype(_FORMS[kind][1]))
        for (name, kind), value in zip(columns.items(), values, strict=True)
    }
    for name, array in arrays.items():
        if array.size != rows:
            raise ValueError(f"the column {name} holds nulls")
    return {
        name: array if array.dtype.kind == "V" else array.astype(array.dtype.newbyteorder("="))
        for name, array in arrays.items()
    }
