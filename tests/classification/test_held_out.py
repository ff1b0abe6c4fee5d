"""The evaluation of estimators: held-out cells and scores."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from apps.classification.core.estimates import Estimates
from apps.classification.core.estimators import ESTIMATORS
from apps.classification.core.matrix import MatrixName, Scale
from benchmarks import classification
from benchmarks._compare import Sampled, against_best, overall, ratio
from benchmarks._datasets import Block, scout_multinode
from benchmarks._generated import Size, emulated, roofline_case
from benchmarks._held_out import Case, Scores, cases, method, random_cells, scores
from controlplane.embedded.instance import PROJECT

VALUES = np.random.default_rng(0).lognormal(0.0, 0.5, (12, 6))
BLOCK = Block("made.up", tuple("abcdefghijkl"), tuple("uvwxyz"), VALUES, tuple("aabbccddeeff"))


def case(truth: list[float], known: list[bool]) -> Case:
    rows = np.array([truth])
    return Case(
        VALUES, np.arange(12), rows, rows, np.array([known]), np.zeros(1, np.int64), Scale.LOG
    )


def scored(error: list[float]) -> Scores:
    n = np.array(error)
    return Scores(np.arange(n.size), n, n, n, n, n)


def test_every_application_is_held_out_once_and_never_in_its_library() -> None:
    folds = list(cases(BLOCK, 2, np.random.default_rng(1)))
    out = [set(fold.applications.tolist()) for fold in folds]
    assert sorted(name for names in out for name in names) == list(range(6))
    assert [names & set(fold.groups.tolist()) for names, fold in zip(out, folds, strict=True)] == [
        set()
    ] * len(folds)


def test_exactly_k_measured_cells_are_known() -> None:
    values = np.where(VALUES > 2.0, np.nan, VALUES)
    known = random_cells(values, 2, np.random.default_rng(1))
    assert (known.sum(axis=1) == 2).all()
    assert not np.isnan(values[known]).any()


def test_errors_are_relative_and_over_hidden_cells_only() -> None:
    scored = case([1.0, 2.0, 4.0, 5.0], [True, False, False, False])
    value = np.array([[9.0, 3.0, 4.0, 4.0]])
    result = scores(scored, Estimates(value, value - 0.5, value + 0.5, scored.known))
    assert result.error == pytest.approx([(0.5 + 0.0 + 0.2) / 3])
    assert result.covered == pytest.approx([1 / 3])


def test_the_best_column_is_sought_among_known_and_estimated_cells() -> None:
    scored = case([1.0, 2.0, 4.9, 5.0], [True, False, False, False])
    wrong = np.array([[1.0, 2.0, 6.0, 5.0]])
    result = scores(scored, Estimates(wrong, wrong, wrong, scored.known))
    assert result.hit == pytest.approx([0.0])
    assert result.near == pytest.approx([1.0])


def test_rank_agreement_of_an_inverted_row_is_minus_one() -> None:
    scored = case([1.0, 2.0, 3.0, 4.0], [True, False, False, False])
    value = np.array([[1.0, 4.0, 3.0, 2.0]])
    assert scores(scored, Estimates(value, value, value, scored.known)).rank == pytest.approx(
        [-1.0]
    )


def test_a_ratio_of_equal_errors_is_one_without_any_spread() -> None:
    summary = ratio(
        "here", "twin", [(scored([0.1, 0.4]), scored([0.1, 0.4]))], np.random.default_rng(2)
    )
    assert (summary.summary.ratio, summary.summary.low, summary.summary.high) == (1.0, 1.0, 1.0)


def test_the_overall_ratio_is_the_geometric_mean_over_sets() -> None:
    rng = np.random.default_rng(2)
    half = ratio("a", "x", [(scored([0.1, 0.1]), scored([0.2, 0.2]))], rng)
    double = ratio("b", "x", [(scored([0.2, 0.2]), scored([0.1, 0.1]))], rng)
    assert overall("both", "x", [half, double]).ratio == pytest.approx(1.0)
    assert overall("one", "x", [half, half]).ratio == pytest.approx(0.5)


def test_the_best_single_method_is_chosen_over_all_sets_and_for_each() -> None:
    rng = np.random.default_rng(2)

    def against(theirs: float) -> Sampled:
        return ratio("s", "x", [(scored([0.1, 0.1]), scored([theirs, theirs]))], rng)

    best = against_best(2, {"a": [against(0.2), against(0.1)], "b": [against(0.1), against(0.5)]})
    assert [summary.method for summary in best] == ["best single: a", "best of each set"]
    assert [summary.ratio for summary in best] == pytest.approx([0.5**0.5, 1.0])


def test_no_method_beats_the_exact_posterior() -> None:
    held_out, bayes = roofline_case(Size(60, 0, 10), 80, 2, 5)
    hidden = ~held_out.known
    exact = np.abs(bayes / held_out.truth - 1.0)[hidden].mean()
    ours = np.abs(method(ESTIMATORS["blend"], 0)(held_out).value / held_out.truth - 1.0)[
        hidden
    ].mean()
    assert exact < ours < 1.5 * exact


def test_the_emulated_library_is_measured_and_the_new_rows_are_true() -> None:
    held_out = next(emulated(MatrixName.HETEROGENEITY, 2, 3))
    assert held_out.library.shape == (28, 14)
    assert np.abs(held_out.observed / held_out.truth - 1.0).max() < 0.2
    assert (held_out.observed != held_out.truth).any()


def test_pooled_matrices_are_all_known_and_one_is_scored() -> None:
    held_out = next(emulated(MatrixName.CAUSED, 2, 3, together_with=(MatrixName.TOLERATED,)))
    assert held_out.library.shape == (28, 20)
    assert (~np.isnan(held_out.truth)).any(axis=0).tolist() == [True] * 10 + [False] * 10
    assert (held_out.known[:, :10].sum(axis=1) == 2).all()
    assert (held_out.known[:, 10:].sum(axis=1) == 2).all()


def test_the_reader_keeps_both_input_sizes_of_an_application_together(data: Path) -> None:
    (block,) = scout_multinode(data)
    assert block.values.shape == (12, 69)
    assert len(set(block.groups)) == 6


def test_the_command_prints_json(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--data", str(data), "--sets", "c3o", "--entries", "2", "--methods", "knn"]
    options = [*options, "--repeat", "0"]
    assert classification.main([*options, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert {line["method"] for line in printed["lines"]} == {"blend", "knn"}
    assert printed["ratios"][-1]["where"] == "all real sets, 2 entries"


def test_without_scikit_learn_the_comparison_fails_instead_of_leaving_it_out() -> None:
    program = "import sys; sys.modules['sklearn'] = None; import benchmarks.classification"
    done = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "sklearn" in done.stderr.splitlines()[-1]


def test_an_unknown_set_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="--sets must be among sparecores"):
        classification.main(["--sets", "nosuch", "--methods", "knn", "--repeat", "0"])


@pytest.fixture
def data() -> Path:
    """Public measurements in a folder next to the checkout; they are not distributed."""
    folder = Path(__file__).parents[3] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no folder of public measurements next to the checkout")
    return folder
