"""Measures of a run of the replay, which comparisons show; needs no engine."""

from typing import Final

from apps.testbed.core.comparison import Better, Measure

MEASURES: Final = (
    Measure("performance_mean", "mean performance", "", Better.HIGHER),
    Measure("performance_p5", "5th percentile of performance", "", Better.HIGHER),
    Measure("jobs_finished", "finished jobs", "", Better.HIGHER),
    Measure("wait_p50_s", "median wait", "s", Better.LOWER),
    Measure("wait_p99_s", "p99 wait", "s", Better.LOWER),
    # all policies get the same jobs, so fewer units held leave more room for others
    Measure("utilisation_mean", "mean utilisation", "", Better.LOWER),
    Measure("energy_kwh", "energy", "kWh", Better.LOWER),
)
