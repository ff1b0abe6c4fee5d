"""Placement workers inside the test process: tasks start at once in threads."""

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

import pytest
from celery import Task
from django.db import close_old_connections, connections

WORKERS = 2  # as the worker of the queue "placement" runs


@contextmanager
def working(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run tasks in two threads; an exception of a task is raised at the end."""
    begun: list[Future[None]] = []

    def run(task: Task[Any, Any], args: Sequence[object]) -> None:
        close_old_connections()
        try:
            task.apply(json.loads(json.dumps(args)), throw=True)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(WORKERS) as threads, monkeypatch.context() as patch:
        patch.setattr(
            Task,
            "apply_async",
            lambda task, args=(), **_: begun.append(threads.submit(run, task, args)),
        )
        yield
        wait(begun, timeout=90.0)
    for process in begun:
        process.result()
