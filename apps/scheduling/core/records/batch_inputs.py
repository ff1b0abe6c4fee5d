"""Inputs of one call of a policy, packed to be stored with its decisions.

With the cluster at `BatchInputs.sequence` it repeats every decision of the batch. Profiles are
immutable, so requests name theirs; equal requests are stored once. No job is named. The typical
profile of a short job is not stored: a goal of the job contains it.
"""

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, NamedTuple
from uuid import UUID

import numpy as np

from apps.classification.core.estimates import Estimates
from apps.classification.core.profile import Profile
from apps.inventory.core.snapshot import Floats, Topology
from apps.scheduling.core.requests import platform_speeds
from apps.scheduling.core.reservations.backfill import Binding
from apps.scheduling.core.sizing.goals import Goal
from apps.scheduling.core.types import Pool, Request, Within
from apps.workloads.core.targets import read_target

FORMAT: Final = 1
LEVEL: Final = 1  # of zlib: packing takes part of the time of a decision


class UnreadableBatchError(ValueError):
    """A stored batch cannot be repeated; the message says why."""


@dataclass(frozen=True, slots=True, eq=False)
class BatchInputs:
    """Requests that a policy decided together, in order.

    Attributes
    ----------
    sequence : change-log number of the snapshot
    servers, platforms : number of servers and platforms in the topology
    seed : of the generator that the policy drew from
    policy, parameters : by which it can be made again
    profiles : of each request; None = one that is not stored
    bindings : jobs by the reservations that bind them; empty = there was no reservation
    """

    sequence: int
    servers: int
    platforms: int
    seed: int
    policy: str
    parameters: Mapping[str, float]
    requests: Sequence[Request]
    profiles: Sequence[UUID | None]
    bindings: Sequence[Binding] = ()

    def packed(self) -> bytes:
        """Return the inputs, apart from the columns of their row, as compressed JSON."""
        table = _Table()
        rows = [
            table.row(request, profile)
            for request, profile in zip(self.requests, self.profiles, strict=True)
        ]
        body = {
            "format": FORMAT,
            "seed": self.seed,
            "parameters": dict(self.parameters),
            "requests": rows,
            "bindings": list(self.bindings),
            **table.as_json(),
        }
        return zlib.compress(json.dumps(body, separators=(",", ":")).encode(), LEVEL)


class _Table:
    """The distinct requests and profiles of a batch."""

    def __init__(self) -> None:
        self._forms: dict[tuple[Any, ...], int] = {}
        self._form_rows: list[dict[str, Any]] = []
        self._profiles: dict[Any, int] = {}
        self._profile_rows: list[Any] = []
        self._typical: dict[int, int] = {}
        self._typical_rows: list[dict[str, Any]] = []
        self._pools: dict[Pool, int] = {}

    def row(self, request: Request, profile: UUID | None) -> list[Any]:
        """Return a request as [form, elapsed seconds, whether its rank is measured, patience].

        The seconds are those of its goal. Trailing values are left out if they are 0.
        """
        goal = request.goal
        key = (
            profile or (id(request.caused), id(request.tolerated)),
            *(getattr(request, name) for name in _PLAIN),
            *(request.platforms, request.labels, request.excluded, request.pool),
            goal and (goal.target, goal.input_bytes, goal.tasks, goal.platforms),
        )
        form = self._forms.get(key)
        if form is None:
            form = self._forms[key] = len(self._form_rows)
            self._form_rows.append(self._form(request, profile))
        elapsed_s = 0.0 if goal is None else goal.elapsed_s
        row = [form, elapsed_s, int(request.measure_rank), int(request.is_patient)]
        while len(row) > 1 and not row[-1]:
            row.pop()
        return row

    def as_json(self) -> dict[str, Any]:
        """JSON of the tables."""
        return {
            "forms": self._form_rows,
            "profiles": self._profile_rows,
            "typical": self._typical_rows,
            "pools": [b64encode(pool.bits).decode() for pool in self._pools],
        }

    def _form(self, request: Request, profile: UUID | None) -> dict[str, Any]:
        plain: dict[str, Any] = {name: getattr(request, name) for name in _PLAIN}
        form: dict[str, Any] = {n: v for n, v in plain.items() if v != _DEFAULTS[n]}
        for name in _SETS:
            value = getattr(request, name)
            if value or (name == "platforms" and value is not None):
                form[name] = sorted(value)
        if request.pool is not None:
            form["pool"] = self._pools.setdefault(request.pool, len(self._pools))
        if request.goal is not None:
            form["goal"] = _goal_json(request.goal)
            if profile is None:
                form["goal"]["profile"] = self._typical_profile(request.goal.profile)
        form["profile"] = self._profile(request, profile)
        return form

    def _profile(self, request: Request, profile: UUID | None) -> int:
        key = profile or (id(request.caused), id(request.tolerated))
        if key not in self._profiles:
            self._profiles[key] = len(self._profile_rows)
            self._profile_rows.append(_scores(request) if profile is None else profile.hex)
        return self._profiles[key]

    def _typical_profile(self, profile: Profile) -> int:
        if id(profile) not in self._typical:
            self._typical[id(profile)] = len(self._typical_rows)
            self._typical_rows.append(_profile_json(profile))
        return self._typical[id(profile)]


_PLAIN: Final = (
    *("units", "unit_memory_bytes", "unit_network_bps", "unit_storage_bytes", "gang"),
    *("locality", "spread", "sample_size", "reserved"),
)
_SETS: Final = ("platforms", "labels", "excluded")
_DEFAULTS: Final[dict[str, Any]] = {
    **dict.fromkeys(_PLAIN),
    **dict.fromkeys(("unit_memory_bytes", "unit_network_bps", "unit_storage_bytes"), 0.0),
    "gang": False,
}


