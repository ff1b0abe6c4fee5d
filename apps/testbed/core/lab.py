"""The plan of a comparison of policies, as plain data. No database, no clock.

A plan holds everything that determines its runs, so that the same plan gives the same result on
another machine (`LabPlan.digest`). Runs of one seed share jobs, the applications' true behaviour
and the noise of profiling.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from apps.common.core.errors import FieldProblem, InvalidInputError
from apps.emulation.core.worlds import WORLDS
from apps.testbed.core.berth_jobs import berth_lines
from apps.testbed.core.lab_halving import MIN_FIRST_SEEDS
from apps.testbed.core.lab_options import FAILURES, option_problems
from apps.testbed.core.replay.clusters import cluster_from_document
from apps.testbed.core.replay.errors import ReplayError
from apps.testbed.core.replay.model import Admission, Failures, ProfileSource, ReplayOptions
from apps.testbed.core.trace_workload import TraceWorkload

MAX_SETTINGS: Final = 32
MAX_COMPARED: Final = 8  # settings at one load, which figures can tell apart
MAX_SEEDS: Final = 50
MAX_SEED: Final = 2**31 - 1
MAX_NAME: Final = 127
MAX_HOURS: Final = 24.0 * 31  # of history
WORLD_NAMES: Final = tuple(WORLDS)
OF_THE_LAB: Final = frozenset({"servers_share", "arrival_scale"})  # not options of a replay


@dataclass(frozen=True, slots=True)
class LabSetting:
    """A policy with parameters.

    Attributes
    ----------
    name : distinct within a plan
    options : those that differ from the defaults of `ReplayOptions`, and those of the Lab; keys
        are in `OPTIONS`
    """

    name: str
    options: Mapping[str, Any]

    def replay_options(
        self, world: str, seed: int, failures: Failures | None = None
    ) -> ReplayOptions:
        """Return the options of a run; those of the setting are valid."""
        values = {name: value for name, value in self.options.items() if name not in OF_THE_LAB}
        for name, kind in (("profiles", ProfileSource), ("admission", Admission)):
            if name in values:
                values[name] = kind(values[name])
        return ReplayOptions(seed=seed, world=world, failures=failures, **values)

    @property
    def servers_share(self) -> float:
        """Share of the servers of the cluster that the setting has."""
        return float(self.options.get("servers_share", 1.0))

    @property
    def arrival_scale(self) -> float:
        """Arrival rate of the jobs over that of the scenario."""
        return float(self.options.get("arrival_scale", 1.0))


@dataclass(frozen=True, slots=True, eq=False)
class LabPlan:
    """What to run.

    Attributes
    ----------
    cluster : document, see `replay.clusters`
    trace : the jobs
    world : distributions of the applications' true behaviour, the same for all settings
    settings, seeds : every setting runs with every seed
    baseline : name of the setting that the others are compared with
    bound : name of a setting that knows what no policy can know; None = none
    first_seeds : seeds of the first round of a sweep by successive halving (`lab_halving`);
        None = every setting runs with every seed
    failures : of servers, the same for all settings; None = none fails

    Raises
    ------
    InvalidInputError : lists every problem with its field.
    """

    cluster: Mapping[str, Any]
    trace: TraceWorkload
    world: str
    settings: tuple[LabSetting, ...]
    seeds: tuple[int, ...]
    baseline: str
    bound: str | None = None
    first_seeds: int | None = None
    failures: Failures | None = None

    def __post_init__(self) -> None:
        if problems := [*self._problems()]:
            raise InvalidInputError(problems)

    def _problems(self) -> Iterator[FieldProblem]:
        if self.world not in WORLDS:
            detail = f"must be one of {', '.join(WORLDS)}, not {self.world!r}"
            yield FieldProblem("/world", "unknown_value", detail)
        try:
            cluster_from_document(self.cluster, name="cluster")
        except ReplayError as error:
            yield FieldProblem("/cluster", "invalid", str(error))
        yield from self._setting_problems()
        yield from self._seed_problems()
        yield from self._role_problems()
        yield from self._sweep_problems()

    def _setting_problems(self) -> Iterator[FieldProblem]:
        count = len(self.settings)
        if not 1 <= count <= MAX_SETTINGS:
            detail = f"must have 1 to {MAX_SETTINGS} settings, not {count}"
            yield FieldProblem("/settings", "wrong_size", detail)
        yield from self._load_problems()
        names: set[str] = set()
        for place, setting in enumerate(self.settings):
            at = f"/settings/{place}"
            if not 1 <= len(setting.name) <= MAX_NAME:
                detail = f"must have 1 to {MAX_NAME} characters, not {len(setting.name)}"
                yield FieldProblem(f"{at}/name", "wrong_size", detail)
            elif setting.name in names:
                detail = f"{setting.name!r} is the name of another setting"
                yield FieldProblem(f"{at}/name", "duplicate", detail)
            else:
                names.add(setting.name)
            yield from option_problems(setting.options, f"{at}/options")

    def _sweep_problems(self) -> Iterator[FieldProblem]:
        if self.first_seeds is None:
            return
        if not MIN_FIRST_SEEDS <= self.first_seeds <= len(self.seeds):
            most = max(len(self.seeds), MIN_FIRST_SEEDS)
            detail = f"must be from {MIN_FIRST_SEEDS} to {most}, not {self.first_seeds}"
            yield FieldProblem("/halving/first_seeds", "unknown_value", detail)
        if len({setting.arrival_scale for setting in self.settings}) > 1:
            detail = "needs settings with the same arrival_scale"
            yield FieldProblem("/halving", "unknown_value", detail)

    def _load_problems(self) -> Iterator[FieldProblem]:
        if self.first_seeds is not None:
            return
        loads = Counter(str(setting.options.get("arrival_scale", 1)) for setting in self.settings)
        for load, count in loads.items():
            if count > MAX_COMPARED:
                detail = f"must have at most {MAX_COMPARED} settings at load {load}, not {count}"
                yield FieldProblem("/settings", "wrong_size", detail)

    def _seed_problems(self) -> Iterator[FieldProblem]:
        if not 1 <= len(self.seeds) <= MAX_SEEDS:
            detail = f"must have 1 to {MAX_SEEDS} seeds, not {len(self.seeds)}"
            yield FieldProblem("/seeds", "wrong_size", detail)
        for place, seed in enumerate(self.seeds):
            if not 0 <= seed <= MAX_SEED:
                detail = f"must be from 0 to {MAX_SEED}, not {seed}"
                yield FieldProblem(f"/seeds/{place}", "unknown_value", detail)
            elif seed in self.seeds[:place]:
                yield FieldProblem(f"/seeds/{place}", "duplicate", f"{seed} is there twice")

    def _role_problems(self) -> Iterator[FieldProblem]:
        names = [setting.name for setting in self.settings]
        roles = {"baseline": self.baseline} | ({} if self.bound is None else {"bound": self.bound})
        for role, name in roles.items():
            if name not in names:
                detail = f"must be the name of a setting, not {name!r}"
                yield FieldProblem(f"/{role}", "unknown_value", detail)
        if self.bound == self.baseline:
            detail = f"must be another setting than the baseline {self.baseline!r}"
            yield FieldProblem("/bound", "duplicate", detail)

    @property
    def runs(self) -> tuple[tuple[LabSetting, int], ...]:
        """All runs, seed by seed, so that early results compare all settings."""
        return tuple((setting, seed) for seed in self.seeds for setting in self.settings)

    @property
    def digest(self) -> str:
        """SHA-256 of everything that determines the runs, in hexadecimal."""
        found = hashlib.sha256(canonical(self.choices()).encode())
        for line in berth_lines(self.trace):
            found.update(line.encode() + b"\n")
        return found.hexdigest()

    def choices(self) -> dict[str, Any]:
        """JSON of the plan without the jobs."""
        return {
            "cluster": dict(self.cluster),
            "world": self.world,
            "settings": [{"name": s.name, "options": dict(s.options)} for s in self.settings],
            "seeds": list(self.seeds),
            "baseline": self.baseline,
            "bound": self.bound,
            **halving_of(self.first_seeds),
            **({} if self.failures is None else {"failures": asdict(self.failures)}),
        }


def halving_of(first_seeds: int | None) -> dict[str, Any]:
    """JSON of a sweep, a part of `LabPlan.choices`; plans without one have no such part."""
    return {} if first_seeds is None else {"halving": {"first_seeds": first_seeds}}


def canonical(value: Any) -> str:
    """JSON text that is equal for equal values, also after a database has stored them.

    PostgreSQL returns -0.0 as 0.0 and 1e+16 as a whole number.
    """
    plain = _plain(value)
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def plan_of(choices: object, trace: TraceWorkload) -> LabPlan:
    """Return the plan of its JSON and its jobs.

    Raises
    ------
    InvalidInputError : lists the parts that are missing, of the wrong type, or not accepted.
    """
    problems = [*_shape_problems(choices)]
    if problems or not isinstance(choices, Mapping):
        raise InvalidInputError(problems)
    return LabPlan(
        cluster=choices["cluster"],
        trace=trace,
        world=choices["world"],
        settings=tuple(LabSetting(s["name"], s["options"]) for s in choices["settings"]),
        seeds=tuple(choices["seeds"]),
        baseline=choices["baseline"],
        bound=choices["bound"],
        first_seeds=(choices.get("halving") or {}).get("first_seeds"),
        failures=_failures_of(choices.get("failures")),
    )


_TYPES: Final[dict[str, tuple[type | tuple[type, ...], str]]] = {
    "cluster": (Mapping, "an object"),
    "world": (str, "a text"),
    "settings": (list, "a list"),
    "seeds": (list, "a list"),
    "baseline": (str, "a text"),
    "bound": ((str, type(None)), "a text or null"),
}


def _shape_problems(choices: object) -> Iterator[FieldProblem]:
    if not isinstance(choices, Mapping):
        yield FieldProblem("", "wrong_type", "must be an object")
        return
    yield from _halving_shape_problems(choices.get("halving"))
    yield from _failure_problems(choices.get("failures"))
    for name, (kind, text) in _TYPES.items():
        if name not in choices:
            yield FieldProblem(f"/{name}", "required", f"must be {text}; it is missing")
        elif not isinstance(choices[name], kind):
            yield FieldProblem(f"/{name}", "wrong_type", f"must be {text}, not {choices[name]!r}")
        elif name == "settings":
            for place, setting in enumerate(choices[name]):
                yield from _setting_shape_problems(setting, f"/settings/{place}")
        elif name == "seeds":
            for place, seed in enumerate(choices[name]):
                if not isinstance(seed, int) or isinstance(seed, bool):
                    detail = f"must be a whole number, not {seed!r}"
                    yield FieldProblem(f"/seeds/{place}", "wrong_type", detail)


def _failures_of(value: Mapping[str, Any] | None) -> Failures | None:
    if value is None:
        return None
    return Failures(float(value["per_day"]), float(value["repair_s"]))


def _failure_problems(value: object) -> Iterator[FieldProblem]:
    if value is None:
        return
    if not isinstance(value, Mapping):
        yield FieldProblem("/failures", "wrong_type", f"must be an object, not {value!r}")
        return
    for name, accepted in FAILURES.items():
        if not accepted.accepts(value.get(name)):
            detail = f"must be {accepted.accepted}, not {value.get(name)!r}"
            yield FieldProblem(f"/failures/{name}", "unknown_value", detail)


def _halving_shape_problems(halving: object) -> Iterator[FieldProblem]:
    if halving is None:
        return
    if not isinstance(halving, Mapping):
        yield FieldProblem("/halving", "wrong_type", f"must be an object, not {halving!r}")
    elif not isinstance(first := halving.get("first_seeds"), int) or isinstance(first, bool):
        detail = f"must be a whole number, not {first!r}"
        yield FieldProblem("/halving/first_seeds", "wrong_type", detail)


def _setting_shape_problems(setting: object, at: str) -> Iterator[FieldProblem]:
    if not isinstance(setting, Mapping):
        yield FieldProblem(at, "wrong_type", "must be an object with name and options")
        return
    if not isinstance(setting.get("name"), str):
        detail = f"must be a text, not {setting.get('name')!r}"
        yield FieldProblem(f"{at}/name", "wrong_type", detail)
    if not isinstance(setting.get("options"), Mapping):
        detail = f"must be an object, not {setting.get('options')!r}"
        yield FieldProblem(f"{at}/options", "wrong_type", detail)
