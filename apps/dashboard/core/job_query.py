"""The text query of the Jobs page.

``state:running app:wordcount reason:NoFreeUnit label:team=ml some-name``.
"""

import shlex
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

KEYS: Final = (
    "state", "app", "target", "reason", "project", "label", "priority", "array", "is",
)  # fmt: skip
STATES: Final = (
    "submitted", "profiling", "queued", "starting", "running", "succeeded", "failed", "cancelled",
)  # fmt: skip
GROUPS: Final = {
    "waiting": ("submitted", "profiling", "queued"),
    "active": ("starting", "running"),
    "ended": ("succeeded", "failed", "cancelled"),
}
FLAGS: Final = ("held", "below", "met")


@dataclass(frozen=True, slots=True)
class JobQuery:
    """Filters of the Jobs list.

    Attributes
    ----------
    states : any of these; empty = all
    array : its members only
    words : beginnings of words of the job's name; all must match
    problems : sentences about invalid parts of the text
    """

    states: tuple[str, ...] = ()
    app: str = ""
    target: str = ""
    reason: str = ""
    project: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    priority: int | None = None
    array: UUID | None = None
    flags: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    problems: tuple[str, ...] = field(default=())

    @property
    def is_empty(self) -> bool:
        """Whether it matches all jobs."""
        return self == JobQuery(problems=self.problems)

    @property
    def is_counted(self) -> bool:
        """Whether the counters of jobs answer it: state, target, application and project only."""
        return not (self.reason or self.labels or self.flags or self.words or self.array) and (
            self.priority is None
        )


def parse(text: str) -> JobQuery:
    """Parse a query; invalid parts are reported in ``problems``, never dropped silently."""
    try:
        parts = shlex.split(text)
    except ValueError:
        parts = text.replace('"', " ").replace("'", " ").split()
    values: dict[str, list[str]] = {key: [] for key in KEYS}
    names: list[str] = []
    problems: list[str] = []
    for part in parts:
        key, colon, value = part.partition(":")
        if not colon:
            names.append(part)
        elif key in values and value:
            values[key].append(value)
        elif key in values:
            problems.append(f"{key}: needs a value")
        else:
            problems.append(f"{key}: is not a filter; use one of {', '.join(KEYS)}")
    return JobQuery(
        states=_states(values["state"], problems),
        app=_last(values["app"]),
        target=_last(values["target"]),
        reason=_last(values["reason"]),
        project=_last(values["project"]),
        labels=_labels(values["label"], problems),
        priority=_priority(_last(values["priority"]), problems),
        array=_array(_last(values["array"]), problems),
        flags=_flags(values["is"], problems),
        words=tuple(names),
        problems=tuple(problems),
    )


def with_part(text: str, key: str, value: str) -> str:
    """Return the query text with one key replaced; an empty value removes it."""
    others = [part for part in text.split() if not part.startswith(f"{key}:")]
    return " ".join([*others, f"{key}:{value}"] if value else others)


def _last(values: list[str]) -> str:
    return values[-1] if values else ""


def _states(values: list[str], problems: list[str]) -> tuple[str, ...]:
    states: list[str] = []
    for value in ",".join(values).split(","):
        if value in GROUPS:
            states.extend(GROUPS[value])
        elif value in STATES:
            states.append(value)
        elif value:
            problems.append(
                f"state:{value} is not a state; use one of {', '.join((*STATES, *GROUPS))}"
            )
    return tuple(dict.fromkeys(states))


def _labels(values: list[str], problems: list[str]) -> tuple[tuple[str, str], ...]:
    pairs: list[tuple[str, str]] = []
    for value in values:
        name, equals, text = value.partition("=")
        if equals and name:
            pairs.append((name, text))
        else:
            problems.append(f"label:{value} must have the form label:name=value")
    return tuple(pairs)


def _priority(value: str, problems: list[str]) -> int | None:
    if not value:
        return None
    try:
        return int(value)
    except ValueError:
        problems.append(f"priority:{value} must be a whole number")
        return None


def _array(value: str, problems: list[str]) -> UUID | None:
    if not value:
        return None
    try:
        return UUID(value)
    except ValueError:
        problems.append(f"array:{value} must be the id of a job array")
        return None


def _flags(values: list[str], problems: list[str]) -> tuple[str, ...]:
    problems.extend(
        f"is:{value} is not a flag; use one of {', '.join(FLAGS)}"
        for value in values
        if value not in FLAGS
    )
    return tuple(value for value in values if value in FLAGS)
