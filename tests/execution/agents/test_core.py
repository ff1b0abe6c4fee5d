"""Decisions of an agent about its orders, and the bounded files of its output."""

from pathlib import Path

from apps.execution.backends.agent.agent import end_report
from apps.execution.backends.agent.segments import SEGMENT_BYTES, SEGMENTS, Segments
from apps.execution.backends.agent.task import Task
from apps.execution.core.agent.reconcile import Actions, TaskFacts, reconcile
from apps.execution.core.agent.wire import (
    KnownOrders,
    known_orders,
    known_orders_json,
    order_json,
    read_order,
    read_report,
)
from apps.execution.core.port import CommandOrder

RUNS, ENDED = TaskFacts(known_s=1.0, has_ended=False), TaskFacts(known_s=1.0, has_ended=True)


def order(
    launch: int, *, is_running: bool = False, stop: bool = False, suspend: bool = False
) -> CommandOrder:
    return CommandOrder(
        launch=launch, job="j", name="n", is_running=is_running, stop=stop, cores=(0, 2),
        memory_bytes=2**20, command=("true",), environment={"A": "1"}, duration_s=2.0,
        suspend=suspend,
    )  # fmt: skip


def test_a_new_order_is_started_and_a_known_one_is_not() -> None:
    assert reconcile([order(1), order(2)], {2: RUNS}, asked_s=9.0) == Actions(start=[order(1)])
    assert reconcile([order(1)], {1: ENDED}, asked_s=9.0) == Actions()


def test_a_cancelled_order_is_not_started_and_a_running_task_is_stopped() -> None:
    orders = [order(1, stop=True), order(2, stop=True, is_running=True), order(3, stop=True)]
    assert reconcile(orders, {2: RUNS, 3: ENDED}, asked_s=9.0) == Actions(cancel=[1], stop=[2])


def test_a_launch_that_should_run_and_does_not_is_reported_as_lost() -> None:
    assert reconcile([order(1, is_running=True)], {}, asked_s=9.0) == Actions(lose=[1])


def test_a_task_that_the_control_plane_has_given_up_is_stopped() -> None:
    assert reconcile([], {1: RUNS, 2: ENDED}, asked_s=9.0) == Actions(stop=[1])


def test_an_answer_says_nothing_of_orders_that_came_after_its_question() -> None:
    assert reconcile([], {1: RUNS}, asked_s=1.0) == Actions()


def test_a_task_is_suspended_and_resumed_once() -> None:
    suspended = TaskFacts(known_s=1.0, has_ended=False, suspend=True)
    orders = [order(1, suspend=True), order(2, suspend=True), order(3), order(4, suspend=True)]
    tasks = {1: RUNS, 2: suspended, 3: suspended, 4: ENDED}
    assert reconcile(orders, tasks, asked_s=9.0) == Actions(suspend=[1], resume=[3])
    stopped = [order(2, suspend=True, stop=True)]
    assert reconcile(stopped, {2: suspended}, asked_s=9.0) == Actions(stop=[2])


def test_an_order_is_read_as_it_was_written() -> None:
    for one in (order(7), order(7, suspend=True)):
        assert read_order(order_json(one)) == one


def test_agents_and_control_planes_of_the_first_protocol_see_no_field_that_they_refuse() -> None:
    assert "suspend" not in order_json(order(7))
    assert "is_suspended" not in order_json(order(7))
    assert known_orders_json(known_orders([order(7), order(8, stop=True)])) == {"known": [7]}


def test_an_agent_ignores_fields_of_orders_that_it_does_not_know() -> None:
    assert read_order({**order_json(order(7)), "colour": "red"}) == order(7)


def test_a_message_is_read_without_what_the_database_refuses() -> None:
    report = {"launch": 1, "state": "failed", "age_s": 0.0, "message": "a\0b\ud800é"}
    assert read_report(report).message == "ab?é"


def test_the_end_of_a_task_says_how_long_it_ran(tmp_path: Path) -> None:
    task = Task(7, tmp_path, known_s=1.0, boot="b", group="", sent={})
    ended = {"at_s": 50.0, "code": 0, "message": "", "reason": ""}
    assert end_report(task, ended, 60.0).ran_s is None
    (tmp_path / "started.json").write_text('{"at_s": 20.0, "pid": 1, "enforced": []}')
    report = end_report(task, ended, 60.0)
    assert (report.age_s, report.ran_s) == (10.0, 30.0)


def test_an_agent_says_what_it_was_told() -> None:
    known = known_orders([order(7), order(8, suspend=True), order(9, stop=True, suspend=True)])
    assert known == KnownOrders(frozenset({7, 8}), frozenset({8}))
    assert known_orders_json(known) == {"known": [7, 8], "suspended": [8]}


def test_output_files_are_bounded_and_keep_the_newest(tmp_path: Path) -> None:
    segments = Segments(str(tmp_path), "stdout")
    for _ in range(SEGMENTS + 3):
        segments.write(b"x" * SEGMENT_BYTES)
    starts = sorted(int(path.suffix[1:]) for path in tmp_path.iterdir())
    assert starts == [n * SEGMENT_BYTES for n in range(3, SEGMENTS + 3)]
