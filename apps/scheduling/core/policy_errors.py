"""Errors of policies, which may be those of other packages."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from apps.common.core.errors import ConflictError
from apps.inventory.core.snapshot import Bools, Shorts, Snapshot
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
    PolicyFailedError : the policy raised an error, or did not return one outcome per request, or
        chose another number of units than requested, or a unit that does not exist, is busy or is
        of another job of the batch.
    """
    with failures_of(policy.name):
        outcomes = policy.place(snapshot, requests, rng)
        if len(outcomes) != len(requests):
            jobs = f"{len(requests)} job{'s' * (len(requests) != 1)}"
            raise ValueError(f"{len(outcomes)} outcomes for {jobs}")
        for request, outcome in zip(requests, outcomes, strict=True):
            _check_outcome(request, outcome)
        _check_units(snapshot.unit_free, [o.units for o in outcomes if isinstance(o, Placed)])
    return outcomes


def _check_outcome(request: Request, outcome: object) -> None:
    """Raise an error unless a job is refused or has as many units as a commit accepts."""
    if isinstance(outcome, Refused):
        return
    if not isinstance(outcome, Placed):
        raise TypeError(f"an outcome is {outcome!r}, not Placed or Refused")
    wanted = request.units if outcome.wanted is None else outcome.wanted
    least = wanted if request.is_whole else 1
    if not least <= len(outcome.units) <= wanted:
        raise ValueError(f"it chose {len(outcome.units)} units, not {least} .. {wanted}")


def _check_units(unit_free: Bools, chosen: Sequence[Shorts]) -> None:
    """Raise an error unless all chosen units are free, and each is chosen once."""
    if not chosen:
        return
    units = np.sort(np.concatenate(chosen))
    _refuse(units[(units < 0) | (units >= unit_free.size)], "which does not exist")
    _refuse(units[~unit_free[units]], "which is busy")
    _refuse(units[1:][units[1:] == units[:-1]], "which it chose before")


def _refuse(units: Shorts, why: str) -> None:
    if units.size:
        raise ValueError(f"it chose unit {units[0]}, {why}")
