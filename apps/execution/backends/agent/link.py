"""Requests of an agent to the control plane: outbound only, through a proxy if one is set."""

import http.client
import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any, Final

TIMEOUT_S: Final = 15.0  # beyond the wait that a request asks for
MAX_PROBLEM: Final = 300
NO_CONTENT: Final = 204


class AwayError(Exception):
    """The control plane did not answer, or answered that it cannot now."""


class RefusedError(Exception):
    """The control plane refused the request.

    Attributes
    ----------
    status : HTTP status
    """

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"{status}: {detail}")
        self.status = status


@dataclass(frozen=True, slots=True)
class Link:
    """The control plane at an address; ``credential`` is empty before the enrolment."""

    url: str
    credential: str = ""

    def post(self, path: str, body: dict[str, Any], *, wait_s: float = 0.0) -> dict[str, Any]:
        """Send a request to a route of the agents, or to a whole address; return the answer.

        Raises
        ------
        AwayError : there is no answer.
        RefusedError : the answer is an error that a repetition does not mend.
        """
        request = urllib.request.Request(  # noqa: S310 - the address is the operator's
            path if "://" in path else f"{self.url}/api/v1/agents/{path}/",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Accept": "application/json"},
        )
        if self.credential:
            # unredirected: another host never receives it
            request.add_unredirected_header("Authorization", f"Bearer {self.credential}")
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S + wait_s) as answer:  # noqa: S310
                text, is_empty = answer.read(), answer.status == NO_CONTENT
        except urllib.error.HTTPError as error:
            detail = _detail(error)
            if error.code in {408, 425, 429} or error.code >= 500:
                raise AwayError(f"{error.code}: {detail}") from error
            raise RefusedError(error.code, detail) from error
        # a connection that breaks, also in the middle of an answer
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise AwayError(str(error)) from error
        try:
            # a connection that breaks may end an answer early
            found: dict[str, Any] = {} if is_empty else json.loads(text)
        except ValueError as error:
            raise AwayError("the answer is not complete JSON") from error
        return found


def _detail(error: urllib.error.HTTPError) -> str:
    text = error.read().decode(errors="replace")
    try:
        problem = json.loads(text)
    except ValueError:
        return text[:MAX_PROBLEM]
    listed = "; ".join(str(item.get("detail")) for item in problem.get("errors", ()))
    return str(listed or problem.get("detail") or problem.get("title"))[:MAX_PROBLEM]
