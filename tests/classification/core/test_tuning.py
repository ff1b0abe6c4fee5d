import json
import subprocess
import sys

import numpy as np
import pytest

from apps.classification.core.estimators import DEFAULT, ESTIMATORS
from apps.classification.core.estimators.protocol import Observed, Rows, Spread, blended
from apps.classification.core.estimators.tuning import (
    Tuning,
    TuningOptions,
    from_json,
    to_json,
    tune,
)
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


class Constants:
    """Members and panel at once: member i predicts its constant for every cell."""

    def __init__(self, *constants: float) -> None:
        self.constants = np.array(constants)
        self.count = len(constants)

    def learn(self, rows: Rows, rng: np.random.Generator, which: tuple[int, ...]) -> "Constants":
        return self

    def each(self, observed: Observed) -> Spread:
        shape = (self.count, len(observed.at), 4)
        return Spread(np.broadcast_to(self.constants[:, None, None], shape), np.ones(shape))

    def blend(self, observed: Observed, share: Floats) -> Spread:
        return blended(self.each(observed), share)


def tuned(members: Constants, values: list[float], groups: list[int]) -> Tuning:
    """Tune with one known cell; row i holds ``values[i]`` in all four columns."""
    z = np.repeat(np.array(values)[:, None], 4, axis=1)
    rows = Rows(z, np.ones(z.shape, dtype=np.bool_), np.array(groups))
    return tune(
        members,
        rows,
        1,
        np.random.default_rng(1),
        options=TuningOptions(sharpness=1.0),
        columns=np.arange(4),
    )


@pytest.mark.parametrize(("applications", "widening"), [(2, 1.25), (5, 1.1), (50, 1.01)])
def test_intervals_are_wider_by_half_over_the_number_of_applications(
    applications: int, widening: float
) -> None:
    # every held-out cell lies 0.7 deviations from its prediction
    tuning = tuned(Constants(0.0), [0.7] * applications, list(range(applications)))
    assert tuning.width == pytest.approx(0.7 * widening)


def test_a_held_out_row_counts_by_the_square_root_of_its_applications_size() -> None:
    # application 0 has 16 rows of zeros, application 1 one row of ones: their shares are 4 : 1,
    # so member 0 errs by 0.2 and member 1 by 0.8
    tuning = tuned(Constants(0.0, 1.0), [0.0] * 16 + [1.0], [0] * 16 + [1])
    ratio = tuning.weight[0] / tuning.weight[1]
    assert ratio == pytest.approx((0.8 / 0.2) ** np.sqrt(2.0))


def test_the_width_covers_nine_tenths_of_the_applications_shares() -> None:
    # as above: 16 of 17 rows lie near the blend, but they are only 0.8 of the shares
    members = Constants(0.0, 1.0)
    tuning = tuned(members, [0.0] * 16 + [1.0], [0] * 16 + [1])
    empty = Observed(np.zeros((1, 1), dtype=np.int64), np.ones((1, 1)), np.zeros((1, 1)))
    centre, deviation = blended(members.each(empty), tuning.weight)
    assert tuning.width == pytest.approx((1.0 - centre[0, 0]) / deviation[0, 0] * 1.25)


def test_tunings_go_through_json_unchanged() -> None:
    model = BLEND.fit(library(25), scale=Scale.LOG)
    model.fold(library(1)[0], KNOWN)
    model.tuned(4)
    back = from_json(json.loads(json.dumps(to_json(model.tunings))))
    assert sorted(back) == [2, 4]
    assert back[2].weight == pytest.approx(model.tuned(2).weight, abs=0)
    assert back[4].width == model.tuned(4).width
    assert back[4].widening == model.tuned(4).widening


def test_a_refit_with_the_tunings_of_the_last_one_answers_the_same_without_tuning() -> None:
    first = BLEND.fit(library(25), scale=Scale.LOG)
    expected = np.array(first.fold(library(1)[0], KNOWN).ends)
    chosen = first.tuned(2)._replace(width=2.0 * first.tuned(2).width)
    again = BLEND.fit(library(25), scale=Scale.LOG, tunings={2: chosen})
    ends = np.array(again.fold(library(1)[0], KNOWN).ends)
    # after another tuning the width would be the same
    assert np.log(ends[2] / ends[1])[~KNOWN] == pytest.approx(
        2.0 * np.log(expected[2] / expected[1])[~KNOWN]
    )


def test_tunings_of_another_estimator_are_refused() -> None:
    with pytest.raises(ValueError, match="tunings must weigh 19 members, got 3 for 2 known"):
        BLEND.fit(library(9), scale=Scale.LOG, tunings={2: Tuning(np.full(3, 1 / 3), 1.6)})


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ({"weight": [0.5, 0.2], "width": 1.6}, "weight must sum to 1"),
        ({"weight": [1.5, -0.5], "width": 1.6}, "weight must sum to 1"),
        ({"weight": [[1.0]], "width": 1.6}, "weight must sum to 1"),
        ({"weight": [1.0], "width": 0.0}, "width must be positive"),
        ({"weight": [1.0], "width": float("nan")}, "width must be positive"),
    ],
)
def test_an_invalid_stored_tuning_is_refused(stored: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_json({"2": stored})


def test_large_libraries_keep_only_members_that_lower_the_error() -> None:
    small = BLEND.fit(library(25), scale=Scale.LOG).weights(2)
    large = BLEND.fit(library(1500), scale=Scale.LOG).weights(2)
    assert small.sum() == pytest.approx(1.0)
    assert np.count_nonzero(small) > 3
    assert np.count_nonzero(large) <= 2
    # members with a weight below 1/50 are not evaluated
    assert small[small > 0].min() >= 0.02


def test_the_library_is_read_without_numba() -> None:
    # it costs a second and 100 MB, and web processes only read stored profiles
    code = (
        "import sys, apps.classification.core.estimators, apps.classification.core.inference;"
        "sys.exit('numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False)  # noqa: S603 - our own
    assert done.returncode == 0