def _goal_json(goal: Goal) -> dict[str, Any]:
    return {
        "target": goal.target.as_json(),
        "input_bytes": goal.input_bytes,
        "tasks": goal.tasks,
        "platforms": None if goal.platforms is None else sorted(goal.platforms),
        "unit_memory_bytes": goal.unit_memory_bytes,
    }


def _profile_json(profile: Profile) -> dict[str, Any]:
    values = {field.name: getattr(profile, field.name) for field in fields(profile)}
    return {
        name: [a.tolist() for a in (*value.ends, value.measured)]
        if isinstance(value, Estimates)
        else value
        for name, value in values.items()
    }


def _scores(request: Request) -> list[Any]:
    speed = request.platform_speed
    return [
        request.caused.tolist(),
        request.tolerated.tolist(),
        None if speed is None else speed.tolist(),
    ]


class StoredBatch(NamedTuple):
    """A packed batch, read but without its profiles.

    Attributes
    ----------
    body : JSON
    profiles : ids of the profiles that it needs
    """

    body: dict[str, Any]
    profiles: frozenset[UUID]

    @classmethod
    def read(cls, packed: bytes) -> "StoredBatch":
        """Read the result of `BatchInputs.packed`.

        Raises
        ------
        UnreadableBatchError : a later release has packed it.
        """
        body = json.loads(zlib.decompress(packed))
        if body["format"] != FORMAT:
            raise UnreadableBatchError(f"the batch has format {body['format']}, not {FORMAT}")
        return cls(body, frozenset(UUID(p) for p in body["profiles"] if isinstance(p, str)))

    @property
    def seed(self) -> int:
        """Seed of the generator of the policy."""
        return int(self.body["seed"])

    @property
    def bindings(self) -> tuple[Binding, ...]:
        """Jobs by the reservations that bind them."""
        return tuple(
            # batches of older releases keep no room
            Binding(tuple(positions), tuple(units), tuple((u, m, n, s) for u, m, n, s in room))
            for positions, units, room in ((*row, ())[:3] for row in self.body["bindings"])
        )

    def requests(self, profiles: Mapping[UUID, Profile], topology: Topology) -> list[Request]:
        """Return the requests, named by their position.

        Raises
        ------
        UnreadableBatchError : a profile is missing.
        """
        missing = self.profiles - profiles.keys()
        if missing:
            raise UnreadableBatchError("a profile of the batch is no longer stored")
        known = [
            profiles[UUID(row)] if isinstance(row, str) else row for row in self.body["profiles"]
        ]
        # older releases stored none
        typical = [_typical_profile(row) for row in self.body.get("typical", ())]
        size = topology.server_id.size
        pools = [Pool(b64decode(bits), size) for bits in self.body.get("pools", ())]
        forms = [
            replace(
                _request(form, known[form["profile"]], typical, topology),
                pool=pools[form["pool"]] if "pool" in form else None,
            )
            for form in self.body["forms"]
        ]
        return [
            _named(forms[form], str(position), *rest)
            for position, (form, *rest) in enumerate(self.body["requests"])
        ]


def _named(
    request: Request, name: str, elapsed_s: float = 0.0, measured: int = 0, patient: int = 0
) -> Request:
    goal = request.goal
    if goal is not None:
        goal = replace(goal, elapsed_s=elapsed_s)
    is_patient = bool(patient)
    return replace(
        request, job=name, goal=goal, measure_rank=bool(measured), is_patient=is_patient
    )


def _request(
    form: Mapping[str, Any],
    profile: Profile | list[Any],
    typical: Sequence[Profile],
    topology: Topology,
) -> Request:
    speed: Floats | None
    if isinstance(profile, Profile):
        caused, tolerated = profile.caused.value, profile.assumed_tolerance
        speed = platform_speeds(profile, topology)
    else:
        caused, tolerated = np.array(profile[0]), np.array(profile[1])
        speed = None if profile[2] is None else np.array(profile[2])
    plain = {name: form[name] for name in _PLAIN if name in form}
    for name in ("locality", "spread"):
        if name in plain:
            plain[name] = Within(plain[name])
    sets: dict[str, Any] = {name: frozenset(form[name]) for name in _SETS if name in form}
    goal = _goal(form["goal"], profile, typical) if "goal" in form else None
    return Request("", caused=caused, tolerated=tolerated, platform_speed=speed, goal=goal,
                   **plain, **sets)  # fmt: skip


def _goal(
    stored: Mapping[str, Any], profile: Profile | list[Any], typical: Sequence[Profile]
) -> Goal | None:
    """Return a goal; None for a typical profile that an older release has not stored."""
    if not isinstance(profile, Profile) and "profile" not in stored:
        return None
    return Goal(
        profile=profile if isinstance(profile, Profile) else typical[stored["profile"]],
        target=read_target(stored["target"]),
        input_bytes=stored["input_bytes"],
        tasks=stored["tasks"],
        platforms=None if stored["platforms"] is None else frozenset(stored["platforms"]),
        unit_memory_bytes=stored["unit_memory_bytes"],
    )


def _typical_profile(row: Mapping[str, Any]) -> Profile:
    estimates = {
        field.name: _estimates(*row[field.name])
        for field in fields(Profile)
        if field.type is Estimates
    }
    names = {name: tuple(row[name]) for name in ("platforms", "settings", "flags")}
    return Profile(**{**row, **estimates, **names})


def _estimates(
    value: Sequence[float], low: Sequence[float], high: Sequence[float], measured: Sequence[bool]
) -> Estimates:
    return Estimates(
        np.array(value, dtype=np.float64),
        np.array(low, dtype=np.float64),
        np.array(high, dtype=np.float64),
        np.array(measured, dtype=np.bool_),
    )
