"""Generator of a day of Facebook-like Hadoop jobs, from aggregate figures.

Source: the published FB-2009 sample of the SWIM project (Chen et al., MASCOTS 2011; 5,894 jobs of
a 600-node cluster). The figures below are its hourly counts, the burstiness of its minutes, and
the moments of the log-sizes of its ten k-means classes, map-only and map-reduce jobs apart.
``./dev manage fit_report --trace FILE --refit`` fits and prints them again; ``docs/traces.md``
has the quality of the fit.
"""

from typing import Final

import numpy as np

from apps.testbed.core.arrivals import hourly_arrivals
from apps.testbed.core.fitting import SizeComponent
from apps.testbed.core.traces import DAY_S, Floats, Ints, SwimTrace

FB2009_JOBS: Final = 5_894
FB2009_SEED: Final = 2009
FB2009_BURST_SHAPE: Final = 3.706
# fmt: off
FB2009_HOURLY: Final = (
    78, 161, 199, 185, 382, 114, 554, 427, 229, 191, 223, 0,
    149, 137, 317, 163, 144, 217, 297, 426, 351, 291, 118, 541,
)
# Maximum input, shuffle and output of the day; log-normal samples are truncated there.
FB2009_LARGEST: Final = (7.55e12, 8.82e12, 4.68e11)
FB2009_MIXTURE: Final = (
    SizeComponent(0.02528, (0.8, 0.0637, 1.3331),
              ((0.94089, 0.04746, -0.12524),
               (0.04746, 0.0923, 0.04345),
               (-0.12524, 0.04345, 1.37239))),
    SizeComponent(0.066848, (3.6912, 0.0, 3.3652),
              ((0.90962, 0.0, -0.13493),
               (0.0, 0.0, 0.0),
               (-0.13493, 0.0, 0.24263))),
    SizeComponent(0.009501, (3.5727, 1.9762, 2.4448),
              ((1.7537, -0.30234, -0.81525),
               (-0.30234, 0.22379, 0.29241),
               (-0.81525, 0.29241, 0.84798))),
    SizeComponent(0.334238, (4.1263, 0.0, 5.4953),
              ((0.40032, 0.0, 0.06027),
               (0.0, 0.0, 0.0),
               (0.06027, 0.0, 0.16523))),
    SizeComponent(0.209365, (2.0779, 0.0, 8.9151),
              ((0.10093, 0.0, 0.06957),
               (0.0, 0.0, 0.0),
               (0.06957, 0.0, 0.36217))),
    SizeComponent(0.069902, (5.249, 4.2224, 3.2579),
              ((2.00503, -0.24927, -0.49399),
               (-0.24927, 1.55779, 0.78295),
               (-0.49399, 0.78295, 1.10904))),
    SizeComponent(0.07567, (4.5244, 0.0, 9.1742),
              ((0.19471, 0.0, 0.18939),
               (0.0, 0.0, 0.0),
               (0.18939, 0.0, 0.45923))),
    SizeComponent(0.044452, (8.5971, 0.0, 7.1748),
              ((2.13944, 0.0, 0.32806),
               (0.0, 0.0, 0.0),
               (0.32806, 0.0, 2.79397))),
    SizeComponent(0.027995, (9.3552, 7.0816, 3.5622),
              ((1.33753, -0.46428, 0.27114),
               (-0.46428, 4.38893, 0.06892),
               (0.27114, 0.06892, 1.12472))),
    SizeComponent(0.076518, (7.3828, 7.5713, 6.6484),
              ((0.90634, 0.44441, 0.36978),
               (0.44441, 0.55786, 0.39564),
               (0.36978, 0.39564, 0.55349))),
    SizeComponent(0.060231, (9.8091, 9.8917, 8.451),
              ((0.69432, 0.42794, 0.08165),
               (0.42794, 0.70284, 0.34824),
               (0.08165, 0.34824, 1.49462))),
)
# fmt: on


def generate_day(jobs: int, rng: np.random.Generator, *, name: str = "facebook-day") -> SwimTrace:
    """Draw a day of jobs with the arrivals and sizes of FB-2009.

    Parameters
    ----------
    jobs : >= 1, spread over the hours in proportion; 5,894 gives the published counts
    rng : spawns one stream for arrivals and one for sizes
    """
    if jobs < 1:
        raise ValueError(f"jobs must be >= 1, not {jobs}")
    arrivals, sizes = rng.spawn(2)
    counts = proportional(np.array(FB2009_HOURLY, dtype=np.float64), jobs)
    submit_s = hourly_arrivals(
        counts.astype(np.float64), burst_shape=FB2009_BURST_SHAPE, rng=arrivals
    )
    drawn = draw_sizes(FB2009_MIXTURE, jobs, sizes)
    return SwimTrace(name, np.minimum(submit_s, DAY_S), drawn[:, 0], drawn[:, 1], drawn[:, 2])


def proportional(weights: Floats, total: int) -> Ints:
    """(n,) whole numbers proportional to the weights that add up to ``total``.

    Largest remainder method.
    """
    exact = weights * (total / weights.sum())
    whole = np.floor(exact).astype(np.int64)
    left = total - int(whole.sum())
    whole[np.argsort(whole - exact, kind="stable")[:left]] += 1
    return whole


def draw_sizes(mixture: tuple[SizeComponent, ...], n: int, rng: np.random.Generator) -> Floats:
    """(n, 3) whole bytes of input, shuffle and output."""
    weight = np.array([component.weight for component in mixture])
    drawn = rng.choice(len(mixture), size=n, p=weight / weight.sum())
    logs = np.empty((n, 3))
    for number, component in enumerate(mixture):
        rows = drawn == number
        logs[rows] = rng.multivariate_normal(
            component.mean, component.cov, size=int(rows.sum()), method="eigh"
        )
    return np.floor(np.clip(10.0**logs - 1.0, 0.0, FB2009_LARGEST))
