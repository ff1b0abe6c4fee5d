"""The Classification page by role."""

import json

import numpy as np
import pytest
from django.test import Client
from django.utils.html import strip_tags
from pytest_django import DjangoAssertNumQueries

from apps.accounts.models import User
from apps.classification.core.cells import KnownCell, SourceCode, cell_table, unknown_cells
from apps.classification.core.cells import Source as CellSource
from apps.classification.core.matrix import MatrixName, columns_of
from apps.classification.models import Drift, MatrixRevision, Revision
from apps.classification.selectors import cells_in
from apps.dashboard.figures import matrix_heatmap
from apps.dashboard.selectors import classification as selectors
from apps.dashboard.selectors import revisions as revision_selectors
from apps.dashboard.selectors.classification import MatrixQuery
from apps.operations.models import Operation
from tests import factories

pytestmark = pytest.mark.django_db
COLUMNS = {name: columns_of(name, ("J", "A")) for name in MatrixName}
REPORT = {
    "entries": 2,
    "rows": 28,
    "cells": 400,
    "average": 0.06,
    "p50": 0.05,
    "p90": 0.14,
    "largest": 0.3,
    "covered": 0.88,
    "levels": [0.5, 0.9],
    "calibration": [0.46, 0.88],
}
IN_FORCE = MatrixQuery(MatrixName.TOLERATED, None)


def revision(
    number: int = 1, *, rows: int = 3, library: int = 2, is_current: bool = True, **values: object
) -> Revision:
    """Store a revision with a measured library and live rows with one known cell."""
    new_revision = Revision.objects.create(
        number=number,
        is_current=is_current,
        estimator="blend",
        **{"reason": "rows", "cluster_s": 600.0, "seconds": 0.4, **values},
    )
    names = [f"library-batch-{i + 1:02d}" for i in range(library)]
    names += [f"app-{i:04d}" for i in range(rows - library)]
    MatrixRevision.objects.bulk_create(
        MatrixRevision(
            revision=new_revision,
            matrix=name.value,
            rows=names,
            library_rows=library,
            columns=list(columns),
            cells=_cells(name, columns, rows, library),
            singular_values=[3.0, 1.0],
            evaluation=REPORT if len(columns) > 2 else {"rows": 0},
        )
        for name, columns in COLUMNS.items()
    )
    return new_revision


def _cells(name: MatrixName, columns: tuple[str, ...], rows: int, library: int) -> bytes:
    known = [
        [
            KnownCell(name, column, 10.0 * (j + 1), 0.5, CellSource.MEASURED, 3, 60.0)
            for j, column in enumerate(columns)
            if i < library or not j
        ]
        for i in range(rows)
    ]
    cells = cell_table(name, columns, known)
    cells["estimate"] = np.where(np.isnan(cells["value"]), 25.0, cells["value"])
    cells["low"], cells["high"] = cells["estimate"] * 0.9, cells["estimate"] * 1.1
    return cells.tobytes()


# ---- the page ----


def test_without_a_revision_the_page_explains_how_to_create_a_library(as_operator: Client) -> None:
    page = as_operator.get("/classification/").content.decode()
    assert "No revision of the matrices yet" in page
    assert "profile_library" in page


def test_the_revision_in_force_is_shown(as_operator: Client) -> None:
    revision(1, is_current=False, reason="library")
    revision(2, rows=5)
    page = as_operator.get("/classification/").content.decode()
    assert "<b>2</b> is in force: <b>2</b> library and <b>3</b> live applications" in page
    assert "14 points" in page
    assert "88.0 %" in page


def test_an_earlier_revision_is_marked_as_not_in_force(as_operator: Client) -> None:
    revision(1, is_current=False)
    revision(2)
    page = as_operator.get("/classification/?revision=1").content.decode()
    assert "Revision 1 is not in force" in page
    assert "/figures/matrix/?matrix=tolerated&amp;revision=1" in page


@pytest.mark.parametrize("number", ["7", "99999999999"])
def test_an_unknown_revision_is_not_found(as_operator: Client, number: str) -> None:
    revision(1)
    expected = {"7": 404, "99999999999": 200}[number]  # without a number: the active revision
    assert as_operator.get(f"/classification/?revision={number}").status_code == expected


