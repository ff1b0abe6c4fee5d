"""berth reproduce: a paper's figures beside ours, no server."""

import json
from pathlib import Path

import pytest

from controlplane.cli.errors import Exit
from controlplane.cli.main import main


def test_a_figure_of_clavismo_has_the_papers_numbers_and_ours(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["reproduce", "clavismo", "--figure", "13", "--seeds", "1-2"]
    assert main([*arguments, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["paper"] == "clavismo"
    assert answer["seeds"] == [1, 2]
    (figure,) = answer["figures"]
    rows = {row["key"]: row for row in figure["quantities"]}
    assert {key: rows[key]["paper"] for key in ("T", "X", "energy")} == {
        "T": 40.0, "X": 62.0, "energy": 46.0,
    }  # fmt: skip
    assert rows["X"]["outcome"] == "input"
    assert 0.0 < rows["energy"]["ours"] < 46.0
    assert rows["energy"]["outcome"] == "differs"
    assert rows["energy"]["why"]
    assert rows["yz"]["outcome"] == "agrees"
    assert all(row["is_same"] and row["interval"] is None for row in rows.values())
    assert "the seed changes nothing" in figure["note"]


def test_a_figure_without_a_reduced_size_is_measured_as_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["reproduce", "clavismo", "--figure", "13", "--seeds", "1", "--json"]
    answers = []
    for small in ([], ["--small"]):
        assert main([*arguments, *small]) == 0
        answers.append(json.loads(capsys.readouterr().out))
    assert answers[0] == answers[1]


def test_a_paper_on_the_replay_engine_is_measured_at_its_reduced_size(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["reproduce", "quasar", "--small", "--seeds", "1", "--json"]
    assert main(arguments) == 0
    (figure,) = json.loads(capsys.readouterr().out)["figures"]
    rows = {row["key"]: row for row in figure["quantities"]}
    assert figure["title"].endswith("(reduced)")
    assert rows["Q"]["paper"] == 98.0
    assert rows["Q"]["ours"] > max(rows["RP"]["ours"], rows["RL"]["ours"])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["mesos"], "PAPER must be one of clavismo, paragon, quasar, tarcil, thesis, not 'mesos'"),
        (["thesis", "--figure", "9"], "thesis has the figures table-4.1, table-4.2, 4.3, 4.7"),
        (["thesis"], "figure table-4.1 needs the data set google_2011: --data is not given"),
        (["clavismo", "--figure", "14", "--data", "/none"], "/none/swim_facebook does not exist"),
        (["clavismo", "--seeds", "x"], "seeds must look like 1-5"),
    ],
    ids=["paper", "figure", "no-data", "no-folder", "seeds"],
)
def test_unusable_arguments_are_refused_in_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", *arguments]) == Exit.USAGE
    assert sentence in capsys.readouterr().err


def test_an_empty_data_set_is_reported_with_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "google_2011"
    folder.mkdir()
    arguments = ["reproduce", "thesis", "--figure", "4.7", "--data", str(tmp_path)]
    assert main(arguments) == Exit.USAGE
    assert "task_events.csv.gz: cannot be read" in capsys.readouterr().err


def test_a_value_that_every_seed_gives_is_said_to_be_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["reproduce", "clavismo", "--figure", "13", "--seeds", "1-2"]) == 0
    text = capsys.readouterr().out
    assert "same for all seeds" in text
    assert "- The jobs, their times and their behaviour are fixed" in text
    assert ".. " not in text
