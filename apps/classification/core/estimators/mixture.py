"""Mixtures of Gaussians around the rows of a library, conditioned on the known cells of new rows.

The inner loop of the default estimator: one pass over the components for each row and member,
without a temporary array of components x columns.
"""

from typing import NamedTuple

import numpy as np

from apps.classification.core.estimators.protocol import Observed, Singles, Spread
from apps.inventory.core.snapshot import Floats


class MixtureLayout(NamedTuple):
    """S sets of n components of m columns, and C covariances.

    Attributes
    ----------
    rows : (S, n, m) float32 centres less their origin: numbers near 0 keep variances exact
    columns : (S, m, n) float32, the transposed rows, for loops along columns
    weight : (S, n) float32 prior weights of the components, sum 1
    origin : (S, m) float64
    covariance : (C, m, m) float64
    """

    rows: Singles
    columns: Singles
    weight: Singles
    origin: Floats
    covariance: Floats


class Component(NamedTuple):
    """One member: its centres and covariance, and their scaling.

    Attributes
    ----------
    centres, covariance : indices into `MixtureLayout`
    shrink : the component of row x lies at origin + shrink·(x - origin)
    scale, common : its covariance is scale·C + common·11ᵀ
    tail : integer degrees of freedom of the Student t that weights components; inf = Gaussian
    """

    centres: int
    covariance: int
    shrink: float
    scale: float
    common: float
    tail: float


def each(layout: MixtureLayout, members: Floats, observed: Observed, noise: Floats) -> Spread:
    """(M, q, m) means and deviations by every member.

    Parameters
    ----------
    members : (M, 6) one `Component` per row
    noise : (q, k) variances of the known cells' errors, > 0

    O(M·q·n·(k² + k·m)), m only for components near the row.
    """
    # web processes only read stored estimates, and must not import numba
    from apps.classification.core.estimators import kernels  # noqa: PLC0415

    shape = (len(members), len(observed.at), layout.origin.shape[1])
    mean, deviation = np.empty(shape), np.empty(shape)
    kernels.each(layout, members, observed.at, observed.z, noise, mean, deviation)
    return Spread(mean, deviation)


def blend(
    layout: MixtureLayout, members: Floats, share: Floats, observed: Observed, noise: Floats
) -> Spread:
    """(q, m) centre and deviation of the members mixed by ``share`` (M,) > 0, sum 1."""
    from apps.classification.core.estimators import kernels  # noqa: PLC0415 - see above

    shape = (len(observed.at), layout.origin.shape[1])
    mean, deviation = np.empty(shape), np.empty(shape)
    kernels.blend(layout, members, share, observed.at, observed.z, noise, mean, deviation)
    return Spread(mean, deviation)
