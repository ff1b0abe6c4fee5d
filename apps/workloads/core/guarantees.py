"""The policy, sample size and quality guarantee that a job may request."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from apps.workloads.core.checks import Check, Problems, number, problem
from apps.workloads.core.fields import read_fields

MAX_R: Final = 100_000  # an installation allows less (`JobLimits`)
SHARE_LIMITS: Final = (1e-9, 1.0 - 1e-9)
_GUARANTEE_FIELDS: Final[dict[str, tuple[str, Check]]] = {
    "rank_threshold": ("rank_threshold", number(*SHARE_LIMITS)),
    "probability": ("probability", number(*SHARE_LIMITS)),
}


@dataclass(frozen=True, slots=True)
class QualityGuarantee:
    """Pr[D < x] <= p: the rank D of the best candidate is rarely below x.

    Attributes
    ----------
    rank_threshold : x, strictly between 0 and 1
    probability : p, strictly between 0 and 1
    """

    rank_threshold: float
    probability: float

    def as_json(self) -> dict[str, float]:
        """JSON form."""
        return {"rank_threshold": self.rank_threshold, "probability": self.probability}


@dataclass(frozen=True, slots=True)
class JobLimits:
    """Limits of an installation on the policy, R and guarantee that a job may request.

    Attributes
    ----------
    policies : names that a job may give
    sampling_policies : those that decide among R candidates
    max_sample : largest R
    sample_size : R on an idle cluster for x and p
    """

    policies: tuple[str, ...]
    sampling_policies: tuple[str, ...]
    max_sample: int
    sample_size: Callable[[float, float], int]


def check_guarantee(value: object, pointer: str, problems: Problems) -> QualityGuarantee | None:
    """Return the guarantee of a job, or add the problems and return None."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        problems.append(problem(pointer, "wrong_type", "must be an object"))
        return None
    found = len(problems)
    read = read_fields(value, _GUARANTEE_FIELDS, pointer, problems)
    if len(problems) == found:
        problems += [
            problem(f"{pointer}/{name}", "required", f"a guarantee needs its {name}")
            for name in _GUARANTEE_FIELDS
            if read.get(name) is None
        ]
    return QualityGuarantee(**read) if len(problems) == found else None


def check_decision(
    values: Mapping[str, Any], limits: JobLimits | None, at: str, problems: Problems
) -> None:
    """Check the policy, R and the guarantee together, and against the limits."""
    policy, size = values.get("policy"), values.get("sample_size")
    guarantee = values.get("guarantee")
    if size is not None and guarantee is not None:
        detail = "R follows from the guarantee: give sample_size or guarantee, not both"
        problems.append(problem(f"{at}/guarantee", "contradiction", detail))
    if limits is None:
        return
    if policy is not None and policy not in limits.policies:
        detail = f"must be one of {', '.join(limits.policies)} or null, not {policy!r}"
        problems.append(problem(f"{at}/policy", "unknown_value", detail))
    elif policy is not None and policy not in limits.sampling_policies:
        _refuse_sample(policy, size, guarantee, limits, at, problems)
    if size is not None and size > limits.max_sample:
        detail = f"must be at most {limits.max_sample}, not {size}"
        problems.append(problem(f"{at}/sample_size", "too_high", detail))
    if guarantee is not None:
        needed = limits.sample_size(guarantee.rank_threshold, guarantee.probability)
        if needed > limits.max_sample:
            detail = f"needs R = {needed} even on an idle cluster; at most {limits.max_sample}"
            problems.append(problem(f"{at}/guarantee", "too_strict", detail))


def _refuse_sample(
    policy: str,
    size: int | None,
    guarantee: QualityGuarantee | None,
    limits: JobLimits,
    at: str,
    problems: Problems,
) -> None:
    """Report R or a guarantee for a policy that does not compare R candidates."""
    others = ", ".join(limits.sampling_policies)
    for name, value in (("sample_size", size), ("guarantee", guarantee)):
        if value is not None:
            detail = (
                f"{policy} does not compare R candidates; with {name}, policy must be null or one"
                f" of {others}"
            )
            problems.append(problem(f"{at}/{name}", "contradiction", detail))
