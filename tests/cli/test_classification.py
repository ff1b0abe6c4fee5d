"""`berth app`, `berth matrices` and `berth reclassify`."""

import json

import pytest
import yaml

from apps.accounts.core.roles import Role
from apps.accounts.models import User
from apps.accounts.services import create_token, create_user, ensure_project
from apps.classification.core.matrix import MatrixName
from apps.classification.models import Override
from apps.classification.services import fold_pending, reclassify_if_due, request_folds
from apps.operations.models import Operation
from apps.workloads.models import Application
from controlplane.cli.errors import Exit
from controlplane.cli.main import main
from tests import factories
from tests.api.cluster import build_cluster
from tests.cli.conftest import Berth, rows, working

OPERATIONS = "/api/v1/operations/"
CELL = ("tolerated", "l1i", "20")


@pytest.fixture
def user(transactional_db: None) -> User:
    ensure_project("default")
    return create_user(username="olga", password=None, role=Role.OPERATOR)


@pytest.fixture
def sort(transactional_db: None) -> Application:
    """An application with one measurement: 100 MB/s per unit."""
    build_cluster()
    factories.library(("A", "B"))
    about = factories.application("sort", kind="analytics")
    for column in ("metric", "bytes"):
        factories.measurement(
            about, matrix="base_rate", column=column, value=1e8, standard_error=1e5, samples=8
        )
    request_folds([about.pk])
    fold_pending()
    return about


# ---- applications ----


def test_applications_are_listed(berth: Berth, sort: Application) -> None:
    factories.application("other", kind="batch")
    assert [row[:2] for row in rows(berth("app", "list")[1])] == [
        ["NAME", "KIND"],
        ["other", "batch"],
        ["sort", "analytics"],
    ]
    applications = json.loads(
        berth("app", "list", "-q", "so", "--kind", "analytics", "-o", "json")[1]
    )
    assert [row["name"] for row in applications] == ["sort"]


def test_an_application_is_shown_with_its_profile(berth: Berth, sort: Application) -> None:
    code, out, _ = berth("app", "show", "sort")
    assert code == Exit.OK
    assert "profile      1\n" in out
    assert "revision     1 (in force)" in out
    assert " inferred, 2 measured, 0 override" in out
    assert "drift        no measurements yet" in out
    shown = yaml.safe_load(berth("app", "show", str(sort.pk), "-o", "yaml")[1])
    assert (shown["name"], shown["classification"]["number"]) == ("sort", 1)


def test_an_application_without_a_profile_is_shown(berth: Berth) -> None:
    factories.application("new/one")
    code, out, _ = berth("app", "show", "new/one")
    assert (code, "none yet: the first job starts profiling" in out) == (Exit.OK, True)
    code, _, err = berth("app", "profile", "new/one")
    assert (code, "new/one has no profile yet." in err) == (Exit.NOT_FOUND, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "nobody"),
        ("profile", "nobody"),
        ("override", "nobody"),
        ("override", "nobody", *CELL, "--preview"),
        ("override", "nobody", *CELL, "--reason", "r"),
        ("override", "nobody", "--withdraw", "all"),
    ],
)
def test_an_unknown_application_is_not_found(berth: Berth, arguments: tuple[str, ...]) -> None:
    code, _, err = berth("app", *arguments)
    assert code == Exit.NOT_FOUND
    assert "There is no application nobody." in err
    assert "try: berth app list" in err


def test_a_profile_lists_every_cell_with_its_interval(berth: Berth, sort: Application) -> None:
    table = rows(berth("app", "profile", "sort")[1])
    assert table[0] == ["MATRIX", "COLUMN", "VALUE", "LOW", "HIGH", "UNIT", "SOURCE", "SAMPLES"]
    assert {row[0] for row in table[1:]} == {name.value for name in MatrixName}
    assert table[1][:4] == ["base_rate", "metric", "100", "M"]
    assert table[1][-3:] == ["bytes/s", "measured", "8"]
    assert table[3][:2] == ["heterogeneity", "A"]
    assert table[3][-2:] == ["inferred", "-"]


