"""Settings of the REST API and its schema."""

import os
from typing import Any

from controlplane.settings.values import flag, whole

# Origin of the event stream if it differs, e.g. "http://127.0.0.1:8001".
BERTH_STREAM_ORIGIN = os.environ.get("BERTH_STREAM_ORIGIN", "")

# Max requests per minute (wall time) by user, or agent, and class; None = unlimited.
BERTH_RATES: dict[str, int | None] = {
    "submit": whole("BERTH_RATE_SUBMIT", 30000, low=1),
    "read": whole("BERTH_RATE_READ", 60000, low=1),
    "solver": whole("BERTH_RATE_SOLVER", 600, low=1),
    "stream": whole("BERTH_RATE_STREAM", 600, low=1),
    "output": whole("BERTH_RATE_OUTPUT", 60000, low=1),
}
# Max open event streams of one user in a stream process; all tokens and sessions count together.
BERTH_STREAMS_PER_USER = whole("BERTH_STREAMS_PER_USER", 32, low=1)
# True: /metrics needs no token (if only the monitoring system can reach it).
BERTH_METRICS_OPEN = flag("BERTH_METRICS_OPEN", default=False)

REST_FRAMEWORK: dict[str, Any] = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "apps.accounts.api.authentication.TokenAuthentication",
        "apps.accounts.api.authentication.BrowserAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["apps.accounts.api.permissions.HasRole"],
    "DEFAULT_THROTTLE_CLASSES": ["apps.accounts.api.throttling.ClassThrottle"],
    "DEFAULT_RENDERER_CLASSES": ["apps.common.api.renderers.PlainJSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["apps.common.api.parsers.PlainJSONParser"],
    "DEFAULT_SCHEMA_CLASS": "apps.common.api.schema.BerthSchema",
    "EXCEPTION_HANDLER": "apps.common.api.problems.handle_exception",
    "UNAUTHENTICATED_USER": None,
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}

SPECTACULAR_SETTINGS: dict[str, Any] = {
    "TITLE": "Berth",
    "DESCRIPTION": "Submit jobs with performance targets and explain their placement.",
    "VERSION": "1.0.0",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": r"/api/v1",
    "PREPROCESSING_HOOKS": ["apps.common.api.routes.canonical_only"],
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_NAME_OVERRIDES": {
        "Scope": "apps.workloads.api.spec_serializers.SCOPES",
        "TargetKind": "apps.workloads.api.spec_serializers.TARGET_KINDS",
        "ApplicationKind": "apps.workloads.api.spec_serializers.APPLICATION_KINDS",
        "JobState": "apps.workloads.api.serializers.STATES",
        "ReasonCode": "apps.workloads.api.serializers.REASONS",
        "Role": "apps.accounts.api.serializers.ROLES",
        "MatrixName": "apps.classification.api.matrix_serializers.MATRICES",
        "CellSource": "apps.classification.api.matrix_serializers.SOURCES",
        "Outcome": "apps.scheduling.api.serializers.OUTCOMES",
        "Origin": "apps.classification.api.serializers.ORIGIN_CHOICES",
        "OperationStatus": "apps.operations.api.serializers.STATUSES",
        "FrontSource": "apps.placement.api.front_serializers.SOURCES",
        "LoopMode": "apps.placement.api.plan_serializers.MODES",
        "PlannedMigrationState": "apps.placement.api.plan_serializers.MIGRATION_STATES",
        "PlanState": "apps.placement.api.plan_serializers.STATES",
        "ProposalState": "apps.execution.api.proposal_serializers.STATES",
        "PreviewState": "apps.placement.api.plan_serializers.PREVIEW_STATES",
        "ShadowStatus": "apps.scheduling.api.shadow_serializers.STATUSES",
    },
}
