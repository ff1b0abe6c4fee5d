"""Every policy by name. A new policy is new parts and one line here."""

from collections.abc import Callable
from functools import partial
from typing import Final

from apps.scheduling.core import policies
from apps.scheduling.core.encoding import Form
from apps.scheduling.core.fused import FusedTarcil
from apps.scheduling.core.types import Policy

DEFAULT: Final = "tarcil"

POLICIES: Final[dict[str, Callable[[], Policy]]] = {
    "tarcil": FusedTarcil,
    "tarcil_monotone": partial(FusedTarcil, "tarcil_monotone", form=Form.NEAREST),
    "tarcil_printed": partial(FusedTarcil, "tarcil_printed", form=Form.PRINTED),
    "quietest": partial(FusedTarcil, "quietest", form=Form.QUIETEST),
    "least_loaded": policies.least_loaded,
    "random": policies.at_random,
}


class UnknownPolicyError(ValueError):
    """No policy has that name."""


def make(name: str) -> Policy:
    """Make a policy of the registry.

    Raises
    ------
    UnknownPolicyError : names those there are.
    """
    if name not in POLICIES:
        raise UnknownPolicyError(f"no policy {name!r}; there are {', '.join(sorted(POLICIES))}")
    return POLICIES[name]()
