"""Keyset paging: pages that neither skip nor repeat rows while the list changes.

The order is (column, id), served by one index. A cursor is the key of the row at the edge of the
page, signed so that clients do not rely on its content.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, TypeVar
from uuid import UUID

from django.core import signing
from django.db.models import Model, Q, QuerySet

from apps.common.api.problems import ProblemError
from apps.common.core.problem_codes import ProblemCode

DEFAULT_LIMIT: Final = 50
MAX_LIMIT: Final = 500
_SALT: Final = "berth.cursor"
_Row = TypeVar("_Row", bound=Model)


@dataclass(frozen=True, slots=True)
class Order:
    """A total order of rows, served by one index.

    Attributes
    ----------
    columns : compared in turn; the last is unique
    descending : largest first, for all columns
    """

    columns: tuple[str, ...]
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Page(Generic[_Row]):
    """One page, and the cursors of its neighbours (None at an end)."""

    rows: Sequence[_Row]
    next: str | None
    previous: str | None


def keyset_page(
    queryset: QuerySet[_Row], order: Order, *, limit: int, cursor: str | None
) -> Page[_Row]:
    """Return one page with one query, which reads limit + 1 rows from the index.

    Raises
    ------
    ProblemError : the cursor belongs to another order.
    """
    backwards, key = _read_cursor(cursor, order) if cursor else (False, None)
    descending = order.descending != backwards
    if key is not None:
        queryset = queryset.filter(_after(order.columns, key, descending=descending))
    prefix = "-" if descending else ""
    rows = list(queryset.order_by(*(prefix + column for column in order.columns))[: limit + 1])
    more = len(rows) > limit
    rows = rows[:limit]
    if backwards:
        rows.reverse()
    has_next = bool(rows) and (more or backwards)
    has_previous = bool(rows) and (more if backwards else key is not None)
    return Page(
        rows=rows,
        next=_cursor(order, rows[-1], backwards=False) if has_next else None,
        previous=_cursor(order, rows[0], backwards=True) if has_previous else None,
    )


def _after(columns: Sequence[str], key: Sequence[Any], *, descending: bool) -> Q:
    operator = "lt" if descending else "gt"
    first, value = columns[0], key[0]
    if len(columns) == 1:
        return Q(**{f"{first}__{operator}": value})
    # The plain bound on the first column lets PostgreSQL start inside the index.
    rest = Q(**{first: value}) & _after(columns[1:], key[1:], descending=descending)
    return Q(**{f"{first}__{operator}e": value}) & (Q(**{f"{first}__{operator}": value}) | rest)


def _cursor(order: Order, row: Model, *, backwards: bool) -> str:
    key = [_write(getattr(row, column)) for column in order.columns]
    content = [int(backwards), "-" * order.descending + ",".join(order.columns), key]
    return signing.dumps(content, salt=_SALT)


def _read_cursor(cursor: str, order: Order) -> tuple[bool, list[Any]]:
    try:
        backwards, cursor_order, key = signing.loads(cursor, salt=_SALT)
    except signing.BadSignature as error:
        raise ProblemError(ProblemCode.INVALID_CURSOR, "The cursor is not valid.") from error
    if cursor_order != "-" * order.descending + ",".join(order.columns):
        raise ProblemError(
            ProblemCode.INVALID_CURSOR, f"The cursor belongs to the order {cursor_order}."
        )
    return bool(backwards), [_read(value) for value in key]


def _write(value: object) -> Any:
    match value:
        case datetime():
            return ["t", value.isoformat()]
        case UUID():
            return ["u", value.hex]
        case _:
            return ["v", value]


def _read(written: Sequence[Any]) -> Any:
    kind, value = written
    match kind:
        case "t":
            return datetime.fromisoformat(value)
        case "u":
            return UUID(value)
        case _:
            return value
