"""Problem documents of requests that the servers cannot parse."""

import json


def problem_response(status_line: bytes, detail: str) -> bytes:
    """Return the bytes of a response that closes the connection.

    Parameters
    ----------
    detail : what is wrong, shown if it is the client's error
    """
    # the servers import this module before Django is set up
    from apps.common.api.middleware import API_VERSION  # noqa: PLC0415
    from apps.common.api.problems import (  # noqa: PLC0415
        MEDIA_TYPE,
        problem_body,
        problem_of_status,
    )
    from apps.common.core.ids import uuid7  # noqa: PLC0415

    status = int(status_line.split(b" ")[1])
    problem = problem_of_status(status)
    if detail and status < 500:
        problem.detail = detail
    request_id = str(uuid7())
    body = json.dumps(problem_body(problem, instance="", request_id=request_id)).encode()
    head = (
        f"Connection: close\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: {len(body)}\r\n"
        f"X-Request-ID: {request_id}\r\nAPI-Version: {API_VERSION}\r\n\r\n"
    )
    return status_line + b"\r\n" + head.encode() + body
