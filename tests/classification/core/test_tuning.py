import json
import subprocess
import sys

import numpy as np
import pytest

from apps.classification.core.estimators import DEFAULT, ESTIMATORS
from apps.classification.core.estimators.tuning import Tuning, from_json, to_json
from apps.classification.core.matrix import Scale
from apps.inventory.core.snapshot import Floats

BLEND = ESTIMATORS[DEFAULT]


def library(rows: int) -> Floats:
    rng = np.random.default_rng(4)
    directions = np.random.default_rng(5).normal(size=(3, 12))
    return np.exp(
        rng.normal(size=(rows, 3)) @ directions * 0.3 + 0.02 * rng.normal(size=(rows, 12))
    )


KNOWN = np.isin(np.arange(12), (1, 6))


def test_tunings_go_through_json_unchanged() -> None:
    model = BLEND.fit(library(25), scale=Scale.LOG)
    model.fold(library(1)[0], KNOWN)
    model.tuned(4)
    back = from_json(json.loads(json.dumps(to_json(model.tunings))))
    assert sorted(back) == [2, 4]
    assert back[2].weight == pytest.approx(model.tuned(2).weight, abs=0)
    assert back[4].width == model.tuned(4).width


def test_a_refit_with_the_tunings_of_the_last_one_answers_the_same_without_tuning() -> None:
    first = BLEND.fit(library(25), scale=Scale.LOG)
    expected = np.array(first.fold(library(1)[0], KNOWN))
    chosen = Tuning(first.tuned(2).weight, 2.0 * first.tuned(2).width)
    again = BLEND.fit(library(25), scale=Scale.LOG, tunings={2: chosen})
    found = np.array(again.fold(library(1)[0], KNOWN))
    # tuned anew, the width would be what it was
    assert np.log(found[2] / found[1])[~KNOWN] == pytest.approx(
        2.0 * np.log(expected[2] / expected[1])[~KNOWN]
    )


def test_tunings_of_another_estimator_are_refused() -> None:
    with pytest.raises(ValueError, match="tunings must weigh 19 members, got 3 for 2 known"):
        BLEND.fit(library(9), scale=Scale.LOG, tunings={2: Tuning(np.full(3, 1 / 3), 1.6)})


@pytest.mark.parametrize(
    ("stored", "told"),
    [
        ({"weight": [0.5, 0.2], "width": 1.6}, "weight must sum to 1"),
        ({"weight": [1.5, -0.5], "width": 1.6}, "weight must sum to 1"),
        ({"weight": [[1.0]], "width": 1.6}, "weight must sum to 1"),
        ({"weight": [1.0], "width": 0.0}, "width must be positive"),
        ({"weight": [1.0], "width": float("nan")}, "width must be positive"),
    ],
)
def test_a_stored_tuning_that_none_can_be_is_refused(stored: dict[str, object], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        from_json({"2": stored})


def test_members_of_a_small_library_share_and_those_of_a_large_one_must_be_worth_it() -> None:
    small = BLEND.fit(library(25), scale=Scale.LOG).weights(2)
    large = BLEND.fit(library(1500), scale=Scale.LOG).weights(2)
    assert small.sum() == pytest.approx(1.0)
    assert np.count_nonzero(small) > 3
    assert np.count_nonzero(large) <= 2
    # those that count for less than a fiftieth are not asked at all
    assert small[small > 0].min() >= 0.02


def test_the_library_is_read_without_numba() -> None:
    # it costs a second and 100 MB, and the web's processes only read what estimators have stored
    code = (
        "import sys, apps.classification.core.estimators, apps.classification.core.assemble;"
        "sys.exit('numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False)  # noqa: S603 - our own
    assert done.returncode == 0
