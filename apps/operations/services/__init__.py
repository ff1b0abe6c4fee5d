"""Writes of operations."""

from apps.operations.services.events import NewEvent, prune_events, record_events
from apps.operations.services.idempotency import store_response, store_responses
from apps.operations.services.operations import (
    LEASE,
    MAX_ATTEMPTS,
    OperationChange,
    OperationLostError,
    advance_operation,
    begin_operation,
    cancel_operation,
    claim_operation,
    completed_operation,
    finish_operation,
    finish_owned,
    mirror_operations,
    operation_created,
    owned_operation,
    release_expired_operations,
    why_given_up,
)

__all__ = [
    "LEASE",
    "MAX_ATTEMPTS",
    "NewEvent",
    "OperationChange",
    "OperationLostError",
    "advance_operation",
    "begin_operation",
    "cancel_operation",
    "claim_operation",
    "completed_operation",
    "finish_operation",
    "finish_owned",
    "mirror_operations",
    "operation_created",
    "owned_operation",
    "prune_events",
    "record_events",
    "release_expired_operations",
    "store_response",
    "store_responses",
    "why_given_up",
]
