"""What one application's page shows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from django.db.models import Count, Q, QuerySet
from django.http import Http404

from apps.classification.core.cells import Source
from apps.classification.core.matrix import MatrixName
from apps.classification.core.similarity import COMPARED, Neighbour, Space, nearest, space_of
from apps.classification.models import Drift, MatrixRevision, Override, PredictionError, Profile
from apps.classification.selectors import cells_in, current_number
from apps.dashboard.core.profile_cells import Cells, ProfileCell, read_cells
from apps.dashboard.core.profile_words import (
    MATRIX_NAMES,
    SOURCE_WORDS,
    column_name,
    error_text,
    interval_text,
    sentence,
    shared,
    typed_unit,
    value_text,
)
from apps.dashboard.figures.interference import Interference
from apps.dashboard.figures.marks import Row
from apps.dashboard.figures.prediction_error import PredictionErrors
from apps.inventory.core.snapshot import Floats
from apps.workloads.core.lifecycle import WAITING_STATES, JobState
from apps.workloads.models import Application, Job

ERRORS_SHOWN = 500
OVERRIDES_SHOWN = 20
MOST_NEIGHBOURS = 4
# named, not excluded: the index by state leads to the few that have not ended
OPEN_STATES = (*WAITING_STATES, JobState.STARTING, JobState.RUNNING)


@dataclass(frozen=True, slots=True)
class Shown:
    """An application and the profile in force; None = not profiled yet."""

    application: Application
    profile: Profile | None

    @property
    def cells(self) -> Cells:
        """The profile's cells by matrix; empty without one."""
        return {} if self.profile is None else read_cells(self.profile.cells)

    def row(self, matrix: MatrixName) -> Row:
        """One row of a matrix, for a figure."""
        cells = tuple(self.cells.get(matrix, ()))
        return Row(self.application.name, self.application.kind, cells)


def shown(name: str) -> Shown:
    """Return an application with its profile; two statements.

    Raises
    ------
    Http404 : there is no such application.
    """
    found = Application.objects.select_related("drift").filter(name=name).first()
    if found is None:
        raise Http404(f"there is no application called {name!r}")
    profile = Profile.objects.filter(application=found, is_current=True).first()
    return Shown(found, profile)


def matrix_row(name: str, matrix: MatrixName) -> Row:
    """Return one row of a matrix as one application has it."""
    return shown(name).row(matrix)


def interference(name: str) -> Interference:
    """Return what an application tolerates and causes."""
    found = shown(name)
    return Interference(found.row(MatrixName.TOLERATED), found.row(MatrixName.CAUSED))


def prediction_errors(name: str) -> PredictionErrors:
    """Return the latest observations of an application's jobs, oldest first."""
    found = shown(name).application
    rows = PredictionError.objects.filter(application=found, predicted__gt=0, measured__gt=0)
    latest = list(
        rows.order_by("-cluster_s", "-id").values_list(
            "cluster_s", "measured", "predicted", "deviation", "job__name"
        )[:ERRORS_SHOWN]
    )[::-1]
    numbers = np.array([row[:4] for row in latest], dtype=np.float64).reshape(-1, 4)
    flagged_s = Drift.objects.filter(application=found).values_list("flagged_s", flat=True).first()
    return PredictionErrors(
        application=name,
        times_s=numbers[:, 0],
        ratio=numbers[:, 1] / numbers[:, 2],
        deviation=numbers[:, 3],
        jobs=tuple(row[4] for row in latest),
        flagged_s=math.nan if flagged_s is None else flagged_s,
    )


@dataclass(frozen=True, slots=True)
class JobCounts:
    """Jobs of an application among those the caller may see."""

    running: int
    waiting: int


def job_counts(seen: QuerySet[Job], application: Application) -> JobCounts:
    """Return how many of its jobs have not ended."""
    open_ones = seen.filter(application=application, state__in=OPEN_STATES).order_by()
    counts = open_ones.aggregate(
        all=Count("id"), waiting=Count("id", filter=Q(state__in=WAITING_STATES))
    )
    return JobCounts(counts["all"] - counts["waiting"], counts["waiting"])


def overrides(application: Application) -> Sequence[Override]:
    """Return corrections by hand: those in force first, then the latest withdrawn."""
    rows = Override.objects.filter(application=application).select_related("created_by")
    in_force = list(rows.filter(withdrawn_at__isnull=True).order_by("-created_at"))
    gone = rows.filter(withdrawn_at__isnull=False).order_by("-withdrawn_at")
    return [*in_force, *gone[: max(0, OVERRIDES_SHOWN - len(in_force))]]


# ---- the row, cell by cell ----


@dataclass(frozen=True, slots=True)
class CellRow:
    """One cell of the profile in words, with who set it."""

    cell: ProfileCell
    name: str
    value: str
    interval: str
    error: str
    sentence: str
    source: str
    override: Override | None


