"""Fixtures every area may use, and marks that follow from the fixtures a test asks for."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from celery import Task

DATABASE_FIXTURES = frozenset({"db", "transactional_db", "django_db_setup", "live_server"})


LEFT_OUT = pytest.StashKey[int]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark `database` on every test that may query, so that `-m database` misses none."""
    _leave_out_crashes(config, items)
    for item in items:
        fixtures = DATABASE_FIXTURES.intersection(getattr(item, "fixturenames", ()))
        if fixtures or item.get_closest_marker("django_db"):
            item.add_marker(pytest.mark.database)


def _leave_out_crashes(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take out what kills whole instances, unless somebody asks for it by its mark or file."""
    if any("crash" in asked for asked in (config.option.markexpr, *config.args)):
        return
    crashes = [item for item in items if item.get_closest_marker("crash")]
    if crashes:
        config.stash[LEFT_OUT] = len(crashes)
        config.hook.pytest_deselected(items=crashes)
        items[:] = [item for item in items if item not in crashes]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the process that prints what was left out here, where tests are spread over several."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.stash.get(LEFT_OUT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take in what another process left out: every one of them collects all tests."""
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", 0)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say what was left out, and how to run it."""
    left_out = config.stash.get(LEFT_OUT, 0)
    if left_out:
        terminalreporter.write_line(
            f"Left out: {left_out} test that kills every process of an instance in turn and takes"
            " half a minute. .ci/run runs it, as does ./dev test -m crash"
        )


@pytest.fixture(autouse=True)
def _tasks_run_where_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a task that somebody waits for run at once; pokes, sent by name, still need a worker."""

    def run(task: Task[Any, Any], args: Sequence[object] = (), **_: object) -> None:
        task.apply(json.loads(json.dumps(args)), throw=True)

    monkeypatch.setattr(Task, "apply_async", run)
