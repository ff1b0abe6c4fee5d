"""All policies by name. A new policy needs its parts and one line here."""

from collections.abc import Callable
from functools import partial
from typing import Final

from apps.scheduling.core import policies
from apps.scheduling.core.encoding import Form
from apps.scheduling.core.fused import FusedExpected, FusedTarcil
from apps.scheduling.core.types import Policy

DEFAULT: Final = "tarcil"
SHORT: Final = "roomiest"  # for short jobs of applications without a profile

POLICIES: Final[dict[str, Callable[[], Policy]]] = {
    "expected": FusedExpected,
    "tarcil": FusedTarcil,
    "tarcil_monotone": partial(FusedTarcil, "tarcil_monotone", form=Form.NEAREST),
    "tarcil_printed": partial(FusedTarcil, "tarcil_printed", form=Form.PRINTED),
    "quietest": partial(FusedTarcil, "quietest", form=Form.QUIETEST),
    "least_loaded": policies.least_loaded,
    "random": policies.at_random,
    "roomiest": policies.roomiest,
}


# The same decisions without numba, for processes that must not import it.
_PLAIN: Final[dict[str, Callable[[], Policy]]] = {
    "expected": policies.expected,
    "tarcil": policies.tarcil,
    "tarcil_monotone": partial(policies.tarcil, "tarcil_monotone", form=Form.NEAREST),
    "tarcil_printed": partial(policies.tarcil, "tarcil_printed", form=Form.PRINTED),
    "quietest": partial(policies.tarcil, "quietest", form=Form.QUIETEST),
}


class UnknownPolicyError(ValueError):
    """No policy has this name."""


def make(name: str) -> Policy:
    """Return a new instance of a policy.

    Raises
    ------
    UnknownPolicyError : the message lists the known names.
    """
    if name not in POLICIES:
        raise UnknownPolicyError(
            f"unknown policy {name!r}; known are {', '.join(sorted(POLICIES))}"
        )
    return POLICIES[name]()


def make_plain(name: str) -> Policy:
    """Return a new instance of a policy that does not use numba.

    Raises
    ------
    UnknownPolicyError : the message lists the known names.
    """
    return _PLAIN[name]() if name in _PLAIN else make(name)
