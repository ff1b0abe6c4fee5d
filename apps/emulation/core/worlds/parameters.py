"""Parameters of the `measured` world; `fitted.py` holds the values."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Heterogeneity:
    """Spread of log speed around its platform's and its application's mean.

    Attributes
    ----------
    factors : standard deviations of the three largest factors
    rest : of all further factors together
    """

    factors: tuple[float, float, float]
    rest: float


@dataclass(frozen=True, slots=True)
class LogNormal:
    """Distribution of a positive quantity: mean and standard deviation of its logarithm."""

    mean: float
    deviation: float


@dataclass(frozen=True, slots=True)
class Scaling:
    """Universal scalability law: distributions of its two parameters."""

    contention: LogNormal
    coherency: LogNormal


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Log slowdown next to a microbenchmark at full intensity; log-normal.

    Attributes
    ----------
    mean : of the logarithm, by microbenchmark: cpu, l1d, l1i, l2, llc, membw
    deviation : of the logarithm
    shared : correlation of the logarithms of two sources
    """

    mean: tuple[float, float, float, float, float, float]
    deviation: float
    shared: float


@dataclass(frozen=True, slots=True)
class Services:
    """What differs between services and programs under interference.

    Attributes
    ----------
    mean : as in `Sensitivity`, of the capacity of a service
    power : exponent of `truth.Truth.latency_power`
    """

    mean: tuple[float, float, float, float, float, float]
    power: float


@dataclass(frozen=True, slots=True)
class ServerSpeed:
    """Log speed of a server relative to its platform: Student's t.

    Attributes
    ----------
    scale : of the distribution
    tail : degrees of freedom, > 0; few = more slow servers
    """

    scale: float
    tail: float


@dataclass(frozen=True, slots=True)
class Parameters:
    """All fitted parameters of a world.

    Attributes
    ----------
    heterogeneity : by kind of application
    strength : by kind, correlation of the latent sensitivity with the latent strength of what an
        application causes; both are normal
    noise : standard deviation of repeated runs, relative to their mean
    tasks : standard deviation of the log duration of a job's tasks, by application
    services : sensitivity and latency of services; the rest of `sensitivity` holds for them too
    """

    heterogeneity: Mapping[str, Heterogeneity]
    scale_up: Scaling
    scale_out: Scaling
    sensitivity: Sensitivity
    strength: Mapping[str, float]
    noise: LogNormal
    servers: ServerSpeed
    tasks: LogNormal
    services: Services
