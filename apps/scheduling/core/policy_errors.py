"""Errors of policies, which may be those of other packages."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from apps.common.core.errors import ConflictError
from apps.inventory.core.snapshot import Snapshot
from apps.scheduling.core.types import Placed, Policy, Refused, Request


class PolicyFailedError(ConflictError):
    """A policy raised an error; the message names the policy and the type of the error.

    Attributes
    ----------
    policy : its name
    detail : the message with the text of the error, which may name other jobs of the batch
    """

    def __init__(self, policy: str, cause: Exception) -> None:
        super().__init__(f"the policy {policy} failed with {type(cause).__name__}")
        self.policy = policy
        self.detail = f"{self}: {cause}"


@contextmanager
def failures_of(policy: str) -> Iterator[None]:
    """Raise every error of a block that runs only code of a policy as `PolicyFailedError`."""
    try:
        yield
    except PolicyFailedError:
        raise
    except Exception as error:
        raise PolicyFailedError(policy, error) from error


def outcomes_of(
    policy: Policy, snapshot: Snapshot, requests: Sequence[Request], rng: np.random.Generator
) -> list[Placed | Refused]:
    """Let a policy decide on a batch.

    Raises
    ------
    PolicyFailedError : the policy raised an error, or did not return one outcome per request.
    """
    with failures_of(policy.name):
        outcomes = policy.place(snapshot, requests, rng)
        if len(outcomes) != len(requests):
            jobs = f"{len(requests)} job{'s' * (len(requests) != 1)}"
            raise ValueError(f"{len(outcomes)} outcomes for {jobs}")
    return outcomes
