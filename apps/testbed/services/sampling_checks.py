"""Stored measurements of the quality of sampling."""

import numpy as np

from apps.testbed.core.sampling_quality import SamplingQuality
from apps.testbed.models import SamplingCheck

CURVE_POINTS = 201


def save_sampling_check(quality: SamplingQuality) -> SamplingCheck:
    """Store a measurement with its CDF on an even grid of ranks."""
    xs = np.linspace(0.0, 1.0, CURVE_POINTS)
    cdf = np.searchsorted(quality.ranks, xs + 1e-12, side="right") / len(quality.ranks)
    return SamplingCheck.objects.create(
        size=quality.check.size,
        decisions=len(quality.ranks),
        ks_distance=quality.ks_distance,
        ks_discrete=quality.ks_discrete,
        xs=xs.round(6).tolist(),
        cdf=cdf.round(6).tolist(),
        load=quality.load,
    )
