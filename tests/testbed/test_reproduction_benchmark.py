"""The report of `./dev bench reproduction`."""

import json
from pathlib import Path

import pytest

from benchmarks import reproduction


def test_the_papers_number_and_ours_are_stored_for_each_policy(tmp_path: Path) -> None:
    argv = ["--papers", "quasar", "--seeds", "1-1", "--small", "--results", str(tmp_path)]
    assert reproduction.main(argv) == 0
    stored = json.loads((tmp_path / "reproduction-small.json").read_text())
    heading, *rows = stored["tables"]["figures"]
    assert heading == list(reproduction.HEADINGS)
    quantities = [
        each for figure in stored["figures"][0]["figures"] for each in figure["quantities"]
    ]
    assert [row[1] for row in rows] == [each["quantity"] for each in quantities]
    stated = {row[2] for row in rows if row[0] == "quasar 11"}
    assert {"98 %", "83 %", "62 %"} <= stated


def test_an_unknown_paper_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        reproduction.main(["--papers", "quasar,borg"])
    assert "--papers must name paragon, quasar, tarcil, not borg" in capsys.readouterr().err
