"""The beat schedule: existing tasks in queues with workers."""

import ast
import inspect
import re
import tomllib
from typing import Any

import pytest
from django.conf import settings

from apps.common.infrastructure.queues import QUEUES
from controlplane.celery import app
from controlplane.embedded import fleet, session
from controlplane.embedded.instance import PROJECT

SCHEDULE: dict[str, dict[str, Any]] = settings.CELERY_BEAT_SCHEDULE


def queue_of(entry: dict[str, Any]) -> str:
    """The queue of an entry: its own option, else the route of its task."""
    route = settings.CELERY_TASK_ROUTES.get(entry["task"], {})
    options = route | entry.get("options", {})
    return str(options.get("queue", settings.CELERY_TASK_DEFAULT_QUEUE))


def served() -> set[str]:
    """Queues of the workers that a session starts."""
    calls = [
        node
        for node in ast.walk(ast.parse(inspect.getsource(session)))
        if isinstance(node, ast.Call)
    ]
    return {
        call.args[0].value
        for call in calls
        if ast.unparse(call.func) == "fleet.worker"
        and isinstance(call.args[0], ast.Constant)
        and isinstance(call.args[0].value, str)
    }


@pytest.fixture(scope="module")
def registered() -> set[str]:
    """Names of the tasks that a worker can run."""
    app.loader.import_default_modules()
    return {name for name in app.tasks if not name.startswith(("celery.", "tests."))}


@pytest.mark.parametrize("name", SCHEDULE)
def test_every_entry_names_an_existing_task(name: str, registered: set[str]) -> None:
    assert SCHEDULE[name]["task"] in registered


@pytest.mark.parametrize("name", SCHEDULE)
def test_every_queue_has_a_worker(name: str) -> None:
    assert queue_of(SCHEDULE[name]) in served()


def test_every_task_routed_by_name_exists(registered: set[str]) -> None:
    assert set(settings.CELERY_TASK_ROUTES) <= registered


def test_every_task_is_scheduled_or_called(registered: set[str]) -> None:
    asked_for = {
        "classification.draft",
        "placement.preview",
        "placement.check",
        "scheduling.counterfactual",
        "scheduling.flips",
        "scheduling.replay",
    }  # by the process that waits for it
    assert registered == {entry["task"] for entry in SCHEDULE.values()} | asked_for


@pytest.mark.parametrize("name", [n for n, e in SCHEDULE.items() if e["schedule"] < 60.0])
def test_frequent_tasks_expire(name: str) -> None:
    entry = SCHEDULE[name]
    assert 0.0 < entry["options"]["expires"] <= max(5.0, entry["schedule"])


def test_a_worker_listens_to_the_queue_it_is_made_for() -> None:
    arguments = fleet.worker("agents", 2).arguments
    assert arguments[arguments.index("--queues") + 1] == "agents"


def test_every_queue_is_served_here_and_in_the_deployment() -> None:
    compose = (PROJECT / "docker-compose.yml").read_text()
    assert served() == set(QUEUES) == set(re.findall(r'"--queues", "(\w+)"', compose))


def test_frames_and_sweeps_do_not_wait_for_long_tasks() -> None:
    tasks = (
        *("execution.frame", "execution.sample_system"),
        *("execution.sweep", "operations.sweep"),
    )
    assert {queue_of(SCHEDULE[name]) for name in tasks} == {"upkeep"}
    assert {name for name in SCHEDULE if queue_of(SCHEDULE[name]) == "upkeep"} == set(tasks)


def test_the_version_is_that_of_the_project() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    assert project["version"] == settings.BERTH_VERSION
