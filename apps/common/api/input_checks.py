"""Characters that no part of a request may contain, checked before any view runs."""

from collections.abc import Iterator

from django.http import HttpRequest

from apps.common.api.problems import ProblemError
from apps.common.core.errors import FieldProblem
from apps.common.core.plain_text import has_control_character, unstorable_character
from apps.common.core.problem_codes import ProblemCode

INVALID = "invalid_character"


def request_problem(request: HttpRequest) -> ProblemError | None:
    """Return the problem of a request whose path, headers, cookies or parameters are refused."""
    for find, code in (
        (_path_problems, ProblemCode.MALFORMED_REQUEST),
        (_header_problems, ProblemCode.MALFORMED_REQUEST),
        (_cookie_problems, ProblemCode.MALFORMED_REQUEST),
        (_parameter_problems, ProblemCode.INVALID_PARAMETER),
    ):
        problems = list(find(request))
        if problems:
            detail = "; ".join(f"{p.pointer} {p.detail}" for p in problems)
            return ProblemError(code, f"{detail}.", errors=problems)
    return None


def _path_problems(request: HttpRequest) -> Iterator[FieldProblem]:
    if has_control_character(request.path_info):
        yield FieldProblem("The path", INVALID, "must not contain control characters")


def _header_problems(request: HttpRequest) -> Iterator[FieldProblem]:
    for key, value in request.META.items():
        if key.startswith("HTTP_") and has_control_character(str(value).replace("\t", " ")):
            name = key.removeprefix("HTTP_").replace("_", "-").title()
            yield FieldProblem(
                f"The header {name}", INVALID, "must not contain control characters"
            )


def _cookie_problems(request: HttpRequest) -> Iterator[FieldProblem]:
    """Yield problems of cookies: their quoted form can hold any character."""
    for name, value in request.COOKIES.items():
        if has_control_character(value):
            yield FieldProblem(
                f"The cookie {name}", INVALID, "must not contain control characters"
            )


def _parameter_problems(request: HttpRequest) -> Iterator[FieldProblem]:
    if "%00" not in request.META.get("QUERY_STRING", ""):
        return
    for name, values in request.GET.lists():
        if (character := unstorable_character("".join((name, *values)))) is not None:
            shown = name.replace("\x00", "\\u0000")
            yield FieldProblem(shown, INVALID, f"must not contain the character {character}")
