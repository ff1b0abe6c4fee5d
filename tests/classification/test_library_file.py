"""The offline library as a file: saved, loaded unchanged, or refused with all errors."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from apps.classification.models import Revision
from apps.classification.selectors import library_rows
from tests import factories

pytestmark = pytest.mark.django_db

SMALL = ("cr1.8xlarge", "m1.large")
CELL: dict[str, Any] = {
    "matrix": "scale_up", "column": "8", "value": 6.1, "standard_error": 0.1, "samples": 8,
}  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "library.json"


@pytest.fixture(autouse=True)
def _clock() -> None:
    factories.cluster(seen_cluster_s=0.0)


def say(command: str, path: Path) -> list[str]:
    """Run a command; return its output lines."""
    out = StringIO()
    call_command(command, path, stdout=out)
    return out.getvalue().splitlines()


def refused(path: Path, data: Any) -> str:
    """Load an invalid document; return the error."""
    path.write_text(json.dumps(data))
    with pytest.raises(CommandError) as error:
        call_command("load_library", path)
    assert not Revision.objects.exists()
    return str(error.value)


def document(**cell: Any) -> dict[str, Any]:
    """A library of one cell."""
    row = {"name": "kmeans", "cells": [CELL | cell]}
    return {"platforms": list(SMALL), "applications": [row]}


def test_a_saved_library_loads_unchanged(path: Path) -> None:
    factories.library(SMALL)
    before = library_rows()
    assert say("save_library", path) == [
        f"28 applications on 2 platforms, revision 1, saved in {path}"
    ]
    Revision.objects.all().delete()
    assert say("load_library", path) == ["library of 28 applications, revision 1"]
    after = library_rows()
    assert (after.rows, after.platforms) == (before.rows, before.platforms)


def test_platforms_missing_from_a_loaded_library_are_named(path: Path) -> None:
    factories.library(SMALL)
    say("save_library", path)
    factories.server(of=factories.platform("new.box", cores=4))
    output = say("load_library", path)
    assert "new.box" in output[1]
    assert "profile_library" in output[2]


def test_saving_without_a_library_is_an_error(path: Path) -> None:
    with pytest.raises(CommandError, match="profile_library"):
        call_command("save_library", path)
    assert not path.exists()


def test_an_unwritable_file_is_an_error(tmp_path: Path) -> None:
    factories.library(SMALL)
    with pytest.raises(CommandError, match="cannot write"):
        call_command("save_library", tmp_path / "nowhere" / "library.json")


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ({"matrix": "scale_down"}, "/applications/0/cells/0/matrix: expected one of base_rate"),
        ({"column": "3"}, "/applications/0/cells/0/column: expected one of 1, 2, 4"),
        ({"value": 0}, "/applications/0/cells/0/value: expected more than 0, got 0"),
        ({"value": -1}, "/applications/0/cells/0/value: expected a number from 0"),
        ({"value": "6"}, "/applications/0/cells/0/value: expected a number"),
        ({"value": None}, "/applications/0/cells/0/value: expected a number"),
        ({"value": float("nan")}, "/applications/0/cells/0/value: expected a number"),
        ({"value": 1e308}, "/applications/0/cells/0/value: expected a number from 0"),
        (
            {"matrix": "caused", "column": "l1i", "value": 101},
            "/applications/0/cells/0/value: expected a number from 0 to 100, got 101",
        ),
        ({"standard_error": -0.1}, "/applications/0/cells/0/standard_error: expected a number"),
        ({"samples": 0}, "/applications/0/cells/0/samples: expected a whole number from 1"),
        ({"sigma": 1}, "/applications/0/cells/0/sigma: expected one of matrix, column"),
    ],
)
def test_an_invalid_cell_is_named(path: Path, cell: dict[str, Any], message: str) -> None:
    assert message in refused(path, document(**cell))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "expected an object with platforms and applications, got []"),
        ({}, "/platforms: expected a list of platform names"),
        (document() | {"platforms": ["a", "a"]}, "/platforms: a platform appears twice"),
        (document() | {"applications": []}, "/applications: expected a non-empty list"),
        (document() | {"applications": 2 * document()["applications"]}, "'kmeans' appears twice"),
        (
            document() | {"applications": [{"name": "x"}]},
            "/applications/0/cells: expected a non-empty list of cells",
        ),
        (document(), "/applications: no application is measured at base_rate[metric]"),
        (
            document() | {"applications": [{"name": "x", "cells": [CELL, CELL]}]},
            "/applications/0/cells/1: scale_up[8] appears twice",
        ),
    ],
)
def test_a_document_of_another_form_is_refused(path: Path, data: Any, message: str) -> None:
    assert message in refused(path, data)
