"""Writes of idempotency keys."""

import json
from collections.abc import Sequence

from django.db import connection

from apps.common.core.ids import uuid7
from apps.common.core.keyed_requests import KeyedRequest, KeyedResponse
from apps.common.infrastructure.database import fetch_prepared

# The time limit is set before the insert looks for the key, and holds until the transaction ends.
_INSERT_KEY = """
WITH patience AS MATERIALIZED (SELECT set_config('lock_timeout', %s::text, true))
INSERT INTO operations_idempotencykey
    (id, principal_id, route, key, body_digest, status, location, response, created_at)
SELECT %s::uuid, %s::uuid, %s::text, %s::text, %s::bytea, %s::int, %s::text, %s::jsonb, now()
FROM patience
ON CONFLICT (principal_id, route, key) DO NOTHING RETURNING id
"""


def store_response(request: KeyedRequest, answer: KeyedResponse, *, wait_ms: int) -> bool:
    """Store a response in the transaction that creates its object; False if the key was used.

    Waits up to ``wait_ms`` for a concurrent transaction with the same key to end. On False the
    caller must roll back and return the stored response.
    """
    stored = fetch_prepared(
        _INSERT_KEY,
        [
            str(wait_ms),
            uuid7(),
            request.principal_id,
            request.route,
            request.key,
            request.body_digest,
            answer.status,
            answer.location,
            json.dumps(answer.response),
        ],
    )
    return bool(stored)


_INSERT_KEYS = """
INSERT INTO operations_idempotencykey
    (id, principal_id, route, key, body_digest, status, location, response, created_at)
SELECT *, now() FROM unnest(%s::uuid[], %s::uuid[], %s::text[], %s::text[], %s::bytea[], %s::int[],
                            %s::text[], %s::jsonb[])
ON CONFLICT (principal_id, route, key) DO NOTHING
"""


def store_responses(answers: Sequence[tuple[KeyedRequest, KeyedResponse]]) -> int:
    """Store many responses in the order of their keys; returns the number of new keys."""
    if not answers:
        return 0
    rows = sorted(answers, key=lambda pair: pair[0].key)
    with connection.cursor() as cursor:
        cursor.execute(
            _INSERT_KEYS,
            [
                [uuid7() for _ in rows],
                [request.principal_id for request, _ in rows],
                [request.route for request, _ in rows],
                [request.key for request, _ in rows],
                [request.body_digest for request, _ in rows],
                [answer.status for _, answer in rows],
                [answer.location for _, answer in rows],
                [json.dumps(answer.response) for _, answer in rows],
            ],
        )
        return cursor.rowcount
