"""The evaluation of designs: known cells of each row, and the printed table."""

import json

import numpy as np
import pytest

from apps.classification.core.design import FIXED, INFORMATIVE, RANDOM
from apps.classification.core.estimators import ESTIMATORS
from apps.classification.core.matrix import Scale
from benchmarks import _probing, classification
from benchmarks._held_out import Case

LIBRARY = np.random.default_rng(0).lognormal(0.0, 0.5, (12, 7))
TRUTH = np.random.default_rng(1).lognormal(0.0, 0.5, (5, 7))
NONE = np.zeros(7, np.bool_)


def probed_case(
    already: tuple[int, ...] = (), gap: tuple[int, int] | None = None
) -> _probing.ProbedCase:
    truth = TRUTH.copy()
    if gap:
        truth[gap] = np.nan
    case = Case(LIBRARY, np.arange(12), truth, truth, np.isnan(truth), np.arange(5), Scale.LOG)
    model = ESTIMATORS["knn"].fit(LIBRARY, scale=Scale.LOG)
    return _probing.ProbedCase(case, model, np.isin(np.arange(7), already))


@pytest.mark.parametrize("design", _probing.DESIGNS)
def test_every_row_has_exactly_k_known_cells(design: str) -> None:
    rng = np.random.default_rng(2)
    known = _probing.given_cells(probed_case(already=(3,), gap=(2, 0)), 3, design, rng)
    assert (known.sum(axis=1) == 3).all()
    assert known[:, 3].all()
    assert not known[2, 0]


def test_columns_are_chosen_from_the_library_and_are_the_same_for_all_rows() -> None:
    known = _probing.given_cells(probed_case(), 2, INFORMATIVE, np.random.default_rng(2))
    assert (known == known[0]).all()
    other = probed_case()
    changed = other._replace(case=_with_truth(other.case, TRUTH[::-1] ** 3))
    again = _probing.given_cells(changed, 2, INFORMATIVE, np.random.default_rng(2))
    assert np.array_equal(again, known)


def _with_truth(case: Case, truth: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> Case:
    return Case(case.library, case.groups, truth, truth, case.known, case.applications, case.scale)


def test_random_designs_differ_between_rows() -> None:
    known = _probing.given_cells(probed_case(), 2, RANDOM, np.random.default_rng(2))
    assert len({row.tobytes() for row in known}) > 1


def test_the_emulated_library_gains_by_informed_choice(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_probing, "SEEDS", 1)
    monkeypatch.setattr(_probing, "TIMED_ROWS", 40)
    assert classification.main(["--sets", "emulated", "--probing", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)["probing"]
    lines = {(row["part"], row["entries"], row["design"]): row for row in printed["lines"]}
    assert lines["emulated.heterogeneity", 2, FIXED]["rows"] == 100
    gain = {(row["where"], row["ours"], row["theirs"]): row["ratio"] for row in printed["ratios"]}
    assert gain["emulated", "informative 2", "random 3"] < 0.8
    assert gain["live", "informative 2", "random 2"] < 0.6
    whole = {
        (row["where"], row["ours"], row["theirs"]): row["whole_row"] for row in printed["ratios"]
    }
    # each further measured cell counts as error 0
    assert (
        1.1
        < whole["live", "informative 2", "random 3"] / gain["live", "informative 2", "random 3"]
        < 2.0
    )
    assert set(printed["choice_ms"]) == {"first", "again"}


def test_an_unknown_set_is_refused_by_name() -> None:
    with pytest.raises(SystemExit, match="must be among sparecores"):
        classification.main(["--sets", "nowhere", "--probing"])
