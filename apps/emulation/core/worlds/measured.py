"""The `measured` world: distributions fitted to public measurements (docs/emulation.md)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import numpy as np
from scipy import special

from apps.common.core.arrays import as_readonly
from apps.common.core.interference import N_SOURCES, SOURCES
from apps.emulation.core import draws
from apps.emulation.core.platforms import CAPACITY, Catalogue, catalogue
from apps.emulation.core.seeds import Stream, generator, stream_seed
from apps.emulation.core.truth import QOS, Curves, Noise, Truth, UniversalScaling
from apps.emulation.core.worlds.parameters import LogNormal, Parameters, Scaling, Sensitivity
from apps.inventory.core.snapshot import Floats, Ints

MAIN_FACTORS: Final = 3
SMALL_FACTORS: Final = 12
OTHER_PLATFORMS: Final = (np.log(0.7), 0.30)  # log speed of a platform outside the table
# Microbenchmark whose measured slowdowns a source has, in the order of `Sensitivity.mean`.
CPU, L1D, L1I, L2, LLC, MEMBW = range(6)
MEASURED_AS: Final = MappingProxyType(
    {
        "memory_bandwidth": MEMBW,
        "llc_capacity": LLC,
        "llc_bandwidth": L2,
        "l1i": L1I,
        "l1d": L1D,
        "tlb": L1D,
        "core": CPU,
    }
)
# Not in any data set: where the loss starts, how steep it is, and what it does below that point.
KNEE: Final = (1.5, 8.0)  # log-uniform
DECAY: Final = (2.0, 60.0)  # points, log-uniform: from cliffs to slow decays
FLOOR: Final = 0.14  # the largest loss of a pair in the Gavel measurements
MIN_LOSS: Final = 1e-4  # log slowdown
SPEED_LIMIT: Final = 3.0  # a server is at most 3 times faster or slower than its platform
NOISE_LIMITS: Final = (5e-4, 0.25)
TASK_SPREAD_LIMIT: Final = 1.5  # log; the largest of a job in the Google trace is 1.2
RAMP_NOISE: Final = 0.125  # of the noise of a run: the ratio of the `paper` world
_NO_PLATFORMS: Final = catalogue(["cr1.8xlarge"], seed=0)  # of facts that no platform changes
# Scale-out contention relative to that of analytics and batch, as in the `paper` world.
SERIAL: Final = MappingProxyType({draws.LATENCY_CRITICAL: 0.3, draws.SINGLE_NODE: 4.0})


@dataclass(frozen=True, slots=True)
class MeasuredWorld:
    """Factor models of speed and slowdown, with fitted correlations and noise."""

    fitted: Parameters

    @property
    def name(self) -> str:
        """Name in the registry and on the command line."""
        return "measured"

    @property
    def title(self) -> str:
        """One sentence for people who choose a world."""
        return "Fitted to public measurements: heterogeneity, cliffs, noise and stragglers."

    def catalogue(self, names: Sequence[str], *, seed: int, reference: int = 0) -> Catalogue:
        """Draw (P, 1 + factors) capacities: the overall speed, then one for each factor.

        Raises
        ------
        ValueError : no platform, or `reference` is not one of them.
        """
        if not 0 <= reference < len(names):
            raise ValueError(
                f"reference must index one of {len(names)} platforms, got {reference}"
            )
        logs = np.array([_platform(name, seed) for name in names])
        return Catalogue(tuple(names), as_readonly(np.exp(logs)), reference)

    def application_truth(
        self,
        seed: int,
        name: str,
        kind: str,
        platforms: Catalogue,
        stream: Stream = Stream.TEST,
    ) -> Truth:
        """Draw the hidden truth of one application; what is not fitted is as in `paper`.

        Raises
        ------
        ValueError : unknown kind.
        """
        seed = stream_seed(seed, stream)
        base = draws.application_truth(seed, name, kind, _NO_PLATFORMS)
        rng = generator(seed, "measured", kind, name)
        speed = self._platform_speed(kind, platforms, rng)
        tolerated, caused, curves = self._interference(kind, rng)
        own_tasks = generator(seed, "tasks", kind, name)
        power = self.fitted.services.power if kind == draws.LATENCY_CRITICAL else 0.0
        cv = float(np.clip(_log_normal(self.fitted.noise, rng), *NOISE_LIMITS))
        return replace(
            base,
            catalogue=platforms,
            platform_speed=speed,
            scale_up=_scaling(self.fitted.scale_up, 1.0, rng),
            scale_out=_scaling(self.fitted.scale_out, SERIAL.get(kind, 1.0), rng),
            tolerated=tolerated,
            caused=caused,
            curves=curves,
            phases=draws.phases(kind, tolerated, caused, rng),
            noise=Noise(rate=cv, ramp=RAMP_NOISE * cv, metric=cv),
            task_spread=min(_log_normal(self.fitted.tasks, own_tasks), TASK_SPREAD_LIMIT),
            latency_power=power,
        )

    def server_speed(self, seed: int, server_id: Ints) -> Floats:
        """Draw the (S,) speeds of servers relative to their platform, by id >= 0."""
        uniform = generator(seed, "servers").random(int(server_id.max(initial=0)) + 1)[server_id]
        fitted = self.fitted.servers
        logs: Floats = fitted.scale * special.stdtrit(fitted.tail, uniform)
        return np.exp(np.clip(logs, -np.log(SPEED_LIMIT), np.log(SPEED_LIMIT)))

    def _platform_speed(self, kind: str, platforms: Catalogue, rng: np.random.Generator) -> Floats:
        """(P,) log-linear factor model, 1 on the reference platform."""
        fitted = self.fitted.heterogeneity[kind]
        small = np.full(SMALL_FACTORS, fitted.rest / np.sqrt(SMALL_FACTORS))
        deviation = np.concatenate(([0.0], fitted.factors, small))
        loading = deviation * rng.normal(size=deviation.size)
        loading[0] = 1.0
        logs = np.log(platforms.capacity) @ loading
        return as_readonly(np.exp(logs - logs[platforms.reference]))

    def _interference(self, kind: str, rng: np.random.Generator) -> tuple[Floats, Floats, Curves]:
        """(N,) tolerated, (N,) caused and the curves, by a shared latent sensitivity."""
        latent, strength = rng.normal(size=2)
        sensitivity = self.fitted.sensitivity
        if kind == draws.LATENCY_CRITICAL:
            sensitivity = replace(sensitivity, mean=self.fitted.services.mean)
        loss = _slowdown(sensitivity, latent, rng)
        correlation = self.fitted.strength[kind]
        strength = correlation * latent + np.sqrt(1.0 - correlation**2) * strength
        tolerated, curves = _curves(np.exp(-loss), rng)
        share = special.betaincinv(3.0, 2.0, special.ndtr(strength))
        return tolerated, draws.caused_scores(kind, float(share), rng), curves


def _platform(name: str, seed: int) -> Floats:
    """(1 + factors,) log capacities of a platform; its overall speed as in `paper` if listed."""
    rng = generator(seed, "factors", name)
    other = rng.normal(*OTHER_PLATFORMS)
    overall = np.log(CAPACITY[name]).mean() if name in CAPACITY else other
    return np.concatenate(([overall], rng.normal(size=MAIN_FACTORS + SMALL_FACTORS)))


def _scaling(fitted: Scaling, serial: float, rng: np.random.Generator) -> UniversalScaling:
    contention = serial * _log_normal(fitted.contention, rng)
    return UniversalScaling(min(contention, 1.0), _log_normal(fitted.coherency, rng))


def _slowdown(fitted: Sensitivity, latent: float, rng: np.random.Generator) -> Floats:
    """(N,) log slowdown next to each source at full intensity.

    Sources that nobody measured have the mean of those measured.
    """
    means = np.array(fitted.mean)
    mean = [means[MEASURED_AS[s]] if s in MEASURED_AS else means.mean() for s in SOURCES]
    own = rng.normal(size=N_SOURCES)
    x = np.sqrt(fitted.shared) * latent + np.sqrt(1.0 - fitted.shared) * own
    return np.maximum(np.exp(np.array(mean) + fitted.deviation * x), MIN_LOSS)


def _curves(full: Floats, rng: np.random.Generator) -> tuple[Floats, Curves]:
    """(N,) tolerated scores, and curves that end at a given performance at full intensity.

    The loss reaches 5 % anywhere between the point of a straight line and full intensity.

    Parameters
    ----------
    full : (N,) performance at intensity 100
    """
    straight = 100.0 * (1.0 - QOS) / np.maximum(1.0 - full, 1.0 - QOS)
    tolerated = np.clip(straight + (100.0 - straight) * rng.random(N_SOURCES), 1.0, 100.0)
    knee = np.exp(rng.uniform(np.log(KNEE[0]), np.log(KNEE[1]), N_SOURCES))
    decay = np.exp(rng.uniform(np.log(DECAY[0]), np.log(DECAY[1]), N_SOURCES))
    beyond = np.maximum(100.0 - tolerated, 1e-6)
    left = np.exp(-beyond / decay)
    plateau = (full - QOS * left) / (1.0 - left)
    # too slow a decay would not reach the performance: then it falls to 0 as fast as needed
    is_slow = plateau < 0.0
    steep = beyond / np.log(QOS / np.minimum(full, QOS - 1e-9))
    curves = Curves(
        knee=as_readonly(knee),
        decay=as_readonly(np.where(is_slow, steep, decay)),
        plateau=as_readonly(np.clip(np.where(is_slow, 0.0, plateau), 0.0, QOS - 1e-9)),
        floor=FLOOR,
    )
    return as_readonly(tolerated), curves


def _log_normal(fitted: LogNormal, rng: np.random.Generator) -> float:
    return float(np.exp(fitted.mean + fitted.deviation * rng.normal()))
