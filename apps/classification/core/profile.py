"""What the control plane believes about one application.

N = 10 sources of interference, P platforms, K = 6 points of the scale-up curve, L = 8 of the
scale-out curve, S framework settings. Speeds are relative to the highest-end platform or to the
default setting, efficiencies to linear scaling, scores run from 0 to 100.
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints

# of both curves; that of scale-up ends at 32, and so did scale-out in revisions of old
SCALE_POINTS: Final = (1, 2, 4, 8, 16, 32, 64, 100)
HALF_WIDTH_90: Final = 1.6448536269514722  # standard deviations of a two-sided 90 % interval
LOG_POINTS: Final = np.log2(np.array(SCALE_POINTS, dtype=np.float64))


class Estimate(NamedTuple):
    """A value and its 90 % interval."""

    value: float
    low: float
    high: float


def _nothing() -> Floats:
    return np.empty(0)


def _none_measured() -> Bools:
    return np.empty(0, dtype=np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """Dense estimates of one application at one revision of the library, with 90 % intervals.

    Attributes
    ----------
    application, kind : name and kind (analytics, latency_critical, single_node, batch)
    revision : of the library it was estimated from
    platforms : P names, the order of ``platform_speed``
    base_rate : work per second of one unit on the highest-end platform, > 0: bytes/s, queries/s or
        instructions/s, by kind
    base_rate_se : standard error of its logarithm (relative), >= 0
    bytes_rate, bytes_rate_se : the same for input bytes per second, which is what completes a job
        with input
    platform_speed, platform_low, platform_high : (P,) speed relative to the highest-end platform
    scale_up, scale_up_low, scale_up_high : (K,) speed-up of 1, 2, 4 ... 32 units of one server
        over one unit
    scale_out, scale_out_low, scale_out_high : (L,) efficiency of 1, 2, 4 ... 64, 100 servers
        relative to linear
    tolerated, tolerated_low, tolerated_high : (N,) interference tolerated, 0-100
    caused, caused_low, caused_high : (N,) interference one unit causes, 0-100
    platform_measured (P,), scale_up_measured (K,), scale_out_measured (L,), tolerated_measured
    (N,), caused_measured (N,), framework_measured (S,) : True where a cell was measured, not
        inferred
    settings : S labels (`workloads.core.framework`); none where nothing can be set
    framework, framework_low, framework_high : (S,) speed under a setting relative to the default
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
    platform_speed: Floats
    platform_low: Floats
    platform_high: Floats
    scale_up: Floats
    scale_up_low: Floats
    scale_up_high: Floats
    scale_out: Floats
    scale_out_low: Floats
    scale_out_high: Floats
    tolerated: Floats
    tolerated_low: Floats
    tolerated_high: Floats
    caused: Floats
    caused_low: Floats
    caused_high: Floats
    platform_measured: Bools
    scale_up_measured: Bools
    scale_out_measured: Bools
    tolerated_measured: Bools
    caused_measured: Bools
    settings: tuple[str, ...] = ()
    framework: Floats = field(default_factory=_nothing)
    framework_low: Floats = field(default_factory=_nothing)
    framework_high: Floats = field(default_factory=_nothing)
    framework_measured: Bools = field(default_factory=_none_measured)
    flags: tuple[str, ...] = ()

    def rate(
        self,
        units: int,
        *,
        servers: int = 1,
        platform: str | None = None,
        in_bytes: bool = False,
    ) -> Estimate:
        """Work per second of ``units`` spread evenly over ``servers`` of a platform, undisturbed.

        rate = base · up(units / servers) · servers · out(servers) · speed(platform); the curves
        are interpolated in log-log. The factors' errors are taken as independent, so the half
        widths of their logarithms add in squares.

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
            _on_curve(units / servers, self.scale_up, self.scale_up_low, self.scale_up_high),
            Estimate(servers, servers, servers),
            _on_curve(servers, self.scale_out, self.scale_out_low, self.scale_out_high),
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
        i = self.settings.index(setting)
        return Estimate(
            float(self.framework[i]), float(self.framework_low[i]), float(self.framework_high[i])
        )

    def speed(self, platform: str | None = None) -> Estimate:
        """Speed on a platform relative to the highest-end one; exactly 1 when None."""
        if platform is None:
            return Estimate(1.0, 1.0, 1.0)
        if platform not in self.platforms:
            raise ValueError(f"platform must be one of {self.platforms}, got {platform!r}")
        i = self.platforms.index(platform)
        return Estimate(
            float(self.platform_speed[i]),
            float(self.platform_low[i]),
            float(self.platform_high[i]),
        )


def point_labels(count: int) -> tuple[str, ...]:
    """Columns of the first points of a scaling curve."""
    return tuple(str(point) for point in SCALE_POINTS[:count])


def scale_factors(
    profile: Profile, sizes: Ints, *, together: bool, in_bytes: bool
) -> tuple[Floats, Floats, Floats]:
    """Rate, low and high end, (m, P) each: many sizes on all platforms at once.

    ``Profile.rate`` for (m,) sizes, all units on one server when ``together``, else each on its
    own. O(m·P).
    """
    points = np.log2(sizes)
    if together:
        curves = (profile.scale_up, profile.scale_up_low, profile.scale_up_high)
    else:
        curves = (profile.scale_out, profile.scale_out_low, profile.scale_out_high)
    mid, low, high = (_lines(points, np.log2(c)) for c in curves)
    speed = np.log2(profile.platform_speed)
    below = speed - np.log2(profile.platform_low)
    above = np.log2(profile.platform_high) - speed
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


def _on_curve(at: float, value: Floats, low: Floats, high: Floats) -> Estimate:
    """Read a scaling curve anywhere; beyond the last point its slope goes on."""
    x = np.log2(np.array([at]))
    return Estimate(*(float(2.0 ** _lines(x, np.log2(c))[0]) for c in (value, low, high)))


def _lines(x: Floats, logs: Floats) -> Floats:
    """(m,) logarithms on a curve at (m,) logarithms of sizes."""
    points = LOG_POINTS[: logs.size]
    slope = (logs[-1] - logs[-2]) / (points[-1] - points[-2])
    beyond = logs[-1] + slope * (x - points[-1])
    return np.where(x <= points[-1], np.interp(x, points, logs), beyond)
