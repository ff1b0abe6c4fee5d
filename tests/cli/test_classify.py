"""berth classify: any CSV, no server."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from controlplane.cli.errors import Exit
from controlplane.cli.main import main

MATRIX = "job,a,b,c\nx,1,2,3\ny,2,4,6.5\nz,1.5,3.2,5\nnew,4,,\n"
ROOT = Path(__file__).parents[2]


def written(folder: Path, content: str | bytes) -> str:
    path = folder / "matrix.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def answered(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["classify", *arguments, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert isinstance(answer, dict)
    return answer


def test_only_empty_cells_are_printed_with_their_names_and_intervals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = answered(capsys, written(tmp_path, MATRIX))
    assert [(cell["row"], cell["column"]) for cell in answer["cells"]] == [
        ("new", "b"),
        ("new", "c"),
    ]
    assert list(answer) == ["cells", "method", "seconds"]
    assert answer["method"] == "blend"
    assert answer["seconds"] > 0
    cell = answer["cells"][0]
    assert cell["low"] < cell["value"] < cell["high"]
    assert cell["value"] == pytest.approx(8.0, rel=0.25)


def test_cells_have_a_flags_key_only_if_flagged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(1)
    lines = [f"w{i},{','.join(f'{v:.4f}' for v in rng.lognormal(0, 0.3, 5))}" for i in range(12)]
    sound = "job,a,b,c,d,e\n" + "\n".join(lines) + "\nnew,1,1.2,0.9,,\n"
    keys = ["row", "column", "value", "low", "high"]
    assert [list(c) for c in answered(capsys, written(tmp_path, sound))["cells"]] == [keys] * 2
    lone = written(tmp_path, sound + "lone,1,,,,\nbare,,,,,\n")
    cells = answered(capsys, lone)["cells"]
    flags = {cell["row"]: cell.get("flags") for cell in cells}
    assert flags == {"new": None, "lone": ["one_cell"], "bare": ["no_cell"]}


def test_flags_are_explained_below_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["classify", written(tmp_path, MATRIX)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split() == ["row", "column", "value", "low", "high", "flags"]
    assert printed[1].split()[:2] == ["new", "b"]
    assert printed[1].endswith("few_rows, one_cell")
    assert printed[3].startswith("few_rows: The library has fewer than five")
    assert printed[4].startswith("one_cell: Only one cell is measured")
    assert printed[5].startswith("2 cells by blend in ")


def test_a_single_cell_is_counted_in_the_singular(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["classify", written(tmp_path, "job,a,b\nx,1,2\ny,1,2\nnew,1,\n")]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("1 cell by blend in ")


def test_yaml_and_json_have_the_same_content(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["classify", written(tmp_path, MATRIX), "-o", "yaml"]) == 0
    printed = capsys.readouterr().out
    assert '- row: "new"' in printed
    assert 'method: "blend"' in printed


@pytest.mark.parametrize("method", ["pq_quasar", "blend"])
def test_runtimes_are_estimated_as_runtimes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], method: str
) -> None:
    path = written(tmp_path, MATRIX)
    cell = answered(capsys, path, "--lower-is-better", "--method", method)["cells"][0]
    assert cell["low"] < cell["value"] < cell["high"]
    assert 1.0 < cell["value"] < 20.0


# --- errors name the position and the accepted values

A_PLAIN_NUMBER = "write a plain number with a decimal point"
POSITIVE = "must be positive; leave the cell of a failed run empty"
FINITE = "write a finite number, at most 1.7e308"


@pytest.mark.parametrize(
    ("text", "expected", "right"),
    [
        ("", " does not contain a matrix", "the first line names the configurations"),
        ("\n \n", " does not contain a matrix", "the first line names the configurations"),
        ("job,a,b\n", " does not contain a matrix", "every other line is a workload"),
        ("job\nx\n", " does not contain a matrix", "the first line names the configurations"),
        ("job,a,b\nx\n", ", line 2 has 1 cell", "the first line has 3; workload 'x'"),
        ("job,a,b\nx,1,2\n\ny,1,2,3\n", ", line 4 has 4 cells", "the first line has 3"),
        ("job,a,b\nx,1,0\n", ", line 2, row 'x', column 'b': '0' is not a measurement", POSITIVE),
        (
            "job,a,b\nx,1,-3\n",
            ", line 2, row 'x', column 'b': '-3' is not a measurement",
            POSITIVE,
        ),
        ("job,a,b\nx,-inf,1\n", ", line 2, row 'x', column 'a': '-inf' is not", POSITIVE),
        ("job,a,b\nx,1,1e-400\n", "column 'b': '1e-400' is not a measurement", POSITIVE),
        ("job,a,b\nx,1,fast\n", "column 'b': 'fast' is not a measurement", A_PLAIN_NUMBER),
        ("job,a,b\nx,1,12ms\n", "column 'b': '12ms' is not a measurement", A_PLAIN_NUMBER),
        ("job,a,b\nx,1,1_000\n", "column 'b': '1_000' is not a measurement", A_PLAIN_NUMBER),
        ("job,a,b\nx,1,٤\n", "column 'b': '٤' is not a measurement", A_PLAIN_NUMBER),
        (
            'job,a,b\nx,1,"1,5"\n',
            "column 'b': '1,5' is not a measurement",
            "such as 1.5, or leave",
        ),
        ("job,a,b\nx,1,inf\n", "column 'b': 'inf' is not a measurement", FINITE),
        ("job,a,b\nx,1,1e309\n", "column 'b': '1e309' is not a measurement", FINITE),
        ("job,a,b\nx,1,\ny,2,NaN\n", ": column 'b' has no measurements", "or remove the column"),
        ("job,a,b,a\nx,1,2,3\n", "line 1: columns 2 and 4 are both named 'a'", "a different name"),
        ("job,a, \nx,1,2\n", ", line 1: column 3 has no name", "or remove the column"),
        ("job,a\nx,1\ny,2\nx,3\n", "line 4: workload 'x' is already on line 2", "as 'x/2'"),
        ("job,a,b\n ,1,2\n", ", line 2: the workload has no name", "the first cell of every"),
        ("job;a;b\nx;1;2\n", ", line 1: cells are separated by semicolons", "a decimal point"),
        ("job\ta\tb\nx\t1\t2\n", ", line 1: cells are separated by tabs", "by commas"),
        ('job,a,b\nx,1,2\n"y,2,3\nz,1,2\n', ", line 3: the quotation marks do not", "end of data"),
    ],
)
def test_an_invalid_matrix_is_reported_with_advice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, expected: str, right: str
) -> None:
    path = written(tmp_path, text)
    assert main(["classify", path]) == 1
    title, detail = capsys.readouterr().err.splitlines()
    assert title.startswith(f"berth: {path}")
    assert expected in title
    assert right in detail


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"job,a,b\nx,1,2\ny\xe9,2,3\n", ", line 3: byte 0xe9 is not UTF-8"),
        ("job,a,b\nx,1,2\n".encode("utf-16"), ", line 1: UTF-16 is not UTF-8"),
    ],
)
def test_a_wrong_encoding_is_reported_with_the_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, expected: str
) -> None:
    assert main(["classify", written(tmp_path, content)]) == 1
    printed = capsys.readouterr().err
    assert expected in printed
    assert "in UTF-8" in printed


def test_a_long_name_is_truncated_in_the_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["classify", written(tmp_path, f"job,a,b\n{'x' * 1000},1,no\n")]) == 1
    assert len(capsys.readouterr().err) < 400


def test_an_unknown_method_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["classify", written(tmp_path, MATRIX), "--method", "magic"]) == 2
    assert "methods: blend" in capsys.readouterr().err


def test_a_negative_seed_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["classify", written(tmp_path, MATRIX), "--seed", "-1"]) == 2
    assert "--seed must be at least 0" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["nowhere.csv", "."])
def test_a_file_that_cannot_be_opened_is_named(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["classify", name]) == Exit.USAGE
    assert f"cannot read {name}" in capsys.readouterr().err


def test_a_runtime_too_short_to_invert_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, "job,a,b\nx,5e-324,\ny,1,2\nz,2,3\n")
    assert main(["classify", path, "--lower-is-better", "--method", "pq_biased"]) == 1
    assert "row 'x', column 'a': 4.94066e-324 is too short" in capsys.readouterr().err


# --- unusual files that are accepted


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + MATRIX.encode(),
        MATRIX.replace("\n", "\r\n").encode(),
        MATRIX.replace("\n", "\n\n").encode(),
        MATRIX.replace("4,,", "4,NaN,n/a").encode(),
        MATRIX.replace("4,,", " 4 , ,-").encode(),
    ],
    ids=["byte order mark", "Windows lines", "blank lines", "words for empty", "spaces"],
)
def test_equivalent_csv_formats_give_the_same_estimates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    plain = answered(capsys, written(tmp_path, MATRIX))["cells"]
    assert answered(capsys, written(tmp_path, content))["cells"] == plain


def test_quoted_names_are_kept_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = 'job,"a, b","c\nd"\n"x ""q""",1,2\n" y, é",2,\nz,3,5\n'
    cells = answered(capsys, written(tmp_path, text))["cells"]
    assert [(cell["row"], cell["column"]) for cell in cells] == [(" y, é", "c\nd")]