def test_a_requested_old_revision_is_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for number in (1, 2, 3):
        revision(number, is_current=number == 3)
    monkeypatch.setattr(revision_selectors, "REVISIONS_SHOWN", 2)
    revisions = revision_selectors.revisions(MatrixQuery(MatrixName.CAUSED, 1))
    assert [row.revision.number for row in revisions.rows] == [3, 2, 1]
    assert (revisions.all, revisions.shown) == (3, revisions.rows[2])


@pytest.mark.parametrize("matrix", list(MatrixName))
def test_every_matrix_has_a_page_and_its_figures(as_operator: Client, matrix: MatrixName) -> None:
    revision(1)
    response = as_operator.get(f"/classification/?matrix={matrix.value}")
    assert response.status_code == 200
    body = json.loads(as_operator.get(f"/figures/matrix/?matrix={matrix.value}").content)
    assert body["api"] == f"/api/v1/matrices/{matrix.value}/cells/"
    assert as_operator.get(body["api"]).status_code == 200


def test_matrices_too_small_to_evaluate_are_named(as_operator: Client) -> None:
    revision(1)
    page = as_operator.get("/classification/?matrix=base_rate").content.decode()
    assert "too few cells" in page


def test_drifted_applications_are_listed(as_operator: Client) -> None:
    revision(1)
    about = factories.application("web")
    Drift.objects.create(application=about, observations=12, mean_error=0.1, flagged_s=3600.0)
    page = as_operator.get("/classification/").content.decode()
    assert "1 application drifted" in page
    assert "11 % faster than predicted since day 1, 01:00, n = 12" in strip_tags(page)


def test_a_running_reclassification_shows_its_progress(as_operator: Client) -> None:
    revision(4)
    Operation.objects.create(
        kind=selectors.RECLASSIFY,
        status="running",
        progress=3,
        total=12,
        message="learning caused",
    )
    Operation.objects.create(kind=selectors.RECLASSIFY, status="succeeded")
    page = as_operator.get("/classification/").content.decode()
    assert "Revision 5 is being trained, step 3 of 12" in page
    assert "learning caused" in page


def test_a_reclassification_is_shown_to_those_who_may_read_the_operation(
    as_viewer: Client,
) -> None:
    revision(4)
    operation = Operation.objects.create(kind=selectors.RECLASSIFY, status="running")
    assert "is being trained" not in as_viewer.get("/classification/").content.decode()
    assert as_viewer.get(f"/api/v1/operations/{operation.pk}/").status_code == 404
    operation.created_by = User.objects.get(username="vic")
    operation.save()
    assert "is being trained" in as_viewer.get("/classification/").content.decode()
    assert as_viewer.get(f"/api/v1/operations/{operation.pk}/").status_code == 200


def test_a_viewer_cannot_reclassify(as_viewer: Client) -> None:
    revision(1)
    assert "Reclassify now" not in as_viewer.get("/classification/").content.decode()


def test_a_search_without_matches_is_named(as_operator: Client) -> None:
    revision(1)
    page = as_operator.get("/classification/?q=<nobody>").content.decode()
    assert "No row matches <code>&lt;nobody&gt;</code>" in page


