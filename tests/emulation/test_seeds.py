"""Random streams by name."""

import numpy as np
import pytest

from apps.emulation.core.seeds import normal


def test_normal_numbers_have_mean_0_and_deviation_1_and_do_not_follow_each_other() -> None:
    drawn = np.array([normal(5, f"job {i}") for i in range(20_000)])
    # standard errors: 0.007 of the mean, 0.005 of the deviation, 0.007 of the correlation
    assert drawn.mean() == pytest.approx(0.0, abs=0.03)
    assert drawn.std() == pytest.approx(1.0, abs=0.02)
    assert np.corrcoef(drawn[1:], drawn[:-1])[0, 1] == pytest.approx(0.0, abs=0.03)
    assert np.quantile(drawn, [0.023, 0.977]) == pytest.approx([-2.0, 2.0], abs=0.08)


def test_a_name_has_one_number_under_each_seed() -> None:
    assert normal(5, "job 1") == normal(5, "job 1")
    assert len({normal(seed, name) for seed in (1, 12) for name in ("job 1", "2 job 1")}) == 4
