"""All policies by name. A new policy needs its parts and one entry here.

Packages outside this repository add theirs by the entry point ``berth.policies``
(docs/policies.md).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final

from apps.scheduling.core import baselines, policies
from apps.scheduling.core.expected.performance import ALONE, Share, Weights
from apps.scheduling.core.expected.performance import DEFAULT as OWN
from apps.scheduling.core.fused import FusedExpected, FusedTarcil
from apps.scheduling.core.paragon import fused as fused_paragon
from apps.scheduling.core.paragon import selection as paragon
from apps.scheduling.core.policy_errors import PolicyFailedError, failures_of
from apps.scheduling.core.quasar import Quasar
from apps.scheduling.core.tarcil.encoding import Form
from apps.scheduling.core.types import MAX_SAMPLE, Policy
from apps.workloads.core.spec import JobSpec

DEFAULT: Final = "expected"
SAMPLING: Final = "tarcil"  # for jobs that ask for a sample, if the default draws none
SHORT: Final = "roomiest"  # for short jobs of applications without a profile


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a policy: a number within limits, which are accepted.

    Attributes
    ----------
    is_set_by_agent : not chosen by users; stored with the decisions of the agent
    """

    name: str
    default: float
    low: float
    high: float
    about: str
    is_whole: bool = False
    is_set_by_agent: bool = False

    def schema(self) -> dict[str, Any]:
        """JSON schema."""
        return {
            "type": "integer" if self.is_whole else "number",
            "default": self.default,
            "minimum": self.low,
            "maximum": self.high,
            "description": self.about,
        }

    def accepts(self, value: object) -> bool:
        """Whether a value is accepted."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return self.low <= value <= self.high and not (self.is_whole and value != int(value))

    def cast(self, value: float) -> float:
        """Return an accepted value; an int if it is a whole number, which JSON may write 4.0."""
        return int(value) if self.is_whole else value


@dataclass(frozen=True, slots=True)
class Entry:
    """A policy of the registry.

    Attributes
    ----------
    make : a new instance; takes the parameters by name
    source : paper and section, with the ids of the index of mechanisms
    formula : what it maximises, in one line
    plain : the same decisions without numba; None = ``make`` does not use it
    summary : which units it chooses, in a sentence for users
    """

    make: Callable[..., Policy]
    source: str
    formula: str
    parameters: tuple[Parameter, ...] = ()
    plain: Callable[..., Policy] | None = None
    summary: str = ""

    def schema(self) -> dict[str, Any]:
        """JSON schema of the parameters."""
        return parameters_schema(self.parameters)


def chosen_parameters(parameters: Sequence[Parameter]) -> tuple[Parameter, ...]:
    """Return the parameters that a user chooses."""
    return tuple(each for each in parameters if not each.is_set_by_agent)


def parameters_schema(parameters: Sequence[Parameter]) -> dict[str, Any]:
    """JSON schema of parameters by name."""
    return {
        "type": "object",
        "properties": {each.name: each.schema() for each in parameters},
        "additionalProperties": False,
    }


def _tarcil(name: str, form: Form, formula: str, summary: str) -> Entry:
    """Return a form of Tarcil's policy."""
    make: Callable[..., Policy] = partial(FusedTarcil, name, form=form)
    plain: Callable[..., Policy] = partial(policies.tarcil, name, form=form)
    return Entry(make, "Tarcil §3 (T1-T5)", formula, plain=plain, summary=summary)


def _candidates(default: int) -> Parameter:
    about = "candidates per unit, R, unless the job names it"
    return Parameter("candidates", default, 1, MAX_SAMPLE, about, is_whole=True)


_LIMIT: Final = Parameter(
    "limit", paragon.LIMIT, 1, 10**9,
    "max comparisons of servers with the job; then the best so far is taken", is_whole=True,
)  # fmt: skip

