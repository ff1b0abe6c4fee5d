"""Orders as the node and the server know them, without a network."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.execution.core.nodes.agent import Capacity, NodeAgent, Start
from apps.execution.core.nodes.messages import (
    Accepted,
    Acknowledged,
    Code,
    Ended,
    Heartbeat,
    Launch,
    Outcome,
    ProtocolError,
    Register,
    Rejected,
    Rejection,
    Started,
    Welcome,
)
from apps.execution.core.nodes.registry import Admission, Registry, Terms

TERMS = Terms(lease_s=60.0, grace_s=5.0)


def agent(cpu: int = 10, memory: int = 10) -> NodeAgent:
    node = NodeAgent("n1", Capacity(cpu, memory, ("ssd",)))
    node.welcome(Welcome(epoch=1, heartbeat_s=5.0, usage_s=0.0, lease_s=60.0))
    return node


def connect(registry: Registry, node: NodeAgent, now_s: float = 0.0) -> Admission:
    admission = registry.register(node.register(), now_s=now_s)
    node.welcome(admission.welcome)
    return admission


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        (Launch("o2", 1, 5, 1), Rejection.CPU),
        (Launch("o2", 1, 1, 7), Rejection.MEMORY),
        (Launch("o2", 1, 1, 1, needs=("gpu",)), Rejection.ATTRIBUTES),
        (Launch("o2", 0, 1, 1), Rejection.EPOCH),
        (Launch("o2", 2, 1, 1), Rejection.EPOCH),
    ],
)
def test_a_node_rejects_what_does_not_really_fit(order: Launch, reason: Rejection) -> None:
    node = agent()
    assert node.launch(Launch("o1", 1, 6, 4)) == Start("o1")
    assert node.launch(order) == Rejected("o2", reason)
    assert node.heartbeat() == Heartbeat(4, 6, 1)


def test_an_order_that_fits_exactly_starts() -> None:
    node = agent()
    assert node.launch(Launch("o1", 1, 10, 10, needs=("ssd",))) == Start("o1")
    assert node.heartbeat() == Heartbeat(0, 0, 1)


def test_a_duplicate_order_starts_once() -> None:
    node, order = agent(), Launch("o1", 1, 6, 6)
    assert node.launch(order) == Start("o1")
    assert node.launch(order) == Accepted("o1")
    assert node.start("o1") == Started("o1")
    assert node.launch(order) == Started("o1")
    assert (node.free_cpu, node.free_memory) == (4, 4)
    ended = node.end("o1", Outcome.FINISHED)
    assert ended == Ended("o1", Outcome.FINISHED)
    assert node.launch(order) == ended
    assert (node.free_cpu, node.free_memory) == (10, 10)


def test_an_end_is_reported_until_it_is_acknowledged() -> None:
    node = agent()
    node.launch(Launch("o1", 1, 1, 1))
    node.end("o1", Outcome.FAILED, "exit code 3")
    again = Welcome(2, 5.0, 0.0, 60.0)
    assert node.welcome(again) == ([], [Ended("o1", Outcome.FAILED, "exit code 3")])
    assert node.register().ended == ("o1",)
    node.acknowledge(Acknowledged(("o1", "unknown")))
    assert node.welcome(again) == ([], [])


def test_a_start_is_reported_again_as_its_first_report_may_be_lost() -> None:
    node = agent()
    for order in ("o1", "o2", "o3"):
        node.launch(Launch(order, 1, 1, 1))
    node.start("o1")
    node.start("o3")
    assert node.welcome(Welcome(2, 5.0, 0.0, 60.0, stop=("o3",))) == (["o3"], [Started("o1")])


def test_an_order_ends_once_and_does_not_start_after_its_end() -> None:
    node = agent()
    node.launch(Launch("o1", 1, 3, 3))
    assert node.end("o1", Outcome.STOPPED) is not None
    assert node.end("o1", Outcome.FINISHED) is None
    assert node.start("o1") is None
    assert node.free_cpu == 10


@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(0, 5), st.integers(0, 6), st.integers(0, 6)),
        max_size=40,
    )
)
def test_free_resources_are_the_capacity_less_the_running_orders(
    steps: list[tuple[bool, int, int, int]],
) -> None:
    node, sizes = agent(), {}
    for is_launch, number, cpu, memory in steps:
        order = f"o{number}"
        if is_launch and node.launch(Launch(order, 1, cpu, memory)) == Start(order):
            sizes[order] = (cpu, memory)
        if not is_launch and node.end(order, Outcome.FINISHED) is not None:
            node.acknowledge(Acknowledged((order,)))
            del sizes[order]
        assert node.free_cpu == 10 - sum(cpu for cpu, _ in sizes.values()) >= 0
        assert node.free_memory == 10 - sum(memory for _, memory in sizes.values()) >= 0
        assert set(node.running) == set(sizes)


def test_epochs_rise_even_if_the_server_has_lost_its_memory() -> None:
    node, registry = agent(), Registry(TERMS)
    epochs = [connect(registry, node).welcome.epoch for _ in range(3)]
    after = connect(Registry(TERMS), node).welcome.epoch
    assert epochs == [2, 3, 4]  # the node has been registered before
    assert after == 5


def test_another_protocol_version_is_refused() -> None:
    with pytest.raises(ProtocolError, match="protocol is 2; this server speaks 1") as caught:
        Registry(TERMS).register(Register("n1", 1, 1, 1, 1, protocol=2), now_s=0.0)
    assert caught.value.code is Code.VERSION


def test_an_order_without_an_answer_is_sent_again_in_the_new_epoch() -> None:
    node, registry = agent(), Registry(TERMS)
    record = connect(registry, node).record
    record.ordered["o1"] = Launch("o1", record.epoch, 1, 2, ("ssd",), {"seconds": 3})
    registry.disconnect(record, now_s=1.0)
    admission = connect(registry, node, now_s=2.0)
    assert admission.again == [
        Launch("o1", record.epoch, 1, 2, ("ssd",), {"seconds": 3}),
    ]
    assert node.launch(admission.again[0]) == Start("o1")


def test_a_running_order_survives_a_short_disconnection() -> None:
    node, registry = agent(), Registry(TERMS)
    record = connect(registry, node).record
    node.launch(Launch("o1", record.epoch, 1, 1))
    record.running.add("o1")
    registry.disconnect(record, now_s=1.0)
    assert list(registry.expired(now_s=66.0)) == []
    admission = connect(registry, node, now_s=66.0)
    assert (admission.welcome.stop, admission.lost, record.running) == ((), [], {"o1"})


def test_an_expired_order_is_given_up_once_and_stopped_when_the_node_returns() -> None:
    node, registry = agent(), Registry(TERMS)
    record = connect(registry, node).record
    node.launch(Launch("o1", record.epoch, 1, 1))
    record.running.add("o1")
    record.ordered["o2"] = Launch("o2", record.epoch, 1, 1)
    registry.disconnect(record, now_s=1.0)
    taken = list(registry.expired(now_s=66.1))
    assert taken == [(record, ["o2"], ["o1"])]
    assert list(registry.expired(now_s=67.0)) == []
    admission = registry.register(node.register(), now_s=70.0)
    assert admission.again == []
    assert node.welcome(admission.welcome) == (["o1"], [])


def test_an_order_that_the_node_has_forgotten_ends_as_lost() -> None:
    registry = Registry(TERMS)
    record = connect(registry, agent()).record
    record.running |= {"o1", "o2"}
    forgetful = agent()
    forgetful.launch(Launch("o2", 1, 1, 1))
    forgetful.end("o2", Outcome.FINISHED)  # reported again, so it is not lost
    admission = connect(registry, forgetful)
    assert admission.lost == [Ended("o1", Outcome.LOST)]
    assert record.running == {"o2"}
