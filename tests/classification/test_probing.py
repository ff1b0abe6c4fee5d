"""The evaluation of designs: who knows what, and what is printed."""

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


def asked(already: tuple[int, ...] = (), gap: tuple[int, int] | None = None) -> _probing.Asked:
    truth = TRUTH.copy()
    if gap:
        truth[gap] = np.nan
    case = Case(LIBRARY, np.arange(12), truth, truth, np.isnan(truth), np.arange(5), Scale.LOG)
    model = ESTIMATORS["knn"].fit(LIBRARY, scale=Scale.LOG)
    return _probing.Asked(case, model, np.isin(np.arange(7), already))


@pytest.mark.parametrize("design", _probing.DESIGNS)
def test_every_row_is_told_as_many_cells_as_were_asked_for(design: str) -> None:
    rng = np.random.default_rng(2)
    told = _probing.told_cells(asked(already=(3,), gap=(2, 0)), 3, design, rng)
    assert (told.sum(axis=1) == 3).all()
    assert told[:, 3].all()
    assert not told[2, 0]


def test_columns_are_chosen_from_the_library_and_are_the_same_for_all_rows() -> None:
    told = _probing.told_cells(asked(), 2, INFORMATIVE, np.random.default_rng(2))
    assert (told == told[0]).all()
    other = asked()
    changed = other._replace(case=_with_truth(other.case, TRUTH[::-1] ** 3))
    again = _probing.told_cells(changed, 2, INFORMATIVE, np.random.default_rng(2))
    assert np.array_equal(again, told)


def _with_truth(case: Case, truth: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> Case:
    return Case(case.library, case.groups, truth, truth, case.known, case.applications, case.scale)


def test_random_rows_are_told_different_cells() -> None:
    told = _probing.told_cells(asked(), 2, RANDOM, np.random.default_rng(2))
    assert len({row.tobytes() for row in told}) > 1


def test_the_emulated_library_gains_by_informed_choice(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_probing, "SEEDS", 1)
    monkeypatch.setattr(_probing, "TIMED_ROWS", 40)
    assert classification.main(["--sets", "emulated", "--probing", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)["probing"]
    lines = {(one["part"], one["entries"], one["design"]): one for one in printed["lines"]}
    assert lines["emulated.heterogeneity", 2, FIXED]["rows"] == 100
    gain = {(one["where"], one["ours"], one["theirs"]): one["ratio"] for one in printed["ratios"]}
    assert gain["emulated", "informative 2", "random 3"] < 0.8
    assert gain["live", "informative 2", "random 2"] < 0.6
    whole = {
        (one["where"], one["ours"], one["theirs"]): one["whole_row"] for one in printed["ratios"]
    }
    # a cell more that is measured is a cell less to err in
    assert (
        1.1
        < whole["live", "informative 2", "random 3"] / gain["live", "informative 2", "random 3"]
        < 2.0
    )
    assert set(printed["choice_ms"]) == {"first", "again"}


def test_an_unknown_set_is_refused_by_name() -> None:
    with pytest.raises(SystemExit, match="must be among sparecores"):
        classification.main(["--sets", "nowhere", "--probing"])