_WEIGHTS: Final = (
    Parameter("neighbours", OWN.neighbours, 0.0, 10.0, "weight of the loss of the neighbours"),
    Parameter(
        "kept", OWN.kept, 0.0, 10.0, "weight of the probability of keeping 95 % of the speed"
    ),
    Parameter("width", OWN.width, 0.001, 1.0, "uncertainty of the predicted log performance"),
    Parameter("spread", OWN.spread, 0.0, 10.0, "weight of future neighbours"),
    Parameter("gain", OWN.gain, -100.0, 1.0, "min gain of a unit for a job that may wait"),
)
MAX_AGENTS: Final = 10_000
_SHARE: Final = (
    Parameter(
        "agents", ALONE.agents, 1, MAX_AGENTS,
        "agents that decide at the same time; each prefers a share of the servers",
        is_whole=True, is_set_by_agent=True,
    ),
    Parameter(
        "share", ALONE.share, 0, MAX_AGENTS - 1, "number of the share that is preferred",
        is_whole=True, is_set_by_agent=True,
    ),
)  # fmt: skip


def _expected(
    *, agents: float = ALONE.agents, share: float = ALONE.share, **weights: float
) -> Policy:
    """Return the policy with other weights; compiled kernels need floats."""
    return FusedExpected(
        Weights(**{name: float(value) for name, value in weights.items()}),
        Share(int(agents), int(share)),
    )


