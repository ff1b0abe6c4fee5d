"""Strong entity tags and preconditions (RFC 9110 §13).

A tag reads ``"g17"`` or ``"g17-0a1b2c3d"``: the generation of the editable fields, then a digest
of the rest of the representation. If-Match compares generations only, so that the progress of a
job does not make every edit fail. If-None-Match compares the whole tag. The tag of a compressed
body ends in ``-gzip``, which neither comparison counts.
"""

import hashlib
import re
from typing import Final

from django.http import HttpRequest

from apps.common.api.problems import ProblemError
from apps.common.core.problem_codes import ProblemCode

_TAG: Final = re.compile(r'(W/)?"([^"]*)"')
_GENERATION: Final = re.compile(r"g([0-9]{1,20})(?:-[0-9a-f]+)?")
_COMPRESSED: Final = "-gzip"


def entity_tag(generation: int | None, content: bytes | None = None) -> str:
    """Return the tag of a representation.

    Parameters
    ----------
    generation : number of edits; None if the object is not editable
    content : bytes of the representation if other things than edits change it
    """
    parts = [] if generation is None else [f"g{generation}"]
    if content is not None:
        parts.append(hashlib.sha256(content).hexdigest()[:16])
    return f'"{"-".join(parts)}"'


def compressed_tag(tag: str) -> str:
    """Return the tag of the compressed form of a body; a weak tag is that of both forms."""
    return tag if tag.startswith("W/") else f'{tag[:-1]}{_COMPRESSED}"'


def is_unchanged(request: HttpRequest, tag: str) -> bool:
    """Return True if If-None-Match names the tag: the response is 304 without a body."""
    given = request.META.get("HTTP_IF_NONE_MATCH")
    if not given:
        return False
    named = {f'"{found[1].removesuffix(_COMPRESSED)}"' for found in _TAG.findall(given)}
    return given.strip() == "*" or tag in named


def expected_generation(request: HttpRequest) -> int | None:
    """Return the generation that If-Match requires; None without the header or for ``*``.

    Raises
    ------
    ProblemError : the header is not an entity tag of this API.
    """
    given = request.META.get("HTTP_IF_MATCH")
    if not given or given.strip() == "*":
        return None
    found = _TAG.fullmatch(given.strip())
    tag = found[2].removesuffix(_COMPRESSED) if found and not found[1] else ""
    match = _GENERATION.fullmatch(tag)
    if match is None:
        raise ProblemError(
            ProblemCode.PRECONDITION_FAILED,
            f'If-Match takes one strong tag such as "g17", not {given[:60]}.',
        )
    return int(match.group(1))


def required_generation(request: HttpRequest) -> int | None:
    """Return the generation of a mandatory If-Match; None for ``*``.

    Raises
    ------
    ProblemError : the header is missing, or is not an entity tag of this API.
    """
    if not request.META.get("HTTP_IF_MATCH"):
        raise ProblemError(
            ProblemCode.PRECONDITION_REQUIRED,
            "This request changes the running cluster: send If-Match with the version you read.",
        )
    return expected_generation(request)
