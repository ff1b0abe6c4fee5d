"""The utility matrices and every cell of them, with provenance."""

from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from apps.classification.core.cells import unknown_cells
from apps.classification.core.matrix import MatrixName
from apps.classification.models import MatrixRevision, RevisionReason
from apps.classification.services import complete_revision, retrain
from tests import factories

CELLS = "/api/v1/matrices/heterogeneity/cells/"
PLATFORMS = ("A", "B")
LIBRARY = 28


@pytest.fixture
def library(db: None) -> int:
    return factories.library(PLATFORMS)


def cells(api: APIClient, query: str = "", *, of: str = CELLS) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = api.get(f"{of}?{query}").json()["results"]
    return results


def measured(name: str, **values: Any) -> None:
    """One cell of a live application, which is then a row of the next revision."""
    about = factories.application(name, kind="single_node")
    factories.measurement(about, **values)
    retrain(reason=RevisionReason.ROWS, report=lambda _: None)


def test_every_matrix_is_described(api: APIClient, library: int) -> None:
    matrices = api.get("/api/v1/matrices/").json()
    assert matrices["revision"] == library
    assert [matrix["name"] for matrix in matrices["results"]] == [
        name.value for name in MatrixName
    ]
    matrix = matrices["results"][1]
    assert matrix["unit"] == "x highest-end platform"
    assert (matrix["scale"], matrix["columns"]) == ("log", list(PLATFORMS))
    assert (matrix["row_count"], matrix["library_row_count"]) == (LIBRARY, LIBRARY)
    assert matrix["known_share"] == 1.0
    assert len(matrix["singular_values"]) == 2
    assert matrix["evaluation"] is None


def test_before_the_first_library_there_is_none(api: APIClient) -> None:
    assert api.get("/api/v1/matrices/").json() == {"revision": None, "results": []}
    response = api.get("/api/v1/matrices/caused/")
    assert response.status_code == 404
    assert "Profile a library of applications first" in response.json()["detail"]


def test_matrices_take_one_query_besides_the_caller(
    api: APIClient, library: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(2):
        api.get("/api/v1/matrices/")


def test_an_evaluation_is_shown_once_it_is_there(api: APIClient, library: int) -> None:
    complete_revision(library, MatrixName.CAUSED)
    evaluation = api.get("/api/v1/matrices/caused/").json()["evaluation"]
    assert evaluation["rows"] == LIBRARY
    assert 0.0 < evaluation["average"] < evaluation["p90"] < 1.0


def test_a_matrix_tells_library_rows_from_live_ones(api: APIClient, library: int) -> None:
    measured("sort", matrix="heterogeneity", column="B", value=0.5)
    rows = api.get("/api/v1/matrices/heterogeneity/").json()["rows"]
    assert [row["name"] for row in rows if not row["library"]] == ["sort"]
    assert rows[-1] == {"name": "sort", "library": False, "known": 1}


def test_an_earlier_revision_stays_readable(api: APIClient, library: int) -> None:
    measured("sort", matrix="heterogeneity", column="B", value=0.5)
    old = api.get("/api/v1/matrices/heterogeneity/?revision=1").json()
    new = api.get("/api/v1/matrices/heterogeneity/").json()
    assert (old["revision"], old["row_count"]) == (1, LIBRARY)
    assert (new["revision"], new["row_count"]) == (2, LIBRARY + 1)
    assert api.get("/api/v1/matrices/?revision=1").json()["revision"] == 1


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("/api/v1/matrices/speed/", "Matrix speed does not exist. Matrices: base_rate, hetero"),
        ("/api/v1/matrices/speed/cells/", "Matrix speed does not exist."),
        ("/api/v1/matrices/?revision=9", "Revision 9 does not exist."),
        ("/api/v1/matrices/caused/?revision=9", "Revision 9 does not exist."),
        (
            "/api/v1/matrices/caused/cells/?revision=2147483647",
            "Revision 2147483647 does not exist.",
        ),
    ],
)
def test_unknown_resources_are_named(api: APIClient, library: int, url: str, message: str) -> None:
    response = api.get(url)
    assert response.status_code == 404
    assert response.json()["detail"].startswith(message)


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ("revision=0", "invalid_parameter", "revision must be within 1 and 2147483647, not '0'."),
        (
            "revision=9999999999",
            "invalid_parameter",
            "revision must be within 1 and 2147483647, not '9999999999'.",
        ),
        ("revision=x", "invalid_parameter", "revision must be a whole number, not 'x'."),
        ("source=guess", "invalid_parameter", "source must be one of inferred, measured, over"),
        ("limit=501", "invalid_parameter", "limit must be within 1 and 500, not '501'."),
        ("ordering=value", "invalid_parameter", "ordering must be one of row, not 'value'."),
        (
            "platform=A",
            "unknown_parameter",
            "platform is not a parameter of this route; known: brief,",
        ),
        ("cursor=x", "invalid_cursor", "The cursor is invalid"),
        ("cursor=1.2.3", "invalid_cursor", "The cursor is invalid"),
        ("cursor=1.-2", "invalid_cursor", "The cursor is invalid"),
        ("cursor=1.2&revision=2", "invalid_cursor", "The cursor belongs to revision 1."),
    ],
)
def test_bad_parameters_are_refused(
    api: APIClient, library: int, query: str, code: str, message: str
) -> None:
    response = api.get(f"{CELLS}?{query}")
    assert response.status_code == 400
    assert response.json()["code"] == code
    assert response.json()["detail"].startswith(message)


