"""Settings of the REST interface and its schema."""

import os
from typing import Any

# Where the browser finds the event stream when it is another origin, e.g. "http://127.0.0.1:8001".
BERTH_STREAM_ORIGIN = os.environ.get("BERTH_STREAM_ORIGIN", "")

# Requests a minute per caller and class; None = not counted. Wall time.
BERTH_RATES: dict[str, int | None] = {
    "submit": int(os.environ.get("BERTH_RATE_SUBMIT", "30000")),
    "read": int(os.environ.get("BERTH_RATE_READ", "60000")),
    "solver": int(os.environ.get("BERTH_RATE_SOLVER", "600")),
    "stream": int(os.environ.get("BERTH_RATE_STREAM", "600")),
}
# True: /metrics needs no token (when only the monitoring system can reach it).
BERTH_METRICS_OPEN = os.environ.get("BERTH_METRICS_OPEN", "0") == "1"
# How long the answer to a keyed request is kept for repeats, and events for readers of the past.
BERTH_IDEMPOTENCY_HOURS = int(os.environ.get("BERTH_IDEMPOTENCY_HOURS", "24"))
BERTH_EVENT_DAYS = int(os.environ.get("BERTH_EVENT_DAYS", "7"))

REST_FRAMEWORK: dict[str, Any] = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "apps.accounts.api.authentication.TokenAuthentication",
        "apps.accounts.api.authentication.BrowserAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["apps.accounts.api.permissions.HasRole"],
    "DEFAULT_THROTTLE_CLASSES": ["apps.accounts.api.throttling.ClassThrottle"],
    "DEFAULT_RENDERER_CLASSES": ["apps.common.renderers.PlainJSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["apps.common.parsers.PlainJSONParser"],
    "DEFAULT_SCHEMA_CLASS": "apps.common.schema.BerthSchema",
    "EXCEPTION_HANDLER": "apps.common.problems.handle_exception",
    "UNAUTHENTICATED_USER": None,
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}

SPECTACULAR_SETTINGS: dict[str, Any] = {
    "TITLE": "Berth",
    "DESCRIPTION": "Submit jobs with performance targets; ask why they run where they run.",
    "VERSION": "1.0.0",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": r"/api/v1",
    "PREPROCESSING_HOOKS": ["apps.common.routes.canonical_only"],
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_NAME_OVERRIDES": {
        "Scope": "apps.workloads.api.serializers.SCOPES",
        "TargetKind": "apps.workloads.api.serializers.TARGET_KINDS",
        "ApplicationKind": "apps.workloads.api.serializers.APPLICATION_KINDS",
        "JobState": "apps.workloads.api.serializers.STATES",
        "ReasonCode": "apps.workloads.api.serializers.REASONS",
        "Role": "apps.accounts.api.serializers.ROLES",
        "MatrixName": "apps.classification.api.matrix_serializers.MATRICES",
        "CellSource": "apps.classification.api.matrix_serializers.SOURCES",
        "Origin": "apps.classification.api.serializers.ORIGIN_CHOICES",
        "OperationStatus": "apps.operations.api.serializers.STATUSES",
        "FrontSource": "apps.placement.api.front_serializers.SOURCES",
        "LoopMode": "apps.placement.api.plan_serializers.MODES",
        "MoveState": "apps.placement.api.plan_serializers.MOVE_STATES",
        "PlanState": "apps.placement.api.plan_serializers.STATES",
        "PreviewState": "apps.placement.api.plan_serializers.PREVIEW_STATES",
    },
}
