"""Queues, agents and streams over time on the System page."""

from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from django.test import Client

from apps.common.infrastructure.database import database_now
from apps.dashboard.figures import lines
from apps.dashboard.selectors import system_history
from apps.operations.models import SystemSample

pytestmark = pytest.mark.django_db


def sample(age_s: float, **values: Any) -> None:
    defaults: dict[str, Any] = {"seconds": 10.0, "queues": {}, "agents": {}}
    at = database_now() - timedelta(seconds=age_s)
    SystemSample.objects.create(at=at, **{**defaults, **values})


def agent(decisions: int, lost: int = 0, p99_s: float = 0.01) -> dict[str, Any]:
    return {"decisions": decisions, "lost": lost, "p50_s": 0.005, "p99_s": p99_s}


def test_the_title_names_the_queues_in_which_tasks_wait() -> None:
    sample(20, queues={"default": 9, "agents": 0})
    sample(10, queues={"default": 4, "agents": 0})
    data = system_history.queues()
    assert lines.title(data) == "Tasks wait: 4 in default"
    assert data.series["default"].tolist() == [9.0, 4.0]


def test_a_queue_without_a_reading_is_missing() -> None:
    sample(20, queues={})
    sample(10, queues={"default": 0})
    data = system_history.queues()
    assert np.isnan(data.series["default"][0])
    assert lines.title(data) == "No task waits"


def test_rates_conflicts_and_times_are_those_of_each_agent() -> None:
    sample(20, agents={"a": agent(100, lost=5), "b": agent(50)})
    sample(10, agents={"a": agent(200, p99_s=0.02)})
    rate, lost = system_history.decision_rate(), system_history.lost_commits()
    times = system_history.decision_time()
    assert rate.series["a"].tolist() == [10.0, 20.0]
    assert rate.series["b"].tolist() == [5.0, 0.0]
    assert lines.title(rate) == "Agents make 20.0 decisions/s"
    assert lost.series["a"].tolist() == [5.0, 0.0]
    assert lines.title(lost) == "1.4 % of the decisions lost a commit"
    assert lines.title(times) == "p99 of the decision time is 20 ms"
    assert np.isnan(times.series["b"][1])


def test_open_streams_are_counted() -> None:
    sample(10, streams=2)
    assert lines.title(system_history.streams()) == "2 event streams open"


def test_samples_older_than_the_chart_are_left_out() -> None:
    sample(7 * 3600, streams=2)
    assert system_history.streams().times == ()


def test_many_samples_become_few_points_that_keep_the_longest_queue() -> None:
    now = database_now()
    SystemSample.objects.bulk_create(
        SystemSample(
            at=now - timedelta(seconds=10 * (1000 - i)),
            seconds=10,
            queues={"default": 50 if i == 77 else 1},
            agents={},
        )
        for i in range(1000)
    )
    data = system_history.queues()
    assert len(data.times) == system_history.MAX_POINTS
    assert data.series["default"].max() == 50


def test_a_chart_has_a_labelled_line_for_each_agent() -> None:
    sample(20, agents={"a": agent(100), "b": agent(50)})
    sample(10, agents={"a": agent(200), "b": agent(50)})
    chart = lines.figure(system_history.decision_rate())
    assert [trace.name for trace in chart.data] == ["a", "b"]
    texts = [annotation.text for annotation in chart.layout.annotations]
    assert texts == ["decisions/s", "b 5.00", "a 20.0"]
    assert lines.table(system_history.decision_rate()).rows[0] == ("a", "20.0", "15.0", "20.0")


def test_the_page_shows_the_charts(as_operator: Client) -> None:
    page = as_operator.get("/system/").content.decode()
    for name in ("queues", "rate", "time", "conflicts", "streams"):
        assert f"/figures/system-{name}/" in page
