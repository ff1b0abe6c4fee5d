"""Slurm's short notation of many names: ``n[1-3,07]`` is n1, n2, n3 and n07."""

import re
from collections.abc import Iterator
from typing import Final

MAX_NAMES: Final = 100_000
_RANGE: Final = re.compile(r"(\d+)(?:-(\d+))?")


def expand(text: str) -> tuple[str, ...]:
    """Return the names that a list stands for, in order.

    Raises
    ------
    ValueError : the brackets do not match, a range is not one, or there are too many names.
    """
    names: list[str] = []
    for part in _split(text):
        names.extend(_names(part))
        if len(names) > MAX_NAMES:
            raise ValueError(f"more than {MAX_NAMES:,} names: {text:.60}")
    return tuple(names)


def _split(text: str) -> Iterator[str]:
    """Split at the commas outside of brackets."""
    depth, begin = 0, 0
    for i, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if depth not in (0, 1):
            raise ValueError(f"brackets do not match: {text:.60}")
        if letter == "," and depth == 0:
            yield text[begin:i]
            begin = i + 1
    if depth:
        raise ValueError(f"brackets do not match: {text:.60}")
    if text[begin:]:
        yield text[begin:]


def _names(part: str) -> Iterator[str]:
    head, bracket, rest = part.partition("[")
    if not bracket:
        yield head
        return
    inside, _, tail = rest.partition("]")
    for item in inside.split(","):
        match = _RANGE.fullmatch(item)
        if match is None:
            raise ValueError(f"not a range of numbers: {item:.60}")
        first, last = match[1], match[2] or match[1]
        if int(last) - int(first) > MAX_NAMES:
            raise ValueError(f"more than {MAX_NAMES:,} names: {part:.60}")
        for number in range(int(first), int(last) + 1):
            for end in _names(tail):
                yield f"{head}{number:0{len(first)}d}{end}"
