"""Callers of every role, as in the tests of all the API."""

from tests.api.conftest import (
    api,
    as_user,
    no_rates,
    operator,
    power,
    project,
    submitter,
    viewer,
)

__all__ = ["api", "as_user", "no_rates", "operator", "power", "project", "submitter", "viewer"]