def test_lines_are_counted_across_quoted_line_breaks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["classify", written(tmp_path, 'job,"a\nb",c\nx,1,2\ny,0,1\n')]) == 1
    assert "line 4, row 'y'" in capsys.readouterr().err


@pytest.mark.parametrize("extra", [[], ["--method", "pq_biased"], ["--lower-is-better"]])
def test_the_largest_numbers_get_finite_estimates_with_a_flag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], extra: list[str]
) -> None:
    rows = "".join(f"w{i},{i},{i + 1},{2 * i}\n" for i in range(1, 8))
    path = written(tmp_path, f"job,a,b,c\nx,1e308,1e308,\n{rows}")
    (cell,) = answered(capsys, path, *extra)["cells"]
    assert 0.0 < cell["low"] <= cell["value"] <= cell["high"] < float("inf")
    assert cell["flags"] == ["far"]


def test_constant_columns_are_estimated_with_a_flag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"w{i},5,5,5\n" for i in range(8))
    cells = answered(capsys, written(tmp_path, f"job,a,b,c\n{rows}n,5,5,\n"))["cells"]
    assert cells[0]["value"] == pytest.approx(5.0)
    assert cells[0]["flags"] == ["few_rows"]


def test_a_full_matrix_has_no_estimates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, "job,a,b\nx,1,2\ny,2,3\n")
    assert answered(capsys, path)["cells"] == []
    assert main(["classify", path]) == 0
    assert capsys.readouterr().out == f"{path} has no empty cells.\n"