def test_a_profile_is_filtered_by_matrix(berth: Berth, sort: Application) -> None:
    table = rows(berth("app", "profile", "sort", "--matrix", "caused")[1])
    assert {row[0] for row in table[1:]} == {"caused"}
    code, _, err = berth("app", "profile", "sort", "--matrix", "speed")
    assert (code, "matrices: base_rate, heterogeneity, " in err) == (Exit.NOT_FOUND, True)


# ---- overrides ----


def test_an_override_is_set_listed_and_withdrawn(berth: Berth, sort: Application) -> None:
    code, out, err = berth("app", "override", "sort", *CELL, "--reason", "bench run 7")
    override = Override.objects.get()
    assert (code, out) == (Exit.OK, f"{override.pk}\n")
    assert "the profile will be updated shortly" in err
    _, listed = rows(berth("app", "override", "sort")[1])
    assert listed[:4] == [str(override.pk), "tolerated", "l1i", "20"]
    assert berth("app", "override", "sort", "--withdraw", str(override.pk))[0] == Exit.OK
    assert berth("app", "override", "sort")[1] == "Nothing found.\n"
    code, _, err = berth("app", "override", "sort", "--withdraw", str(override.pk))
    assert (code, "was already withdrawn at" in err) == (Exit.CONFLICT, True)


def test_all_overrides_are_withdrawn_at_once(berth: Berth, sort: Application) -> None:
    berth("app", "override", "sort", *CELL, "--reason", "r")
    berth("app", "override", "sort", "caused", "l1i", "20", "--reason", "r")
    assert berth("app", "override", "sort", "--withdraw", "all")[0] == Exit.OK
    assert not Override.objects.filter(withdrawn_at=None).exists()


def test_a_preview_shows_jobs_and_cells_and_writes_nothing(
    berth: Berth, sort: Application
) -> None:
    job = factories.job(
        "nightly", application=sort, input_bytes=30 * 10**9, tasks_total=64, submitted_s=0.0
    )
    code, out, _ = berth("app", "override", "sort", "base_rate", "bytes", "2e7", "--preview")
    assert code == Exit.OK
    assert out.startswith("Nothing was written. 1 of 1 jobs would change.\n")
    assert "-> " in out
    assert f"{job.pk}  nightly  queued  1 -> " in out
    assert not Override.objects.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tolerated",), "MATRIX, COLUMN and VALUE must be given together"),
        (("tolerated", "l1i"), "MATRIX, COLUMN and VALUE must be given together"),
        (CELL, "--reason is required"),
        ((*CELL, "--withdraw", "all"), "--withdraw cannot be combined with"),
        (("--withdraw", "all", "--preview"), "--withdraw cannot be combined with"),
        (("--withdraw", "7"), "'7' is neither the id of an override nor 'all'"),
    ],
)
def test_an_incomplete_override_is_a_usage_error(
    berth: Berth, sort: Application, arguments: tuple[str, ...], message: str
) -> None:
    code, _, err = berth("app", "override", "sort", *arguments)
    assert (code, message in err) == (Exit.USAGE, True)
    assert not Override.objects.exists()


@pytest.mark.parametrize("value", ["nan", "inf", "much"])
def test_an_invalid_number_is_a_usage_error(
    value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["app", "override", "sort", "tolerated", "l1i", value])
    assert caught.value.code == Exit.USAGE
    assert f"must be a finite number, not {value}" in capsys.readouterr().err


def test_an_invalid_cell_is_named(berth: Berth, sort: Application) -> None:
    code, _, err = berth("app", "override", "sort", "tolerated", "llc", "20", "--reason", "r")
    assert code == Exit.FAILED
    assert "/cells/0/column: must be one of memory_capacity" in err


