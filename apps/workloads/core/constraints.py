"""Where a job may run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from apps.workloads.core.checks import Check, Problems, labels, names, number, one_of, problem
from apps.workloads.core.costs import COST_LIMITS
from apps.workloads.core.fields import read_fields

MAX_PLATFORMS: Final = 200
MAX_EXCLUDED: Final = 100
SCOPES: Final = ("server", "rack", "switch")  # each inside the next


@dataclass(frozen=True, slots=True)
class Constraints:
    """Where a job may run.

    Attributes
    ----------
    platforms : allowed platforms; empty = any
    labels : labels a server must carry
    locality : all units on one "server", in one "rack" or below one "switch"; None = anywhere
    spread : no two units on one "server", in one "rack" or below one "switch"; None = any. With a
        locality, it must be a smaller place
    max_cost : highest predicted unit-seconds of a placement; None = any
    excluded : names of servers on which it must not run, known or not
    """

    platforms: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    locality: str | None = None
    spread: str | None = None
    max_cost: float | None = None
    excluded: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """JSON form, always with the first four keys."""
        ceiling = {} if self.max_cost is None else {"max_cost": self.max_cost}
        excluded = {"excluded": list(self.excluded)} if self.excluded else {}
        return {
            "platforms": list(self.platforms),
            "labels": dict(self.labels),
            "locality": self.locality,
            "spread": self.spread,
            **ceiling,
            **excluded,
        }


ANYWHERE: Final = Constraints()


_CONSTRAINT_FIELDS: Final[dict[str, tuple[str, Check]]] = {
    "platforms": ("platforms", names("platform", MAX_PLATFORMS)),
    "labels": ("labels", labels),
    "locality": ("locality", one_of(*SCOPES)),
    "spread": ("spread", one_of(*SCOPES)),
    "max_cost": ("max_cost", number(*COST_LIMITS)),
    "excluded": ("excluded", names("server", MAX_EXCLUDED)),
}


def check_constraints(value: object, pointer: str, problems: Problems) -> Constraints | None:
    """Return the constraints of a job, or add the problems and return None."""
    if value is None:
        return ANYWHERE
    if not isinstance(value, Mapping):
        problems.append(problem(pointer, "wrong_type", "must be an object"))
        return None
    found = len(problems)
    read = read_fields(value, _CONSTRAINT_FIELDS, pointer, problems)
    _check_spread(read.get("locality"), read.get("spread"), f"{pointer}/spread", problems)
    return Constraints(**read) if len(problems) == found else None


def _check_spread(
    locality: str | None, spread: str | None, pointer: str, problems: Problems
) -> None:
    """Refuse a spread that is not finer than the locality: a rack has several servers."""
    if locality is None or spread is None:
        return
    finer = SCOPES[: SCOPES.index(locality)]
    if spread not in finer:
        accepted = f"{', '.join(finer)} or null" if finer else "null"
        detail = f"must be {accepted} while locality is {locality}, not {spread!r}"
        problems.append(problem(pointer, "contradiction", detail))