def cell_rows(
    found: Shown, cells: Cells, matrix: MatrixName, made: Sequence[Override]
) -> list[CellRow]:
    """Return the cells of one matrix, each with the override in force."""
    kind = found.application.kind
    platforms = cells[MatrixName.HETEROGENEITY]
    best = platforms[0].column if platforms else ""
    by_hand = {
        row.column: row for row in made if row.withdrawn_at is None and row.matrix == matrix.value
    }
    return [
        CellRow(
            cell=cell,
            name=column_name(matrix, cell.column),
            value=value_text(matrix, cell.column, cell.value, kind),
            interval=interval_text(cell, kind),
            error=error_text(cell, kind),
            sentence=sentence(cell, kind, best),
            source=SOURCE_WORDS[cell.source],
            override=by_hand.get(cell.column) if cell.source is Source.OVERRIDE else None,
        )
        for cell in cells[matrix]
    ]


@dataclass(frozen=True, slots=True)
class MatrixTab:
    """One of the six matrices to choose from: how many of its cells are known."""

    key: str
    name: str
    known: int
    cells: int
    current: bool


def matrix_tabs(cells: Cells, current: MatrixName) -> list[MatrixTab]:
    """Return the six matrices with what is known in each."""
    return [
        MatrixTab(
            name.value,
            MATRIX_NAMES[name],
            sum(cell.source is not Source.INFERRED for cell in row),
            len(row),
            name is current,
        )
        for name, row in cells.items()
    ]


# ---- overrides ----


@dataclass(frozen=True, slots=True)
class OverrideRow:
    """A correction by hand, in force or withdrawn."""

    override: Override
    title: str


def override_rows(made: Sequence[Override], kind: str) -> list[OverrideRow]:
    """Return corrections in words."""
    rows = []
    for row in made:
        matrix = MatrixName(row.matrix)
        value = value_text(matrix, row.column, row.value, kind)
        name = column_name(matrix, row.column)
        rows.append(OverrideRow(row, f"{MATRIX_NAMES[matrix]}, {name}: {value}"))
    return rows


@dataclass(frozen=True, slots=True)
class CellChoice:
    """One cell that may be set by hand; ``value`` as it is typed."""

    column: str
    name: str
    now: str
    value: str


@dataclass(frozen=True, slots=True)
class CellGroup:
    """The cells of one matrix; a typed number times ``factor`` is in the matrix' unit."""

    key: str
    name: str
    unit: str
    factor: float
    cells: tuple[CellChoice, ...]


def override_choices(cells: Cells, kind: str) -> list[CellGroup]:
    """Return every cell that may be set, by matrix."""
    groups = []
    for name, row in cells.items():
        unit, factor = typed_unit(name, kind)
        choices = tuple(
            CellChoice(
                column=cell.column,
                name=column_name(name, cell.column),
                now=value_text(name, cell.column, cell.value, kind),
                value=f"{float(f'{cell.value / factor:.4g}'):.12g}",  # no exponent
            )
            for cell in row
        )
        groups.append(CellGroup(name.value, MATRIX_NAMES[name], unit, factor, choices))
    return groups


# ---- neighbours ----


@dataclass(frozen=True, slots=True)
class Relative:
    """A known application that is similar."""

    neighbour: Neighbour
    is_live: bool  # has a page of its own

    @property
    def is_named_library(self) -> bool:
        """Whether its name says already that it is the library's."""
        return self.neighbour.name.startswith("library")

    @property
    def words(self) -> str:
        """What the two share."""
        return shared(self.neighbour)


def relatives(found: Shown) -> list[Relative]:
    """Return the known applications that resemble one, the most similar first."""
    number = current_number()
    if found.profile is None or number is None:
        return []
    near = nearest(
        _space(number, _stamp(number)),
        _values(found.cells),
        most=MOST_NEIGHBOURS,
        leave_out=found.application.name,
    )
    names = [one.name for one in near]
    live = set(Application.objects.filter(name__in=names).values_list("name", flat=True))
    return [Relative(one, one.name in live) for one in near]


def _values(cells: Cells) -> dict[MatrixName, tuple[Sequence[str], Floats]]:
    """Columns and values of each matrix in which applications are compared."""
    return {
        name: ([cell.column for cell in cells[name]], np.array([c.value for c in cells[name]]))
        for name in COMPARED
    }


def _stamp(number: int) -> Any:
    """Tell a revision from one of the same number before a reset."""
    rows = MatrixRevision.objects.filter(revision_id=number)
    return rows.values_list("revision__created_at", flat=True).first()


@lru_cache(maxsize=2)
def _space(number: int, stamp: Any) -> Space:
    """Applications of which at least half is known, in the space where they are compared."""
    stored = {row.matrix: row for row in MatrixRevision.objects.filter(revision_id=number)}
    parts = {name: stored[name.value] for name in COMPARED if name.value in stored}
    if not parts:
        return space_of((), {})
    cells = {name: cells_in(row) for name, row in parts.items()}
    known = np.hstack([~np.isnan(part["value"]) for part in cells.values()])
    kept = np.flatnonzero(2 * known.sum(axis=1) >= known.shape[1])
    rows = next(iter(parts.values())).rows
    return space_of(
        [rows[i] for i in kept],
        {name: (parts[name].columns, part["estimate"][kept]) for name, part in cells.items()},
    )
