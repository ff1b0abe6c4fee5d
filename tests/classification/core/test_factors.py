"""The compiled gradient descent of the papers against its formula, and its safeguards."""

import numpy as np
import pytest

from apps.classification.core.estimators.factors import Bias, reconstruction
from apps.classification.core.estimators.kernels import EPOCHS, MARGINAL, REGULARISATION, descend
from apps.classification.core.estimators.protocol import Observed, Rows
from apps.inventory.core.snapshot import Bools, Floats

RNG = np.random.default_rng(8)
TARGET = RNG.random((7, 5))
KNOWN = RNG.random((7, 5)) < 0.8


def plain(target: Floats, known: Bools, q: Floats, p: Floats, rate: float) -> int:
    """Paragon §2.1: one known cell after the other; returns the number of epochs."""
    previous = np.inf
    for epoch in range(EPOCHS):
        total = 0.0
        for u, i in np.argwhere(known):
            e = target[u, i] - q[u] @ p[i]
            total += e**2
            q[u], p[i] = (
                q[u] + rate * (e * p[i] - REGULARISATION * q[u]),
                p[i] + rate * (e * q[u] - REGULARISATION * p[i]),
            )
        if previous - np.sqrt(total) < MARGINAL * np.sqrt(total):
            return epoch
        previous = np.sqrt(total)
    return EPOCHS


@pytest.mark.parametrize("rate", [0.02, 0.2])
def test_the_compiled_descent_takes_the_steps_of_the_formula(rate: float) -> None:
    q, p = RNG.normal(size=(7, 3)), RNG.normal(size=(5, 3))
    rows, columns = q.copy(), p.copy()
    assert plain(TARGET, KNOWN, rows, columns, rate) > 10
    descend(TARGET, KNOWN, q, p, rate)
    assert q == pytest.approx(rows, abs=1e-9)
    assert p == pytest.approx(columns, abs=1e-9)


@pytest.mark.parametrize("bias", list(Bias))
def test_a_large_matrix_does_not_make_the_descent_diverge(bias: Bias) -> None:
    # a thousand rows of like size: the first factor of a column is about sqrt(1000) long, and a
    # step of 0.02 would overshoot twenty times
    z = 0.1 * RNG.normal(size=(1000, 12))
    model = reconstruction(bias, aligned=True)(
        Rows(z, np.ones(z.shape, dtype=np.bool_), np.arange(1000)), RNG
    )
    observed = Observed(np.array([[2, 7]]), np.array([[0.05, -0.05]]), np.zeros((1, 2)))
    assert np.abs(model.predict(observed).mean).max() < 1.0
