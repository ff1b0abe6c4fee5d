"""Tables of measured figures in docs/ are equal to the stored results of the benchmarks."""

import sys
from pathlib import Path

import pytest

from benchmarks import _results, _run
from benchmarks._results import (
    PublishedTable,
    holds_figures,
    load,
    markdown,
    published,
    store,
    updated,
)
from controlplane.embedded.instance import PROJECT

DOCS = PROJECT / "docs"
PAGES = sorted(page.name for page in DOCS.glob("*.md"))
STORED = sorted(path.stem for path in _results.RESULTS.glob("*.json"))
TABLE = [["load", "speed"], ["0.50", "0.9"], ["0.70", "0.8"]]
PAGE = f"# Page\n\n<!-- results: demo#speeds -->\n{markdown(TABLE)}\n\ntext\n"

# Tables of figures that are settings or inputs, by page and names of the first two columns.
NOT_MEASURED = {
    ("backends.md", "limit", "value"),  # limits of the files of a command
    ("diagnosis.md", "suspect", "v_k(t)"),  # the model
    ("emulation.md", "kind", "budget"),  # limits of the profiling plan
    ("operations.md", "probe", "answers"),  # HTTP statuses
    ("placement-scenarios.md", "job", "arrives"),  # jobs of the papers' scenarios
}


def tables(page: str) -> list[PublishedTable]:
    return list(published((DOCS / page).read_text()))


@pytest.mark.parametrize("page", PAGES)
def test_marked_tables_are_equal_to_the_stored_results(page: str) -> None:
    marked = [table for table in tables(page) if table.marker is not None]
    stored = [load(name)["tables"][part] for name, part in (t.marker for t in marked if t.marker)]
    assert [table.cells for table in marked] == stored


@pytest.mark.parametrize("name", STORED)
def test_a_result_names_where_it_was_measured(name: str) -> None:
    result = load(name)
    missing = {"benchmark", "arguments", "date", "commit", "machine"} - result.keys()
    assert missing == set()
    assert result["transcribed"] in {True, False}
    assert result["tables"] or result["figures"]


def test_every_stored_table_is_published() -> None:
    shown = {table.marker for page in PAGES for table in tables(page)}
    stored = {(name, part) for name in STORED for part in load(name)["tables"]}
    assert stored <= shown


@pytest.mark.parametrize("page", PAGES)
def test_every_table_of_figures_names_its_result(page: str) -> None:
    unmarked = {
        (page, table.cells[0][0], table.cells[0][1])
        for table in tables(page)
        if table.marker is None and holds_figures(table.cells)
    }
    assert unmarked <= NOT_MEASURED


def test_a_table_of_numbers_is_a_table_of_figures_and_one_of_words_is_not() -> None:
    assert holds_figures(TABLE)
    assert not holds_figures([["name", "meaning"], ["a", "the first"], ["b", "2 of them"]])


def test_a_changed_cell_differs_from_the_result() -> None:
    (table,) = published(PAGE.replace("0.8", "0.9"))
    assert table.marker == ("demo", "speeds")
    assert table.cells != TABLE


def test_a_table_without_a_marker_is_found() -> None:
    (table,) = published(markdown(TABLE))
    assert table == PublishedTable(0, TABLE, None)


def test_results_are_stored_and_written_into_pages(tmp_path: Path) -> None:
    changed = [*TABLE[:2], ["0.70", "0.85"], ["0.85", "0.7"]]
    store(
        "demo", arguments={"seeds": 5}, figures=[1.0], tables={"speeds": changed}, folder=tmp_path
    )
    result = load("demo", tmp_path)
    assert (result["arguments"], result["transcribed"]) == ({"seeds": 5}, False)
    page = updated(PAGE, {"demo": result})
    (table,) = published(page)
    assert table.cells == changed
    assert page.endswith("\n\ntext\n")


def test_a_benchmark_stores_what_it_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run.main(["structure", "--root", str(PROJECT)], tmp_path) == 0
    result = load("structure", tmp_path)
    assert result["figures"] == capsys.readouterr().out.splitlines()
    assert result["arguments"] == {"argv": ["--root", str(PROJECT)]}


def test_a_benchmark_that_stores_its_result_under_another_name_is_not_stored_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def part_of_a_benchmark(*_: object, **__: object) -> None:
        store("testbed_part", arguments={}, figures=[], tables={}, folder=tmp_path)
        sys.stdout.write("a figure\n")

    monkeypatch.setattr("runpy.run_module", part_of_a_benchmark)
    assert _run.main(["testbed"], tmp_path) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["testbed_part.json"]


def test_a_help_text_is_not_stored(tmp_path: Path) -> None:
    assert _run.main(["structure", "--help"], tmp_path) == 0
    assert list(tmp_path.iterdir()) == []


def test_what_a_run_prints_does_not_replace_stored_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store("policies", arguments={}, figures=[], tables={"policies": TABLE}, folder=tmp_path)
    monkeypatch.setattr("runpy.run_module", lambda *_, **__: sys.stdout.write("{}\n"))
    assert _run.main(["policies", "--json"], tmp_path) == 0
    assert load("policies", tmp_path)["tables"] == {"policies": TABLE}


def test_a_benchmark_that_fails_stores_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # other tests import it, and a module that is loaded twice is warned about
    monkeypatch.delitem(sys.modules, "benchmarks.policies", raising=False)
    assert _run.main(["policies", "--nosuch"], tmp_path) == 2
    assert list(tmp_path.iterdir()) == []