def test_a_measured_cell_tells_where_it_is_from(api: APIClient, library: int) -> None:
    factories.cluster(seen_cluster_s=50.0)
    measured(
        "sort", matrix="base_rate", column="metric", value=2e9, standard_error=1e7, samples=8,
        cluster_s=40.0,
    )  # fmt: skip
    metric, in_bytes = cells(api, "row=sort", of="/api/v1/matrices/base_rate/cells/")
    assert metric["low"] < metric["value"] < metric["high"]
    del metric["low"], metric["high"]
    assert metric == {
        "row": "sort",
        "column": "metric",
        "source": "measured",
        "value": pytest.approx(2e9),
        "unit": "instructions/s",
        "standard_error": 1e7,
        "samples": 8,
        "at_seconds": 40.0,
    }
    assert (in_bytes["source"], in_bytes["unit"]) == ("inferred", "bytes/s")
    assert (in_bytes["standard_error"], in_bytes["samples"]) == (None, 0)
    assert in_bytes["low"] < in_bytes["value"] < in_bytes["high"]


def test_cells_are_filtered(api: APIClient, library: int) -> None:
    measured("sort", matrix="heterogeneity", column="B", value=0.5)
    inferred = [(c["row"], c["column"]) for c in cells(api, "source=inferred")]
    assert inferred == [("sort", "A")]
    assert len(cells(api, "column=B")) == LIBRARY + 1
    assert [c["source"] for c in cells(api, "row=sort&column=B")] == ["measured"]
    assert cells(api, "row=nobody") == []


def test_pages_cover_every_cell_once_in_both_directions(api: APIClient, library: int) -> None:
    first = api.get(f"{CELLS}?limit=20&column=B&count=exact").json()
    second = api.get(first["next"]).json()
    back = api.get(second["previous"]).json()
    assert (first["count"], first["count_is_exact"]) == (LIBRARY, True)
    assert len(first["results"]) == 20
    assert len(second["results"]) == LIBRARY - 20
    assert (first["previous"], second["next"]) == (None, None)
    assert len({c["row"] for c in first["results"] + second["results"]}) == LIBRARY
    assert back["results"] == first["results"]


def test_a_page_goes_on_in_the_revision_it_began_in(api: APIClient, library: int) -> None:
    first = api.get(f"{CELLS}?limit=50").json()
    measured("aaa", matrix="heterogeneity", column="B", value=0.5)
    last = api.get(first["next"]).json()
    assert len(last["results"]) == 2 * LIBRARY - 50
    assert api.get(f"{CELLS}?row=aaa&brief=true").json()["results"] == [
        {"row": "aaa", "column": "A"},
        {"row": "aaa", "column": "B"},
    ]


def test_unchanged_cells_are_not_sent_again(api: APIClient, library: int) -> None:
    tag = api.get(CELLS)["ETag"]
    assert api.get(CELLS, HTTP_IF_NONE_MATCH=tag).status_code == 304
    measured("sort", matrix="heterogeneity", column="B", value=0.5)
    assert api.get(CELLS, HTTP_IF_NONE_MATCH=tag).status_code == 200


def test_a_page_of_cells_takes_one_query_and_one_more_where_units_differ(
    api: APIClient, library: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(2):
        api.get(CELLS)
    with django_assert_num_queries(3):
        api.get("/api/v1/matrices/base_rate/cells/")


def test_cells_without_an_estimate_are_null(api: APIClient, db: None) -> None:
    factories.library(PLATFORMS)
    matrix = MatrixRevision.objects.get(matrix="heterogeneity")
    stored = matrix.cells
    matrix.rows = [*matrix.rows, "blank"]
    matrix.cells = bytes(stored) + unknown_cells(1, len(PLATFORMS)).tobytes()
    matrix.save()
    (cell, _) = cells(api, "row=blank")
    assert (cell["value"], cell["low"], cell["high"], cell["at_seconds"]) == (
        None,
        None,
        None,
        None,
    )


def test_matrices_require_authentication(library: int) -> None:
    assert APIClient().get("/api/v1/matrices/").status_code == 401
    assert APIClient().get(CELLS).status_code == 401
