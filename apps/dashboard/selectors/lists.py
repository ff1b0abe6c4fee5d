"""Pages of long lists, with the number of rows that match."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

from django.db.models import Model, QuerySet

from apps.common.api.paging import Order, keyset_page
from apps.common.infrastructure.database import TookTooLongError, fetch_nothing, time_limit
from apps.dashboard.core.matches import COUNT_LIMIT, Matches, range_words

COUNT_MS: Final = 200
Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True, slots=True)
class ListPage(Generic[Row]):
    """One page of a list, the cursors of its neighbours (None at an end) and the matches."""

    rows: Sequence[Row]
    next: str | None
    previous: str | None
    matches: Matches | None

    @property
    def range_words(self) -> str:
        """The rows of the page among all that match."""
        return range_words(len(self.rows), self.matches, is_first=self.previous is None)


def list_page(
    rows: QuerySet[Row], order: Order, *, limit: int, cursor: str | None
) -> ListPage[Row]:
    """Return one page, and count the rows that match.

    Raises
    ------
    ProblemError : the cursor belongs to another order.
    """
    page = page_of(rows, order, limit=limit, cursor=cursor, matches=None)
    return replace(page, matches=counted_matches(rows, order))


def page_of(
    rows: QuerySet[Row],
    order: Order,
    *,
    limit: int,
    cursor: str | None,
    matches: Matches | None,
) -> ListPage[Row]:
    """Return one page of rows whose number is known, or known to take too long to count.

    Raises
    ------
    ProblemError : the cursor belongs to another order.
    """
    page = keyset_page(rows, order, limit=limit, cursor=cursor or None)
    return ListPage(page.rows, page.next, page.previous, matches)


@contextmanager
def bounded_read() -> Iterator[None]:
    """Read up to the limit along an index, never a table from end to end, within a time limit.

    Raises
    ------
    TookTooLongError : a statement was cancelled.
    """
    with time_limit(COUNT_MS):
        fetch_nothing("SET LOCAL enable_seqscan = off")
        yield
        fetch_nothing("SET LOCAL enable_seqscan TO DEFAULT")


def counted_matches(rows: QuerySet[Row], order: Order) -> Matches | None:
    """Count rows up to the limit, in the order of the list; None if that takes too long."""
    prefix = "-" if order.descending else ""
    ordered = rows.order_by(*(prefix + column for column in order.columns)).values("pk")
    try:
        with bounded_read():
            count = ordered[: COUNT_LIMIT + 1].count()
    except TookTooLongError:
        return None
    return Matches(min(count, COUNT_LIMIT), is_exact=count <= COUNT_LIMIT)