@contextmanager
def standard_input(content: bytes) -> Iterator[None]:
    before = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(content))
    try:
        yield
    finally:
        sys.stdin = before


def test_standard_input_is_read_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    with standard_input(MATRIX.encode()):
        assert len(answered(capsys, "-")["cells"]) == 2
    with standard_input(b"job,a\nx,-1\n"):
        assert main(["classify", "-"]) == 1
    assert "standard input, line 2, row 'x', column 'a'" in capsys.readouterr().err


def test_classify_needs_no_settings_server_or_database(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "controlplane.cli.main", "classify", "-", "--json"]
    done = subprocess.run(  # noqa: S603 - our own program
        command,
        input=MATRIX.encode(),
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    assert len(json.loads(done.stdout)["cells"]) == 2
    assert done.stderr == b""


def test_a_hundred_thousand_rows_are_completed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(3)
    full = np.exp(rng.normal(size=(100_000, 1)) * 0.3 + rng.normal(size=(1, 4)))
    lines = [f"w{i},{a:.4f},{b:.4f},{c:.4f},{d:.4f}" for i, (a, b, c, d) in enumerate(full[:400])]
    lines += [f"w{i},{full[i, 0]:.4f},{full[i, 1]:.4f},," for i in range(400, 100_000)]
    cells = answered(capsys, written(tmp_path, "job,a,b,c,d\n" + "\n".join(lines)))["cells"]
    assert len(cells) == 2 * 99_600
    value = np.array([cell["value"] for cell in cells]).reshape(-1, 2)
    assert np.abs(value / full[400:, 2:] - 1.0).mean() < 0.1