def test_a_submitter_can_read_but_not_override(
    berth: Berth, sort: Application, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = create_token(user=user, name="weak", role=Role.SUBMITTER).secret
    monkeypatch.setenv("BERTH_TOKEN", secret)
    assert berth("app", "override", "sort", *CELL, "--preview")[0] == Exit.OK
    assert berth("app", "override", "sort", *CELL, "--reason", "r")[0] == Exit.AUTH
    assert berth("reclassify")[0] == Exit.AUTH


# ---- matrices ----


def test_the_matrices_are_listed(berth: Berth, sort: Application) -> None:
    table = rows(berth("matrices")[1])
    assert [row[0] for row in table[1:]] == [name.value for name in MatrixName]
    assert table[1] == ["base_rate", "work/s", "28", "28", "2", "100%", "-", "-", "1"]
    assert berth("matrices", "--revision", "9")[0] == Exit.NOT_FOUND


def test_a_matrix_shows_what_is_inferred(berth: Berth, sort: Application) -> None:
    berth("reclassify")
    reclassify_if_due()
    head, names, row = berth("matrices", "base_rate", "--row", "sort")[1].splitlines()[:3]
    assert head == "base_rate, work/s, revision 2 (~ inferred, ! set by hand)"
    assert (names.split(), row.split()) == (
        ["ROW", "metric", "bytes"],
        ["sort", "100", "M", "100", "M"],
    )
    _, _, row = berth("matrices", "heterogeneity", "--row", "sort")[1].splitlines()[:3]
    assert [cell[0] for cell in row.split()[1:]] == ["~", "~"]
    assert "4 of 29 rows" in berth("matrices", "caused", "--limit", "4")[1]


def test_the_json_of_a_matrix_includes_its_cells(berth: Berth, sort: Application) -> None:
    matrix = json.loads(berth("matrices", "caused", "-o", "json", "--limit", "2")[1])
    assert (matrix["name"], len(matrix["cells"])) == ("caused", 20)
    assert set(matrix["cells"][0]) >= {"row", "column", "value", "low", "high", "source"}


def test_an_unknown_matrix_or_row_is_not_found(berth: Berth, sort: Application) -> None:
    code, _, err = berth("matrices", "speed")
    assert (code, "try: berth matrices" in err) == (Exit.NOT_FOUND, True)
    code, _, err = berth("matrices", "caused", "--row", "nobody")
    assert (code, "caused has no row nobody" in err) == (Exit.NOT_FOUND, True)


# ---- revisions ----


def test_revisions_show_their_reason(berth: Berth, sort: Application) -> None:
    berth("reclassify")
    reclassify_if_due()
    table = berth("revisions")[1].splitlines()
    assert [row.split()[:2] for row in table[1:]] == [["2", "yes"], ["1", "-"]]
    assert table[1].endswith("29    requested by a user")
    assert len(json.loads(berth("revisions", "-o", "json", "--limit", "1")[1])) == 1


def test_a_second_reclassification_is_a_conflict(berth: Berth, sort: Application) -> None:
    code, out, _ = berth("reclassify")
    operation = Operation.objects.get()
    assert (code, out) == (Exit.OK, f"{operation.pk}\n")
    code, _, err = berth("reclassify")
    assert (code, "try: berth reclassify --wait" in err) == (Exit.CONFLICT, True)
    assert str(operation.pk) in err


def test_waiting_shows_progress_and_the_new_revision(
    berth: Berth, sort: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    working(monkeypatch, OPERATIONS, reclassify_if_due)
    code, out, err = berth("reclassify", "--wait")
    assert (code, out) == (Exit.OK, "revision 2; 1 profiles will be inferred again\n")
    assert err.startswith("waiting for a worker\n")


def test_waiting_follows_a_running_operation(
    berth: Berth, sort: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    berth("reclassify")
    working(monkeypatch, OPERATIONS, reclassify_if_due)
    code, out, err = berth("reclassify", "--wait", "-o", "json")
    assert "is already running; following it" in err
    assert (code, json.loads(out)["status"]) == (Exit.OK, "succeeded")
    assert Operation.objects.count() == 1


def test_interrupting_the_wait_does_not_stop_the_operation(
    berth: Berth, sort: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    working(monkeypatch, OPERATIONS, interrupt)
    code, out, err = berth("reclassify", "--wait")
    operation = Operation.objects.get()
    assert (code, out) == (130, "")
    assert f"the reclassification continues as operation {operation.pk}" in err
    assert (operation.status, operation.cancel_requested) == ("pending", False)


def test_waiting_ends_at_the_timeout(berth: Berth, sort: Application) -> None:
    code, _, err = berth("reclassify", "--wait", "--timeout", "10ms")
    assert (code, "the operation is still pending" in err) == (Exit.TIMEOUT, True)


def test_retraining_requires_a_library(berth: Berth) -> None:
    code, _, err = berth("reclassify", "--wait")
    assert code == Exit.CONFLICT
    assert "there is no library of profiled applications" in err
