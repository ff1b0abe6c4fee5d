"""The plan of a comparison of policies, as plain data. No database, no clock.

A plan holds everything that determines its runs, so that the same plan gives the same result on
another machine (`LabPlan.digest`). Runs of one seed share jobs, the applications' true behaviour
and the noise of profiling.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from apps.common.core.errors import FieldProblem, InvalidInputError
from apps.emulation.core.worlds import WORLDS
from apps.testbed.core.berth_jobs import berth_lines
from apps.testbed.core.lab_options import option_problems
from apps.testbed.core.replay.clusters import cluster_from_document
from apps.testbed.core.replay.model import Admission, ProfileSource, ReplayError, ReplayOptions
from apps.testbed.core.trace_workload import TraceWorkload

MAX_SETTINGS: Final = 8
MAX_SEEDS: Final = 50
MAX_SEED: Final = 2**31 - 1
MAX_NAME: Final = 127
WORLD_NAMES: Final = tuple(WORLDS)


@dataclass(frozen=True, slots=True)
class LabSetting:
    """A policy with parameters.

    Attributes
    ----------
    name : distinct within a plan
    options : those that differ from the defaults of `ReplayOptions`, and ``servers_share``; keys
        are in `OPTIONS`
    """

    name: str
    options: Mapping[str, Any]

    def replay_options(self, world: str, seed: int) -> ReplayOptions:
        """Return the options of a run; those of the setting are valid."""
        values = {name: v for name, v in self.options.items() if name != "servers_share"}
        for name, kind in (("profiles", ProfileSource), ("admission", Admission)):
            if name in values:
                values[name] = kind(values[name])
        return ReplayOptions(seed=seed, world=world, **values)

    @property
    def servers_share(self) -> float:
        """Share of the servers of the cluster that the setting has."""
        return float(self.options.get("servers_share", 1.0))


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

    def _setting_problems(self) -> Iterator[FieldProblem]:
        count = len(self.settings)
        if not 1 <= count <= MAX_SETTINGS:
            detail = f"must have 1 to {MAX_SETTINGS} settings, not {count}"
            yield FieldProblem("/settings", "wrong_size", detail)
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
        }


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
