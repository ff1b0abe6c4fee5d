"""Fixtures every area may use, and marks that follow from the fixtures a test asks for."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from celery import Task

DATABASE_FIXTURES = frozenset({"db", "transactional_db", "django_db_setup", "live_server"})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark `database` on every test that may query, so that `-m database` misses none."""
    for item in items:
        fixtures = DATABASE_FIXTURES.intersection(getattr(item, "fixturenames", ()))
        if fixtures or item.get_closest_marker("django_db"):
            item.add_marker(pytest.mark.database)


@pytest.fixture(autouse=True)
def _tasks_run_where_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a task that somebody waits for run at once; pokes, sent by name, still need a worker."""

    def run(task: Task[Any, Any], args: Sequence[object] = (), **_: object) -> None:
        task.apply(json.loads(json.dumps(args)), throw=True)

    monkeypatch.setattr(Task, "apply_async", run)