POLICIES: Final[dict[str, Entry]] = {
    "expected": Entry(
        _expected,
        "ours; Tarcil §3.2 for platforms",
        "ln v + sum g(p; t) + 0.2 sum e c / (M - 1) + 0.3 P(kept) - 2.5 (1 - r)^2 b / M;"
        " a job that may wait does so if v p + 0.2 sum e c / (M - 1) < 0.2",
        (*_WEIGHTS, *_SHARE),
        plain=policies.expected,
        summary="The units with the best predicted performance of the job and of its neighbours,"
        " platform included.",
    ),
    "tarcil": _tarcil(
        "tarcil",
        Form.GUARDED,
        "Q = 1 - (U - T) with a margin, else U",
        "Of a random sample, the unit with the least quality that the job needs and a margin; else"
        " the best.",
    ),
    "tarcil_monotone": _tarcil(
        "tarcil_monotone",
        Form.NEAREST,
        "Q = 1 - (U - T), else U",
        "As tarcil, without the margin.",
    ),
    "tarcil_printed": _tarcil(
        "tarcil_printed",
        Form.PRINTED,
        "Q = 1 - (U - T), else T - U",
        "As tarcil_monotone, but ranks too little quality as the paper prints it.",
    ),
    "quietest": _tarcil(
        "quietest",
        Form.QUIETEST,
        "Q = U",
        "Of a random sample, the unit with the least interference.",
    ),
    "least_loaded": Entry(
        policies.least_loaded,
        "Paragon §5 (P13)",
        "free cores, then memory",
        summary="The servers with most free cores.",
    ),
    "random": Entry(
        policies.at_random, "Tarcil §2", "uniform at random", summary="Any free units."
    ),
    "roomiest": Entry(
        policies.roomiest,
        "Paragon §3.5 (P9)",
        "uniform at random among the best fifth of quiet servers by speed x (1 + free share)",
        summary="Random units of fast, quiet servers with much room.",
    ),
    "heterogeneity_oblivious": Entry(
        fused_paragon.heterogeneity_oblivious,
        "Paragon §5 (P13)",
        "D1 >= 0 and D2 >= 0 source by source, then min ||D1 + D2||",
        (_LIMIT,),
        plain=baselines.heterogeneity_oblivious,
        summary="As paragon_greedy, without regard to platforms.",
    ),
    "interference_oblivious": Entry(
        baselines.interference_oblivious,
        "Paragon §5 (P13)",
        "speed of the platform",
        summary="The fastest platform for the job, without regard to interference.",
    ),
    "paragon_greedy": Entry(
        fused_paragon.paragon_greedy,
        "Paragon §3.2 (P5)",
        "D1 >= 0 and D2 >= 0 source by source, then the fastest platform, then min ||D1 + D2||",
        (_LIMIT,),
        plain=baselines.paragon_greedy,
        summary="Servers on which the job and its neighbours tolerate each other, the fastest"
        " platform first, then the tightest fit.",
    ),
    "paragon_sampling": Entry(
        baselines.paragon_sampling,
        "Paragon §3.3 (P6)",
        "1 - ||t - c|| / 10 of R hashed candidates; -||t - c|| / 10 if sum (t - c) < 0",
        (_candidates(16),),
        summary="Of servers that hashes of the profile select, the one whose interference the job"
        " tolerates by the least margin.",
    ),
    "sampling": Entry(
        baselines.sampling,
        "Tarcil §6.3 (T12)",
        "free cores of R random candidates",
        (_candidates(baselines.SAMPLED),),
        summary="Of a random sample, the server with most free cores.",
    ),
    "quasar": Entry(
        Quasar,
        "Quasar §3.3 (Q4)",
        "platform speed x performance under interference; fewest units that meet the target",
        summary="The best servers in turn, until the units meet the target of the job; it chooses"
        " their number itself.",
    ),
    "reservation_least_loaded": Entry(
        baselines.reservation_least_loaded,
        "Quasar §5 (Q13)",
        "reserved units, free cores",
        summary="As many units as the job reserves, as least_loaded.",
    ),
    "reservation_paragon": Entry(
        fused_paragon.reservation_paragon,
        "Quasar §5 (Q13)",
        "reserved units, as paragon_greedy",
        (_LIMIT,),
        plain=baselines.reservation_paragon,
        summary="As many units as the job reserves, as paragon_greedy.",
    ),
    "autoscale": Entry(
        baselines.autoscale,
        "Quasar §5 (Q13)",
        "ceil(qps / (load x base rate)) units, free cores",
        (Parameter("load", baselines.LOAD, 0.05, 1.0, "load of a unit above which one is added"),),
        summary="As many units as the queries of a service need at this load, as least_loaded.",
    ),
    "slot_rr": Entry(
        baselines.slot_rr,
        "ClavisMO §1 (C9)",
        "the first free unit, server by server",
        summary="Fills one server after the other.",
    ),
    "node_rr": Entry(
        baselines.node_rr,
        "ClavisMO §1 (C9)",
        "fewest units in use on the server",
        summary="One server after the other, a unit on each.",
    ),
    "dot_product": Entry(
        baselines.dot_product,
        "ClavisMO §4.5 (C9), Panigrahy et al. 2011",
        "servers in use first, then sum of free share x demand x mean demand",
        summary="Servers in use first, then the one whose free resources match the job.",
    ),
}


class UnknownPolicyError(ValueError):
    """No policy has this name."""


class PolicyParameterError(ValueError):
    """A policy does not take a parameter, or not with this value."""


class NameTakenError(ValueError):
    """Another policy has this name."""


def add(name: str, entry: Entry) -> None:
    """Add a policy of another package; adding the same entry again has no effect.

    Raises
    ------
    NameTakenError : another policy has this name.
    """
    if POLICIES.setdefault(name, entry) is not entry:
        raise NameTakenError(f"another policy is called {name!r}")


def make(name: str, parameters: Mapping[str, Any] | None = None) -> Policy:
    """Return a new instance of a policy.

    Raises
    ------
    UnknownPolicyError : the message lists the known names.
    PolicyParameterError : the message says what is accepted.
    PolicyFailedError : the policy raised an error.
    """
    entry = _entry(name)
    values = accepted(name, entry.parameters, parameters or {})
    return _made(name, partial(entry.make, **values))


