"""The text query of the Decisions page: ``server:s-0412 app:wordcount reason:NoFreeUnit sort``."""

import shlex
from dataclasses import dataclass
from typing import Final

KEYS: Final = ("app", "server", "policy", "agent", "reason", "retries")


@dataclass(frozen=True, slots=True)
class DecisionQuery:
    """Filters of the log of decisions.

    Attributes
    ----------
    retries : at least so many commits that failed before; 0 = any number
    words : id of a decision or job, or beginnings of words of the job's name
    problems : sentences about invalid parts of the text
    """

    app: str = ""
    server: str = ""
    policy: str = ""
    agent: str = ""
    reason: str = ""
    retries: int = 0
    words: str = ""
    problems: tuple[str, ...] = ()


def parse(text: str) -> DecisionQuery:
    """Parse a query; invalid parts are reported in ``problems``, never dropped silently."""
    try:
        parts = shlex.split(text)
    except ValueError:
        parts = text.replace('"', " ").replace("'", " ").split()
    values: dict[str, str] = {}
    words: list[str] = []
    problems: list[str] = []
    for part in parts:
        key, colon, value = part.partition(":")
        if not colon:
            words.append(part)
        elif key not in KEYS:
            problems.append(f"{key}: is not a filter; use one of {', '.join(KEYS)}")
        elif not value:
            problems.append(f"{key}: needs a value")
        else:
            values[key] = value
    return DecisionQuery(
        **{name: values.get(name, "") for name in KEYS if name != "retries"},
        retries=_count(values.get("retries", "0"), problems),
        words=" ".join(words),
        problems=tuple(problems),
    )


def _count(text: str, problems: list[str]) -> int:
    if text.isascii() and text.isdigit() and len(text) < 9:
        return int(text)
    problems.append(f"retries:{text} must be a whole number of at least 0")
    return 0
