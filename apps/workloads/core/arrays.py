"""Job arrays: the indexes of their members, and how many may run at once."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from apps.common.core.errors import InvalidInputError
from apps.workloads.core.checks import Problems, escape, integer, problem

MAX_INDEX: Final = 2**31 - 1
MAX_TEXT: Final = 500
MAX_NAME: Final = 127
_PART: Final = re.compile(r"(\d{1,10})(?:-(\d{1,10})(?::(\d{1,10}))?)?", re.ASCII)
_FIELDS: Final = ("size", "indexes", "limit")


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """The members of an array.

    Attributes
    ----------
    text : their indexes, as in "0-99:2,200"
    indexes : the same, each once, in the order of the text; at least one
    limit : members that may wait for units or run at once; None = all
    """

    text: str
    indexes: tuple[int, ...]
    limit: int | None = None


def parse_array(value: object, *, at: str, max_size: int) -> ArraySpec:
    """Parse ``{"size": n}`` or ``{"indexes": "0-99:2"}``, either with a ``limit``.

    Parameters
    ----------
    at : JSON Pointer of the value
    max_size : largest number of members

    Raises
    ------
    InvalidInputError : lists all problems. Cost: O(members), never more than ``max_size``.
    """
    if not isinstance(value, Mapping):
        example = '{"indexes": "0-99:2", "limit": 10}'
        detail = f"must be an object such as {example}, not {value!r:.60}"
        raise InvalidInputError([problem(at, "wrong_type", detail)])
    problems: Problems = [
        problem(f"{at}/{escape(str(name))}", "unknown_field", f"known: {', '.join(_FIELDS)}")
        for name in value
        if name not in _FIELDS
    ]
    text = _text(value, at, problems, max_size)
    indexes = _indexes(text, f"{at}/indexes", problems, max_size) if text is not None else ()
    limit = parse_limit(value.get("limit"), f"{at}/limit", problems)
    if problems or text is None:
        raise InvalidInputError(problems)
    return ArraySpec(text, indexes, limit)


def parse_limit(value: object, at: str, problems: Problems) -> int | None:
    """Check the number of members that may run at once; null means all."""
    found: int | None = integer(1, MAX_INDEX, null=True)(value, at, problems)
    return found


def _text(value: Mapping[str, Any], at: str, problems: Problems, max_size: int) -> str | None:
    """Return the indexes as text, from a size too."""
    size, text = value.get("size"), value.get("indexes")
    if (size is None) == (text is None):
        problems.append(problem(at, "contradiction", "give size or indexes, and not both"))
        return None
    if size is not None:
        checked = integer(1, max_size)(size, f"{at}/size", problems)
        return None if checked is None else "0" if checked == 1 else f"0-{checked - 1}"
    if not isinstance(text, str):
        detail = f'must be text such as "0-99:2,200", not {text!r:.60}'
        problems.append(problem(f"{at}/indexes", "wrong_type", detail))
    elif len(text) > MAX_TEXT:
        detail = f"must have at most {MAX_TEXT} characters"
        problems.append(problem(f"{at}/indexes", "too_long", detail))
    else:
        return text
    return None


def _indexes(text: str, at: str, problems: Problems, max_size: int) -> tuple[int, ...]:
    """Expand ranges; reads no more than their ends before it knows the number of members."""
    ranges = []
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        first, last, step = (match and match.groups()) or (None, None, None)
        low = int(first or 0)
        chosen = range(low, int(last or low) + 1, int(step or 1) or 1)
        if match is None or not chosen or int(step or 1) == 0 or chosen[-1] > MAX_INDEX:
            detail = (
                "must be indexes and ranges such as 0-99:2,200,"
                f" ascending and at most {MAX_INDEX}, not {part.strip()!r:.60}"
            )
            problems.append(problem(at, "bad_indexes", detail))
            return ()
        ranges.append(chosen)
    size = sum(len(each) for each in ranges)
    if size > max_size:
        detail = f"must be at most {max_size:,} indexes, not {size:,}"
        problems.append(problem(at, "too_many", detail))
        return ()
    indexes = tuple(index for each in ranges for index in each)
    index, times = Counter(indexes).most_common(1)[0]
    if times > 1:
        detail = f"must name each index once; {index} is named {times} times"
        problems.append(problem(at, "repeated", detail))
    return indexes


def member_name(name: str, index: int) -> str:
    """Return the name of a member, which fits into the name of a job."""
    end = f"-{index}"
    return name[: MAX_NAME - len(end)] + end


def array_variables(array: object, index: int | None) -> dict[str, str]:
    """Return the variables of a command that is a member of an array; empty for other jobs."""
    if index is None:
        return {}
    return {"BERTH_ARRAY_ID": str(array), "BERTH_ARRAY_INDEX": str(index)}