def test_the_page_needs_a_fixed_number_of_queries(
    as_operator: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(1, 8):
        revision(number, is_current=number == 7)
    as_operator.get("/classification/")
    # session, user, rights; revisions, their matrices, how many; row names; drifted, how many;
    # operation; the clock
    with django_assert_num_queries(11):
        as_operator.get("/classification/")


# ---- large matrices ----


def test_a_large_matrix_is_paged(as_operator: Client) -> None:
    revision(1, rows=1000, library=28)
    page = as_operator.get("/classification/?page=2").content.decode()
    assert "Page 2 of 25, 1,000 rows in total" in page
    assert "page=1" in page
    assert "page=3" in page


def test_a_page_of_a_matrix_has_its_rows() -> None:
    revision(1, rows=100, library=28)
    data = selectors.heat(MatrixQuery(MatrixName.TOLERATED, None, page=3))
    assert (data.first, data.matching, len(data.rows)) == (80, 100, 20)
    assert data.rows[0] == "app-0052"
    assert not data.library.any()


def test_a_page_beyond_the_last_shows_the_last() -> None:
    names = {i: f"a{i}" for i in range(45)}
    shown = selectors.rows_shown(names, MatrixQuery(MatrixName.CAUSED, None, page=9))
    assert (shown.page, shown.pages, shown.places) == (2, 2, (40, 41, 42, 43, 44))


def test_rows_are_found_by_part_of_their_name() -> None:
    shown = selectors.rows_shown(
        {0: "Web-1", 1: "index", 2: "web-2"}, MatrixQuery(MatrixName.CAUSED, None, text="WEB")
    )
    assert (shown.places, shown.matching) == ((0, 2), 2)


def test_a_figure_of_a_large_matrix_stays_small(as_operator: Client) -> None:
    revision(1, rows=1000, library=28)
    assert len(as_operator.get("/figures/matrix/?page=12").content) < 150_000


# ---- data ----


def test_rows_without_any_value_are_omitted() -> None:
    new_revision = revision(1, rows=5)
    settings = new_revision.matrices.get(matrix="framework")
    cells = cells_in(settings).copy()
    cells[1:4] = unknown_cells(3, len(settings.columns))
    settings.cells = cells.tobytes()
    settings.save()
    query = MatrixQuery(MatrixName.FRAMEWORK, None)
    data = selectors.heat(query)
    assert data.rows == ("library-batch-01", "app-0002")
    assert (data.cells, data.matching) == (2 * len(settings.columns), 2)
    assert list(selectors.row_names(query).values()) == list(data.rows)


def test_cells_have_sources_and_rows_have_links() -> None:
    factories.application("app-0000", kind="batch")
    revision(1)
    data = selectors.heat(IN_FORCE)
    assert data.links == ("", "", "/applications/app-0000/")
    assert data.kinds == ("batch", "batch", "batch")
    assert data.source[2].tolist() == [SourceCode.MEASURED] + [SourceCode.INFERRED] * 9
    assert data.value[2, :2].tolist() == [10.0, 25.0]
    assert (data.known, data.cells) == (21, 30)


def test_without_a_revision_every_figure_is_empty() -> None:
    assert matrix_heatmap.title(selectors.heat(IN_FORCE)) == "No matrix yet"
    assert selectors.singular_values(IN_FORCE).values.size == 0
    assert np.isnan(selectors.calibration(IN_FORCE).covered)
    assert selectors.revision_errors(IN_FORCE).numbers.size == 0


def test_errors_are_ordered_by_revision_without_unevaluated_ones() -> None:
    revision(1, is_current=False)
    revision(2, is_current=False)
    revision(3)
    MatrixRevision.objects.filter(revision=2).update(evaluation={})
    data = selectors.revision_errors(IN_FORCE)
    assert data.numbers.tolist() == [1, 3]
    assert data.is_points
    assert selectors.revision_errors(MatrixQuery(MatrixName.BASE_RATE, None)).numbers.size == 0


def test_calibration_uses_the_requested_revision() -> None:
    revision(1, is_current=False)
    revision(2)
    MatrixRevision.objects.filter(revision=2).update(evaluation={})
    assert np.isnan(selectors.calibration(IN_FORCE).covered)
    assert selectors.calibration(MatrixQuery(MatrixName.TOLERATED, 1)).covered == 0.88


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("library-latency-critical-03", "latency_critical"),
        ("library-batch-01", "batch"),
        ("library-of-congress", ""),
        ("web", ""),
    ],
)
def test_library_names_contain_their_kind(name: str, kind: str) -> None:
    assert selectors.kind_of_library_row(name) == kind


def test_an_address_survives_a_round_trip() -> None:
    query = selectors.read_query({"matrix": "caused", "revision": "3", "page": "2", "q": " web "})
    assert query == MatrixQuery(MatrixName.CAUSED, 3, page=2, text="web")
    assert query.query == "?matrix=caused&revision=3&q=web&page=2"
    assert selectors.read_query({"matrix": "nothing", "revision": "-1", "page": "x"}) == IN_FORCE


def test_a_matrix_figure_needs_three_queries(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    factories.cluster()
    revision(1)
    with django_assert_num_queries(3):
        selectors.heat(IN_FORCE)
    with django_assert_num_queries(1):
        selectors.revision_errors(IN_FORCE)