def accepted(
    policy: str, parameters: Sequence[Parameter], values: Mapping[str, Any]
) -> dict[str, float]:
    """Return values for some of these parameters, whole numbers as ints.

    Raises
    ------
    PolicyParameterError : the message says what is accepted.
    """
    known = {each.name: each for each in parameters}
    for key, value in values.items():
        if problem := problem_of(policy, parameters, key, value):
            raise PolicyParameterError(problem)
    return {key: known[key].cast(value) for key, value in values.items()}


def parameter_problem(policy: str, name: str, value: object) -> str | None:
    """Say what is wrong with a parameter of a policy; None if it is accepted."""
    return problem_of(policy, _entry(policy).parameters, name, value)


def problem_of(
    policy: str, parameters: Sequence[Parameter], name: str, value: object
) -> str | None:
    """Say what is wrong with a value for one of these parameters; None if it is accepted."""
    known = {each.name: each for each in parameters}
    if not known:
        return f"{policy} has no parameters, so {name!r} cannot be set"
    if name not in known:
        return f"{policy} has the parameters {', '.join(known)}, not {name!r}"
    if known[name].accepts(value):
        return None
    kind = "a whole number" if known[name].is_whole else "a number"
    low, high = known[name].low, known[name].high
    return f"{name} must be {kind} in {low:g} .. {high:g}, not {value!r}"


def default_parameters(name: str) -> dict[str, float]:
    """Return the parameters with which `make` makes a policy; none for an unknown one."""
    entry = POLICIES.get(name)
    return {} if entry is None else {each.name: each.default for each in entry.parameters}


def agent_parameters(name: str, values: Mapping[str, float]) -> dict[str, float]:
    """Return the values of the parameters that the agent sets for a policy; none if unknown."""
    entry = POLICIES.get(name)
    known = () if entry is None else entry.parameters
    return {p.name: values[p.name] for p in known if p.is_set_by_agent and p.name in values}


def make_plain(name: str) -> Policy:
    """Return a new instance of a policy that does not use numba.

    Raises
    ------
    UnknownPolicyError : the message lists the known names.
    PolicyFailedError : the policy raised an error.
    """
    entry = _entry(name)
    return _made(name, entry.plain or entry.make)


def _made(name: str, make: Callable[[], Policy]) -> Policy:
    """Return a new instance; decisions and replays find the policy by the name that it gives."""
    with failures_of(name):
        policy = make()
        if policy.name != name:
            raise ValueError(f"its name is {policy.name!r}, and {name!r} in the registry")
        if not isinstance(policy.draws_sample, bool):
            raise TypeError(f"its draws_sample is {policy.draws_sample!r}, not True or False")
        if policy.version < 1:
            raise ValueError(f"its version is {policy.version}, not 1 or more")
        return policy


def policy_of(spec: JobSpec, default: str) -> str:
    """Return the policy that decides on a job.

    It is the one that the job names, or else the default; ``SAMPLING`` if the job names only R or
    a guarantee and the default draws no sample.
    """
    if spec.policy is not None or not spec.asks_sample:
        return spec.policy or default
    return sampling_policy(default)


def sampling_policy(default: str) -> str:
    """Return the default policy if it draws a sample, or else ``SAMPLING``."""
    return default if draws_sample(default) else SAMPLING


def policy_after(decided: str, policy: str | None, *, sample_size: int | None) -> str:
    """Return the policy that decides again: with R and no policy, one that draws samples."""
    if policy is None and sample_size is not None:
        return sampling_policy(decided)
    return policy or decided


def draws_sample(name: str) -> bool:
    """Return whether a policy compares R candidates drawn at random.

    One that cannot be made draws none: only jobs that it decides on wait for its repair.
    """
    try:
        return _draws_sample(name)
    except PolicyFailedError:
        return False


@cache
def _draws_sample(name: str) -> bool:
    return make_plain(name).draws_sample


def _entry(name: str) -> Entry:
    if name not in POLICIES:
        raise UnknownPolicyError(
            f"unknown policy {name!r}; known are {', '.join(sorted(POLICIES))}"
        )
    return POLICIES[name]
