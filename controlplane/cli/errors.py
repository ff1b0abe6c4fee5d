"""Errors of the berth command: exit codes and messages."""

from enum import IntEnum
from typing import Any, Final


class Exit(IntEnum):
    """Exit codes."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    INFEASIBLE = 4  # also an awaited job that failed
    CONFLICT = 5
    TIMEOUT = 6
    AUTH = 7
    INTERRUPTED = 130


_BY_CODE: Final = {"infeasible_target": Exit.INFEASIBLE, "key_reused": Exit.CONFLICT}
_BY_STATUS: Final = {
    401: Exit.AUTH,
    403: Exit.AUTH,
    404: Exit.NOT_FOUND,
    409: Exit.CONFLICT,
    412: Exit.CONFLICT,
    428: Exit.CONFLICT,
    408: Exit.TIMEOUT,
    504: Exit.TIMEOUT,
}
_NEXT: Final = {Exit.AUTH: "berth login", Exit.INFEASIBLE: "berth check -f FILE"}
# by the first word of the requested path below /api/v1/
_NEXT_OF: Final = {
    Exit.NOT_FOUND: {
        "applications": "berth app list",
        "arrays": "berth array list",
        "decisions": "berth why JOB",
        "fronts": "berth fronts list",
        "jobs": "berth list",
        "matrices": "berth matrices",
        "measured-pairs": "berth pair list",
        "plans": "berth plan list",
        "preemptions": "berth preemption list",
        "preference-sets": "berth pref list",
        "profiling-runs": "berth profiling list",
        "projects": "berth projects list",
        "servers": "berth servers",
        "shadows": "berth shadow list",
        "users": "berth users list",
    },
    Exit.CONFLICT: {
        "jobs": "berth get JOB",
        "placement-loop": "berth loop show",
        "policies": "berth policy show",
        "projects": "berth projects list",
        "shadows": "berth shadow list",
    },
    Exit.TIMEOUT: {"jobs": "berth watch JOB"},
}


class CliError(Exception):
    """An error to show to the user.

    Attributes
    ----------
    title : what failed, in one line
    detail : explanation with values; may be empty
    errors : one line per invalid field
    request_id : to find it in the server's log
    next_command : suggested command
    """

    def __init__(
        self,
        title: str,
        *,
        code: Exit = Exit.FAILED,
        detail: str = "",
        errors: tuple[str, ...] = (),
        request_id: str = "",
        next_command: str = "",
    ) -> None:
        super().__init__(title)
        self.title = title
        self.code = code
        self.detail = detail
        self.errors = errors
        self.request_id = request_id
        self.next_command = next_command or _NEXT.get(code, "")

    def text(self) -> str:
        """Return the message: title, detail, request id, next command."""
        lines = [f"berth: {self.title}"]
        if self.detail and self.detail != self.title:
            lines.append(f"  {self.detail}")
        lines += [f"  {error}" for error in self.errors]
        if self.request_id:
            lines.append(f"  request id: {self.request_id}")
        if self.next_command:
            lines.append(f"  try: {self.next_command}")
        return "\n".join(lines)


def from_problem(
    status: int, problem: dict[str, Any], request_id: str, path: str = ""
) -> CliError:
    """Return the error for a problem response (RFC 9457) to a request for ``path``."""
    code = _BY_CODE.get(str(problem.get("code")), _BY_STATUS.get(status, Exit.FAILED))
    detail = str(problem.get("detail", ""))
    fields = [
        (error.get("pointer") or "/", error.get("detail", ""))
        for error in problem.get("errors", ())
        if isinstance(error, dict)
    ]
    errors = tuple(f"{name}: {text}" for name, text in fields)
    # the detail repeats the only error, of a field or of a query parameter
    if detail in errors or detail in [f"{name} {text}." for name, text in fields]:
        detail = ""
    return CliError(
        str(problem.get("title") or f"the server returned status {status}"),
        code=code,
        detail=detail,
        errors=errors,
        request_id=str(problem.get("request_id") or request_id),
        # signing in again does not help if the role is insufficient
        next_command="berth whoami" if status == 403 else _next(code, path),
    )


def _next(code: Exit, path: str) -> str:
    resource = path.removeprefix("/api/v1/").partition("/")[0]
    return _NEXT_OF.get(code, {}).get(resource, "")
