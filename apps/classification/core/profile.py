"""Profiles: performance estimates of one application.

N = 10 sources of interference, P platforms, K = 6 points of the scale-up curve, L = 8 of the
scale-out curve, S framework settings. Speeds are relative to the highest-end platform or to the
default setting, efficiencies to linear scaling, scores run from 0 to 100.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from apps.classification.core.estimates import HALF_WIDTH_90, NO_ESTIMATES, Estimate, Estimates
from apps.classification.core.matrix import MatrixName
from apps.inventory.core.snapshot import Floats, Ints

# scale-up uses the first six; so does scale-out in old revisions
SCALE_POINTS: Final = (1, 2, 4, 8, 16, 32, 64, 100)
CAUTION: Final = 0.5  # of the way from an estimated tolerance to its pessimistic end
LOG_POINTS: Final = np.log2(np.array(SCALE_POINTS, dtype=np.float64))


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """Dense estimates of one application at one revision of the library, with 90 % intervals.

    Attributes
    ----------
    application, kind : name and kind (analytics, latency_critical, single_node, batch)
    revision : of the library it was estimated from
    platforms : P names, in the order of ``platform_speed``
    base_rate : work per second of one unit on the highest-end platform, > 0: bytes/s, queries/s or
        instructions/s, by kind
    base_rate_se : standard error of its logarithm (relative), >= 0
    bytes_rate, bytes_rate_se : the same for input bytes per second, which determine the completion
        time of a job with input
    platform_speed : (P,) speed relative to the highest-end platform
    scale_up : (K,) speed-up of 1, 2, 4 ... 32 units of one server over one unit
    scale_out : (L,) efficiency of 1, 2, 4 ... 64, 100 servers relative to linear scaling
    tolerated : (N,) interference tolerated, 0-100
    caused : (N,) interference caused by one unit, 0-100
    settings : S labels (`workloads.core.framework`); empty if the application has no settings
    framework : (S,) speed under a setting relative to the default
    flags : why estimates may be worse than their intervals, as "matrix:reason" (`Degraded`)
    """

    application: str
    kind: str
    revision: int
    platforms: tuple[str, ...]
    base_rate: float
    base_rate_se: float
    bytes_rate: float
    bytes_rate_se: float
    platform_speed: Estimates
    scale_up: Estimates
    scale_out: Estimates
    tolerated: Estimates
    caused: Estimates
    settings: tuple[str, ...] = ()
    framework: Estimates = NO_ESTIMATES
    flags: tuple[str, ...] = ()

    @property
    def assumed_tolerance(self) -> Floats:
        """(N,) tolerance that placement counts on, between the estimate and its pessimistic end.

        A tolerance that is too high slows the job down, and nothing shows it before the job runs;
        the pessimistic end of all sources at once leaves no server that suits any job
        (docs/policies.md, ``./dev bench caution``).
        """
        value, low = self.tolerated.value, self.tolerated.low
        assumed: Floats = value + CAUTION * (low - value)
        return assumed

    @property
    def estimates(self) -> dict[MatrixName, Estimates]:
        """Estimates by matrix, without the base rate and without matrices that have no cell."""
        rows = {
            MatrixName.HETEROGENEITY: self.platform_speed,
            MatrixName.SCALE_UP: self.scale_up,
            MatrixName.SCALE_OUT: self.scale_out,
            MatrixName.FRAMEWORK: self.framework,
            MatrixName.TOLERATED: self.tolerated,
            MatrixName.CAUSED: self.caused,
        }
        return {name: row for name, row in rows.items() if row.value.size}

    def rate(
        self,
        units: int,
        *,
        servers: int = 1,
        platform: str | None = None,
        in_bytes: bool = False,
    ) -> Estimate:
        """Work per second of ``units`` spread evenly over ``servers``, without interference.

        rate = base · up(units / servers) · servers · out(servers) · speed(platform); the curves
        are interpolated in log-log space. The errors of the factors are assumed independent, so
        the half widths of their logarithms add in squares.

        Parameters
        ----------
        units : >= 1
        servers : 1 <= servers <= units
        platform : a name of ``platforms``; None = the highest-end platform
        in_bytes : input bytes per second instead of the kind's own metric

        Raises
        ------
        ValueError : more servers than units, or an unknown platform.
        """
        if not 1 <= servers <= units:
            raise ValueError(f"servers must lie between 1 and units={units}, got {servers}")
        base = self.bytes_rate if in_bytes else self.base_rate
        error = self.bytes_rate_se if in_bytes else self.base_rate_se
        wide = float(np.exp(HALF_WIDTH_90 * error))
        return _product(
            Estimate(base, base / wide, base * wide),
            _on_curve(units / servers, self.scale_up),
            Estimate(servers, servers, servers),
            _on_curve(servers, self.scale_out),
            self.speed(platform),
        )

    def speed_set(self, setting: str) -> Estimate:
        """Speed under a framework setting relative to the default one.

        Raises
        ------
        ValueError : the application has no such setting.
        """
        if setting not in self.settings:
            raise ValueError(f"setting must be one of {self.settings}, got {setting!r}")
        return self.framework.at(self.settings.index(setting))

    def speed(self, platform: str | None = None) -> Estimate:
        """Speed on a platform relative to the highest-end one; exactly 1 if None."""
        if platform is None:
            return Estimate(1.0, 1.0, 1.0)
        if platform not in self.platforms:
            raise ValueError(f"platform must be one of {self.platforms}, got {platform!r}")
        return self.platform_speed.at(self.platforms.index(platform))


def point_labels(count: int) -> tuple[str, ...]:
    """Column labels of the first points of a scaling curve."""
    return tuple(str(point) for point in SCALE_POINTS[:count])


def scale_factors(
    profile: Profile, sizes: Ints, *, together: bool, in_bytes: bool
) -> tuple[Floats, Floats, Floats]:
    """Rates with low and high ends, (m, P) each, for (m,) sizes on all platforms.

    The same as ``Profile.rate``, with all units on one server if ``together``, else one unit per
    server. O(m·P).
    """
    points = np.log2(sizes)
    curve = profile.scale_up if together else profile.scale_out
    mid, low, high = (_lines(points, np.log2(c)) for c in curve.ends)
    speed = np.log2(profile.platform_speed.value)
    below = speed - np.log2(profile.platform_speed.low)
    above = np.log2(profile.platform_speed.high) - speed
    base = profile.bytes_rate if in_bytes else profile.base_rate
    error = profile.bytes_rate_se if in_bytes else profile.base_rate_se
    wide = HALF_WIDTH_90 * error / np.log(2.0)
    linear = 0.0 if together else points
    centre = (np.log2(base) + mid + linear)[:, None] + speed[None, :]
    down = np.sqrt(wide**2 + (mid - low)[:, None] ** 2 + below[None, :] ** 2)
    up = np.sqrt(wide**2 + (high - mid)[:, None] ** 2 + above[None, :] ** 2)
    return 2.0**centre, 2.0 ** (centre - down), 2.0 ** (centre + up)


def _product(*factors: Estimate) -> Estimate:
    """Product of independent positive estimates: half widths of the logarithms add in squares."""
    value = float(np.prod([f.value for f in factors]))
    above = np.sqrt(sum(np.log(f.high / f.value) ** 2 for f in factors))
    below = np.sqrt(sum(np.log(f.value / f.low) ** 2 for f in factors))
    return Estimate(value, value * float(np.exp(-below)), value * float(np.exp(above)))


def _on_curve(size: float, curve: Estimates) -> Estimate:
    """Interpolate a scaling curve at any size; beyond its last point the slope continues."""
    x = np.log2(np.array([size]))
    return Estimate(*(float(2.0 ** _lines(x, np.log2(c))[0]) for c in curve.ends))


def _lines(x: Floats, logs: Floats) -> Floats:
    """(m,) logarithms of a curve at (m,) logarithms of sizes."""
    points = LOG_POINTS[: logs.size]
    slope = (logs[-1] - logs[-2]) / (points[-1] - points[-2])
    beyond = logs[-1] + slope * (x - points[-1])
    return np.where(x <= points[-1], np.interp(x, points, logs), beyond)
