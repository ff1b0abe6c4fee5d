"""The policies of this installation, each with what its instance says of itself."""

from dataclasses import dataclass

from apps.scheduling.core.policy_errors import PolicyFailedError, failures_of
from apps.scheduling.core.registry import POLICIES, Entry, make_plain
from apps.scheduling.selectors.default_policy import policy_in_use


@dataclass(frozen=True, slots=True)
class ListedPolicy:
    """A policy of the registry.

    Attributes
    ----------
    is_default : it decides on jobs that name none
    version, draws_sample : of its instance; None = its package fails, so its jobs wait
    """

    name: str
    entry: Entry
    is_default: bool
    version: int | None
    draws_sample: bool | None


def listed_policies() -> list[ListedPolicy]:
    """Return all policies by name. Cost: an instance of each, without compiled kernels."""
    default = policy_in_use()
    return [
        ListedPolicy(name, entry, name == default, *_made(name))
        for name, entry in sorted(POLICIES.items())
    ]


def _made(name: str) -> tuple[int, bool] | tuple[None, None]:
    try:
        with failures_of(name):
            policy = make_plain(name)
            return policy.version, policy.draws_sample
    except PolicyFailedError:
        return None, None
