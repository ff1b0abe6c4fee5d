"""Buckets of units with similar contention, by locality-sensitive hashing.

B = 20 buckets. The sign of a random projection keeps the angle between two vectors (Charikar
2002), so units with contention in the same sources share their signs. It does not keep their
length: a quiet and a crowded server with the same mix of jobs have the same signs. A bucket is
therefore a pair of signs and a band of magnitude, the largest contention of any source.

Source: Tarcil §4 (T6), with about 20 buckets by cosine distance.
"""

from typing import Final

import numpy as np

from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Floats, Ints

PLANES: Final = 2
BANDS: Final = np.array([10.0, 20.0, 35.0, 55.0])  # lower ends of the second band and later ones
BUCKETS: Final = 2**PLANES * (BANDS.size + 1)
_SEED: Final = 2015
_ROUNDING: Final = 1e-6  # a projection that is 0 but for rounding has one sign


def _planes() -> Floats:
    """(PLANES, N) orthogonal normals, also to the diagonal.

    Contention is never negative: a plane that does not contain the diagonal would have nearly all
    vectors on one side.
    """
    drawn = np.random.default_rng(_SEED).normal(size=(N_SOURCES, PLANES))
    basis, _ = np.linalg.qr(np.column_stack((np.ones(N_SOURCES), drawn)))
    planes: Floats = basis[:, 1:].T.copy()
    return planes


NORMALS: Final = _planes()


def bucket_of(contention: Floats) -> Ints:
    """(n,) bucket of each contention vector (n, N), 0-100: signs, then band. O(n·N)."""
    signs = (contention @ NORMALS.T > _ROUNDING) @ (1 << np.arange(PLANES))
    band = np.searchsorted(BANDS, contention.max(axis=1, initial=0.0), side="right")
    return (band * 2**PLANES + signs).astype(np.int64)


def bucket_name(bucket: int) -> str:
    """Return the band of magnitude in points and the number of the direction of a bucket."""
    band, direction = divmod(bucket, 2**PLANES)
    low = 0.0 if band == 0 else BANDS[band - 1]
    high = 100.0 if band == BANDS.size else BANDS[band]
    return f"{low:.0f} to {high:.0f} points, direction {direction + 1}"
