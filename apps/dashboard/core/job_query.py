"""The text query of the Jobs page.

``state:running app:wordcount reason:QualityShort label:team=ml some-name``.
"""

import shlex
from dataclasses import dataclass, field
from typing import Final

KEYS: Final = ("state", "app", "target", "reason", "project", "label", "priority", "is")
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
    """What to list.

    Attributes
    ----------
    states : any of these; empty = all
    words : each must occur in the job's name
    problems : parts of the text that mean nothing, as sentences
    """

    states: tuple[str, ...] = ()
    app: str = ""
    target: str = ""
    reason: str = ""
    project: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    priority: int | None = None
    flags: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    problems: tuple[str, ...] = field(default=())

    @property
    def is_empty(self) -> bool:
        """Whether it lists everything."""
        return self == JobQuery(problems=self.problems)


def parse(text: str) -> JobQuery:
    """Read a query; what cannot be read is named, never silently dropped."""
    try:
        parts = shlex.split(text)
    except ValueError:
        parts = text.replace('"', " ").replace("'", " ").split()
    found: dict[str, list[str]] = {key: [] for key in KEYS}
    names: list[str] = []
    problems: list[str] = []
    for part in parts:
        key, colon, value = part.partition(":")
        if not colon:
            names.append(part)
        elif key in found and value:
            found[key].append(value)
        elif key in found:
            problems.append(f"{key}: needs a value")
        else:
            problems.append(f"{key}: is not known; known are {', '.join(KEYS)}")
    return JobQuery(
        states=_states(found["state"], problems),
        app=_last(found["app"]),
        target=_last(found["target"]),
        reason=_last(found["reason"]),
        project=_last(found["project"]),
        labels=_labels(found["label"], problems),
        priority=_priority(_last(found["priority"]), problems),
        flags=_flags(found["is"], problems),
        words=tuple(names),
        problems=tuple(problems),
    )


def with_part(text: str, key: str, value: str) -> str:
    """Return the query text with one key replaced; an empty value removes it."""
    kept = [part for part in text.split() if not part.startswith(f"{key}:")]
    return " ".join([*kept, f"{key}:{value}"] if value else kept)


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
                f"state:{value} is not known; known are {', '.join((*STATES, *GROUPS))}"
            )
    return tuple(dict.fromkeys(states))


def _labels(values: list[str], problems: list[str]) -> tuple[tuple[str, str], ...]:
    pairs: list[tuple[str, str]] = []
    for value in values:
        name, equals, text = value.partition("=")
        if equals and name:
            pairs.append((name, text))
        else:
            problems.append(f"label:{value} must read label:name=value")
    return tuple(pairs)


def _priority(value: str, problems: list[str]) -> int | None:
    if not value:
        return None
    try:
        return int(value)
    except ValueError:
        problems.append(f"priority:{value} must be a whole number")
        return None


def _flags(values: list[str], problems: list[str]) -> tuple[str, ...]:
    problems.extend(
        f"is:{value} is not known; known are {', '.join(FLAGS)}"
        for value in values
        if value not in FLAGS
    )
    return tuple(value for value in values if value in FLAGS)
