"""berth classify: any CSV, no server."""

import json
from pathlib import Path

import pytest

from controlplane.cli.main import main

MATRIX = "job,a,b,c\nx,1,2,3\ny,2,4,6.5\nz,1.5,3.2,5\nnew,4,,\n"


def written(folder: Path, text: str) -> str:
    path = folder / "matrix.csv"
    path.write_text(text)
    return str(path)


def test_only_empty_cells_are_printed_with_their_names_and_intervals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["classify", written(tmp_path, MATRIX), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [(cell["row"], cell["column"]) for cell in answer["cells"]] == [
        ("new", "b"),
        ("new", "c"),
    ]
    assert answer["method"] == "blend"
    assert answer["seconds"] > 0
    cell = answer["cells"][0]
    assert cell["low"] < cell["value"] < cell["high"]
    assert cell["value"] == pytest.approx(8.0, rel=0.25)


@pytest.mark.parametrize("method", ["pq_quasar", "blend"])
def test_runtimes_are_answered_as_runtimes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], method: str
) -> None:
    path = written(tmp_path, MATRIX)
    assert main(["classify", path, "--json", "--lower-is-better", "--method", method]) == 0
    cell = json.loads(capsys.readouterr().out)["cells"][0]
    assert cell["low"] < cell["value"] < cell["high"]
    assert 1.0 < cell["value"] < 20.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "holds no matrix"),
        ("job,a,b\n", "holds no matrix"),
        ("job,a,b\nx,1\n", "line 2 has 2 cells"),
        ("job,a,b\nx,1,0\n", "row 'x', column 'b': '0' is no measurement"),
        ("job,a,b\nx,1,-3\n", "row 'x', column 'b': '-3' is no measurement"),
        ("job,a,b\nx,1,fast\n", "row 'x', column 'b': 'fast' is no measurement"),
        ("job,a,b\nx,1,inf\n", "row 'x', column 'b': 'inf' is no measurement"),
        ("job,a,b\nx,1,\ny,2,NaN\n", "column 'b' has no measurement"),
    ],
)
def test_what_cannot_be_completed_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, expected: str
) -> None:
    assert main(["classify", written(tmp_path, text)]) == 1
    assert expected in capsys.readouterr().err


def test_an_unknown_method_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["classify", written(tmp_path, MATRIX), "--method", "magic"]) == 2
    assert "there are blend" in capsys.readouterr().err


def test_a_missing_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["classify", "nowhere.csv"]) == 1
    assert "cannot read nowhere.csv" in capsys.readouterr().err
