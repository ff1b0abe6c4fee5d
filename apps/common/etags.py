"""Strong entity tags from generations, and the preconditions that name them (RFC 9110 §13).

A tag reads ``"g17"`` or ``"g17-0a1b2c3d"``: the generation of what users edit, then a digest of
the rest of the representation. If-Match guards edits, so it compares generations and a job's
progress does not make every edit fail; If-None-Match guards reads, so it compares the whole.
"""

import hashlib
import re
from typing import Final

from django.http import HttpRequest

from apps.common.core.problem_codes import ProblemCode
from apps.common.problems import ProblemError

_TAG: Final = re.compile(r'(W/)?"([^"]*)"')
_GENERATION: Final = re.compile(r"g(\d+)(?:-[0-9a-f]+)?")


def entity_tag(generation: int | None, content: bytes | None = None) -> str:
    """Return the tag of a representation.

    Parameters
    ----------
    generation : number of edits; None where nobody edits the object
    content : bytes of the representation where more than edits changes it
    """
    parts = [] if generation is None else [f"g{generation}"]
    if content is not None:
        parts.append(hashlib.sha256(content).hexdigest()[:16])
    return f'"{"-".join(parts)}"'


def is_unchanged(request: HttpRequest, tag: str) -> bool:
    """Return True where If-None-Match names the tag: the answer is 304 without a body."""
    given = request.META.get("HTTP_IF_NONE_MATCH")
    if not given:
        return False
    return given.strip() == "*" or tag in {f'"{found[1]}"' for found in _TAG.findall(given)}


def expected_generation(request: HttpRequest) -> int | None:
    """Return the generation that If-Match insists on; None where it does not.

    Raises
    ------
    ProblemError : the header names no tag of ours, so nothing could ever match it.
    """
    given = request.META.get("HTTP_IF_MATCH")
    if not given or given.strip() == "*":
        return None
    found = _TAG.fullmatch(given.strip())
    match = _GENERATION.fullmatch(found.group(2)) if found and not found.group(1) else None
    if match is None:
        raise ProblemError(
            ProblemCode.PRECONDITION_FAILED,
            f'If-Match takes one strong tag such as "g17", not {given[:60]}.',
        )
    return int(match.group(1))


def required_generation(request: HttpRequest) -> int | None:
    """Return the generation of an If-Match that has to be there; None for ``*``.

    Raises
    ------
    ProblemError : there is none, or it names no tag of ours.
    """
    if not request.META.get("HTTP_IF_MATCH"):
        raise ProblemError(
            ProblemCode.PRECONDITION_REQUIRED,
            "This changes what the cluster does: say in If-Match which version was looked at.",
        )
    return expected_generation(request)
