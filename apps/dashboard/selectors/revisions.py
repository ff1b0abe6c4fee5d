"""Revisions of the matrices, with their accuracy, on the Classification page."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import F, Func, IntegerField

from apps.classification.core.matrix import Scale
from apps.classification.models import MatrixRevision, Revision, RevisionReason
from apps.dashboard.core import formats
from apps.dashboard.selectors.classification import MatrixQuery

REVISIONS_SHOWN = 15
REASONS = {
    RevisionReason.LIBRARY.value: "new library",
    RevisionReason.ROWS.value: "new rows",
    RevisionReason.SCHEDULE.value: "schedule",
    RevisionReason.REQUEST.value: "request",
}


@dataclass(frozen=True, slots=True)
class RevisionRow:
    """One revision, with its accuracy on the selected matrix.

    Attributes
    ----------
    p90, covered : None = not evaluated yet, or too few rows
    """

    revision: Revision
    reason: str
    library_rows: int
    live_rows: int
    p90: float | None
    covered: float | None
    is_points: bool
    is_too_small: bool
    shown: bool

    @property
    def covered_text(self) -> str:
        """Share of hidden cells inside 90 % intervals, or the reason why there is none."""
        if self.covered is not None:
            return formats.percent(self.covered)
        return "too few cells" if self.is_too_small else "not evaluated yet"

    @property
    def p90_text(self) -> str:
        """The p90 error with its unit."""
        if self.p90 is None:
            return "–"
        return (
            f"{formats.significant(100 * self.p90, 2)} points"
            if self.is_points
            else formats.percent(self.p90)
        )


@dataclass(frozen=True, slots=True)
class Revisions:
    """The latest revisions and their total number."""

    rows: tuple[RevisionRow, ...]
    all: int
    current: Revision | None

    @property
    def shown(self) -> RevisionRow | None:
        """The revision shown on the page."""
        return next((row for row in self.rows if row.shown), None)


def revisions(query: MatrixQuery) -> Revisions:
    """Return the latest revisions, newest first, and the requested one; four statements."""
    latest = list(Revision.objects.order_by("-number")[:REVISIONS_SHOWN])
    current = next((row for row in latest if row.is_current), None)
    if current is None:
        current = Revision.objects.filter(is_current=True).first()
    number = query.revision or (current.number if current else None)
    if number is not None and all(row.number != number for row in latest):
        latest += list(Revision.objects.filter(number=number))
    counts = {
        row["revision_id"]: row
        for row in MatrixRevision.objects.filter(
            revision__in=[row.number for row in latest], matrix=query.matrix.value
        )
        .annotate(all_rows=Func(F("rows"), function="cardinality", output_field=IntegerField()))
        .values("revision_id", "all_rows", "library_rows", "evaluation")
    }
    rows = tuple(_revision(row, counts.get(row.number), query, number) for row in latest)
    return Revisions(rows, Revision.objects.count(), current)


def _revision(
    row: Revision, counts: Mapping[str, Any] | None, query: MatrixQuery, number: int | None
) -> RevisionRow:
    stored = counts or {"all_rows": 0, "library_rows": 0, "evaluation": {}}
    report = stored["evaluation"] if stored["evaluation"].get("rows") else {}
    return RevisionRow(
        revision=row,
        reason=REASONS.get(row.reason, row.reason),
        library_rows=stored["library_rows"],
        live_rows=stored["all_rows"] - stored["library_rows"],
        p90=report.get("p90"),
        covered=report.get("covered"),
        is_points=query.matrix.scale is Scale.SCORE,
        is_too_small=stored["evaluation"].get("rows") == 0,
        shown=row.number == number,
    )
