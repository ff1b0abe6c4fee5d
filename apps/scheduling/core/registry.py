"""Every policy by name. A new policy is new parts and one line here."""

from collections.abc import Callable
from functools import partial
from typing import Final

from apps.scheduling.core import policies
from apps.scheduling.core.encoding import Form
from apps.scheduling.core.fused import FusedTarcil
from apps.scheduling.core.types import Policy

DEFAULT: Final = "tarcil"
SHORT: Final = "roomiest"  # for short jobs of applications nobody knows

POLICIES: Final[dict[str, Callable[[], Policy]]] = {
    "tarcil": FusedTarcil,
    "tarcil_monotone": partial(FusedTarcil, "tarcil_monotone", form=Form.NEAREST),
    "tarcil_printed": partial(FusedTarcil, "tarcil_printed", form=Form.PRINTED),
    "quietest": partial(FusedTarcil, "quietest", form=Form.QUIETEST),
    "least_loaded": policies.least_loaded,
    "random": policies.at_random,
    "roomiest": policies.roomiest,
}


# The same decisions without machine code, for processes that must not load the compiler.
_PLAIN: Final[dict[str, Callable[[], Policy]]] = {
    "tarcil": policies.tarcil,
    "tarcil_monotone": partial(policies.tarcil, "tarcil_monotone", form=Form.NEAREST),
    "tarcil_printed": partial(policies.tarcil, "tarcil_printed", form=Form.PRINTED),
    "quietest": partial(policies.tarcil, "quietest", form=Form.QUIETEST),
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


def make_plain(name: str) -> Policy:
    """Make a policy of the registry that decides without numba.

    Raises
    ------
    UnknownPolicyError : names those there are.
    """
    return _PLAIN[name]() if name in _PLAIN else make(name)
