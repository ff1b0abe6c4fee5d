"""Mixtures of Gaussians around the rows of a library, conditioned on the known cells of new rows.

The hot loop of the default estimator: one pass over the components for each row and member, no
temporary array of components x columns.
"""

from typing import NamedTuple

import numpy as np

from apps.classification.core.estimators.protocol import Singles, Spread, Told
from apps.inventory.core.snapshot import Floats


class Layout(NamedTuple):
    """S sets of n components of m columns, and C covariances.

    Attributes
    ----------
    rows : (S, n, m) float32 centres less their origin: numbers near 0 keep variances exact
    columns : (S, m, n) float32, the same by column: the loops run along either
    weight : (S, n) float32 of the components before anything is known, sum 1
    origin : (S, m) float64
    covariance : (C, m, m) float64
    """

    rows: Singles
    columns: Singles
    weight: Singles
    origin: Floats
    covariance: Floats


class Component(NamedTuple):
    """One member: which centres and covariance it uses, and how.

    Attributes
    ----------
    centres, covariance : their numbers in the layout
    squeeze : the component of row x lies at origin + squeeze·(x - origin)
    scale, lift : its covariance is scale·C + lift·11ᵀ
    tail : whole degrees of freedom of the Student t that weighs components; inf is a Gaussian
    """

    centres: int
    covariance: int
    squeeze: float
    scale: float
    lift: float
    tail: float


def each(layout: Layout, members: Floats, told: Told, noise: Floats) -> Spread:
    """(M, q, m) means and deviations by every member.

    Parameters
    ----------
    members : (M, 6) one `Component` a line
    noise : (q, k) variances of the known cells' errors, > 0

    O(M·q·n·(k² + k·m)), m only for components near the row.
    """
    # numba is for processes that estimate; the web's only read what these have stored
    from apps.classification.core.estimators import kernels  # noqa: PLC0415

    shape = (len(members), len(told.at), layout.origin.shape[1])
    mean, deviation = np.empty(shape), np.empty(shape)
    kernels.each(layout, members, told.at, told.z, noise, mean, deviation)
    return Spread(mean, deviation)


def blend(layout: Layout, members: Floats, share: Floats, told: Told, noise: Floats) -> Spread:
    """(q, m) centre and deviation of the members mixed by ``share`` (M,) > 0, sum 1."""
    from apps.classification.core.estimators import kernels  # noqa: PLC0415 - see above

    shape = (len(told.at), layout.origin.shape[1])
    mean, deviation = np.empty(shape), np.empty(shape)
    kernels.blend(layout, members, share, told.at, told.z, noise, mean, deviation)
    return Spread(mean, deviation)
