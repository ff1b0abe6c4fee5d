"""Fixtures every area may use, and marks that follow from the fixtures a test asks for."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Task
from django.db import connection
from hypothesis import HealthCheck, settings
from pytest_django import DjangoDbBlocker

from apps.accounts.api import throttling
from apps.common.infrastructure.log_numbers import SEQUENCES
from controlplane.celery import app
from tests.lock_order import LockOrder, watch

# A busy machine is slow, and its speed is not what these tests are about.
settings.register_profile("berth", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("berth")


@pytest.fixture(scope="session", autouse=True)
def _registered_tasks() -> None:
    """Register all tasks, as a worker does: some are requested by name."""
    app.loader.import_default_modules()


DATABASE_FIXTURES = frozenset({"db", "transactional_db", "django_db_setup", "live_server"})


FIRST_NUMBER = 100_000  # of the database's logs and of allocations

LEFT_OUT = pytest.StashKey[int]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark `database` on every test that may query, so that `-m database` misses none."""
    _leave_out_crashes(config, items)
    for item in items:
        fixtures = DATABASE_FIXTURES.intersection(getattr(item, "fixturenames", ()))
        if fixtures or item.get_closest_marker("django_db"):
            item.add_marker(pytest.mark.database)


def _leave_out_crashes(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the crash tests unless the mark expression or a path names them."""
    if any("crash" in selection for selection in (config.option.markexpr, *config.args)):
        return
    crashes = [item for item in items if item.get_closest_marker("crash")]
    if crashes:
        config.stash[LEFT_OUT] = len(crashes)
        config.hook.pytest_deselected(items=crashes)
        items[:] = [item for item in items if item not in crashes]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Report the number of deselected tests to the main process of pytest-xdist."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.stash.get(LEFT_OUT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Store the number that a worker process deselected; every worker collects all tests."""
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", 0)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the number of deselected tests and the command that runs them."""
    left_out = config.stash.get(LEFT_OUT, 0)
    if left_out:
        terminalreporter.write_line(
            f"Left out: {left_out} test that kills every process of an instance in turn and takes"
            " half a minute. .ci/run runs it, as does ./dev test -m crash"
        )


@pytest.fixture(scope="session", autouse=True)
def _lock_order() -> LockOrder:
    order = LockOrder()
    watch(order)
    return order


@pytest.fixture(autouse=True)
def _locks_are_taken_in_order(_lock_order: LockOrder) -> Iterator[None]:
    """Fail a test in which a transaction locks rows against the documented order."""
    _lock_order.violations.clear()
    yield
    assert _lock_order.violations == []


@pytest.fixture(autouse=True)
def _awaited_tasks_run_inline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run awaited tasks inline; notifications are sent by name and still need a worker."""

    def run(
        task: Task[Any, Any],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
        **_: object,
    ) -> None:
        given, named = json.loads(json.dumps((args, kwargs)))
        task.apply(given, named, throw=True)

    monkeypatch.setattr(Task, "apply_async", run)


@pytest.fixture
def one_rate_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count all requests of a test in the same minute."""
    now_s = time.time()
    monkeypatch.setattr(throttling, "time", SimpleNamespace(time=lambda: now_s))


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> None:
    """Let tests that commit truncate the audit log afterwards, which a deployment refuses.

    The numbers of the logs begin high, as after many tests: one that assumes low ones fails alone
    too. No database was made if no test of this run uses one, such as those of scripts alone.
    """
    if not str(connection.settings_dict["NAME"]).startswith("test_"):
        return
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute(
            "ALTER TABLE accounts_auditentry DISABLE TRIGGER accounts_audit_no_truncate"
        )
        for sequence in (*SEQUENCES.values(), "common_allocations_seq"):
            cursor.execute("SELECT setval(%s, %s)", [sequence, FIRST_NUMBER])
