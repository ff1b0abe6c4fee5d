"""Policies that assign accelerators in rounds, by name; only the testbed runs them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from apps.scheduling.core.registry import Parameter, accepted, parameters_schema
from apps.testbed.core.accelerators.goodput import POWER, WAITING
from apps.testbed.core.accelerators.jobs import AcceleratorError, RoundPolicy
from apps.testbed.core.accelerators.policies import (
    FairShareBlind,
    Fifo,
    Goodput,
    TimeShares,
    max_min,
)


@dataclass(frozen=True, slots=True)
class RoundEntry:
    """A policy of the registry.

    Attributes
    ----------
    make : a new instance, for one run; takes the parameters by name
    source, formula, parameters : as in `scheduling.core.registry.Entry`
    """

    make: Callable[..., RoundPolicy]
    source: str
    formula: str
    parameters: tuple[Parameter, ...] = ()

    def schema(self) -> dict[str, Any]:
        """JSON schema of the parameters."""
        return parameters_schema(self.parameters)


_SIA: Final = (
    Parameter("power", POWER, -4.0, 4.0, "p; below 0, slow jobs weigh more"),
    Parameter("waiting", WAITING, 0.0, 100.0, "lambda, the price of a job without accelerators"),
)

ROUND_POLICIES: Final[Mapping[str, RoundEntry]] = MappingProxyType(
    {
        "fifo": RoundEntry(Fifo, "-", "first come, first served, without preemption"),
        "fair_share_blind": RoundEntry(
            FairShareBlind,
            "Gavel (OSDI 2020) §4.1 without throughputs",
            "min over jobs of accelerator-seconds, all types alike",
        ),
        "gavel_max_min": RoundEntry(
            lambda: TimeShares(max_min),
            "Gavel (OSDI 2020) §4.1, §4.3, §5",
            "min over jobs of the speed relative to an equal division of the time",
        ),
        "sia_goodput": RoundEntry(
            Goodput,
            "Sia (SOSP 2023) §3",
            "sum over jobs of goodput^p, less lambda for each that waits; any number",
            _SIA,
        ),
        "sia_goodput_rigid": RoundEntry(
            partial(Goodput, is_adaptive=False),
            "Sia (SOSP 2023) §3, rigid jobs",
            "as sia_goodput, with the requested numbers",
            _SIA,
        ),
    }
)


def make_rounds(name: str, parameters: Mapping[str, float] | None = None) -> RoundPolicy:
    """Return a new instance of a policy, for one run.

    Raises
    ------
    AcceleratorError : no policy has the name; lists those that exist.
    PolicyParameterError : a parameter that it does not have, or a value that it does not accept.
    """
    if name not in ROUND_POLICIES:
        raise AcceleratorError(f"unknown policy {name!r}; known are {', '.join(ROUND_POLICIES)}")
    entry = ROUND_POLICIES[name]
    return entry.make(**accepted(name, entry.parameters, parameters or {}))
