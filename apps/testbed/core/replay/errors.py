"""Errors of a replay."""

from apps.common.core.errors import ControlPlaneError


class ReplayError(ControlPlaneError, ValueError):
    """A workload, a cluster or an option of a replay is invalid."""


class ReplayCancelledError(ControlPlaneError):
    """The caller cancelled a replay."""
