"""Bodies that tests send."""

from typing import Any

from rest_framework.test import APIClient

JOB: dict[str, Any] = {
    "metadata": {"name": "nightly", "labels": {"team": "ml"}},
    "spec": {
        "application": "hadoop-17",
        "target": {"kind": "completion_time", "seconds": 600},
        "input_bytes": 1 << 30,
        "tasks": 8,
    },
}


def short(**fields: Any) -> dict[str, Any]:
    """Return a job in the short form."""
    return {"application": "hadoop-17", "target": {"kind": "best_effort"}, **fields}


def submitted(api: APIClient, **fields: Any) -> str:
    """Submit a job; returns its id."""
    response = api.post("/api/v1/jobs/", short(**fields))
    assert response.status_code == 201, response.content
    return str(response.json()["metadata"]["id"])


def send_raw(api: APIClient, url: str, body: bytes, *, content_type: str, **headers: str) -> Any:
    """Send a body as it is."""
    return api.generic(
        "POST",
        url,
        body,  # type: ignore[arg-type]  # the stubs know text only
        content_type,
        **headers,  # type: ignore[arg-type]  # nor extra headers
    )
