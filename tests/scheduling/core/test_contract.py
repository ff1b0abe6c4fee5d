"""The contract suite for policies of other packages: every check fires."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from apps.inventory.core.snapshot import Snapshot
from apps.scheduling.core.contract import failures
from apps.scheduling.core.registry import make
from apps.scheduling.core.types import Placed, Refused, Request, Within
from tests.scheduling.policies_that_fail import Unfinished

Outcomes = list[Placed | Refused]


class Broken:
    """``least_loaded`` with other requests, or other outcomes."""

    version = 1
    draws_sample = False

    def __init__(
        self,
        *,
        name: str = "broken",
        requests: Callable[[Request], Request] | None = None,
        outcomes: Callable[[Snapshot, Outcomes], Outcomes] | None = None,
    ) -> None:
        self.name = name
        self._policy = make("least_loaded")
        self._requests, self._outcomes = requests, outcomes

    def place(
        self, snapshot: Snapshot, requests: Sequence[Request], rng: np.random.Generator
    ) -> Outcomes:
        """Decide, with the fault."""
        if self._requests is not None:
            requests = [self._requests(each) for each in requests]
        outcomes = self._policy.place(snapshot, requests, rng)
        return outcomes if self._outcomes is None else self._outcomes(snapshot, outcomes)


def without(**fields: Any) -> Callable[[], Broken]:
    """Return a policy that ignores fields of requests."""
    return lambda: Broken(requests=lambda request: replace(request, **fields))


def with_outcomes(change: Callable[[Snapshot, Outcomes], Outcomes]) -> Callable[[], Broken]:
    return lambda: Broken(outcomes=change)


def one_by_one(snapshot: Snapshot, outcomes: Outcomes) -> Outcomes:
    """Give every job the units of the first."""
    first = next((each for each in outcomes if isinstance(each, Placed)), None)
    if first is None:
        return outcomes
    return [replace(first, job=each.job) for each in outcomes]


def drawn(snapshot: Snapshot, outcomes: Outcomes) -> Outcomes:
    """Choose by a generator of its own."""
    rng = np.random.default_rng()
    return [replace(each, seed=int(rng.integers(1 << 62))) for each in outcomes]


def first_read(snapshot: Snapshot, outcomes: Outcomes) -> Outcomes:
    """Fail without a job."""
    return [outcomes[0], *outcomes[1:]]


def shuffled(snapshot: Snapshot, outcomes: Outcomes) -> Outcomes:
    return [
        replace(each, candidates=each.candidates[::-1]) if isinstance(each, Placed) else each
        for each in outcomes
    ]


def uncounted(snapshot: Snapshot, outcomes: Outcomes) -> Outcomes:
    return [replace(each, dropped={}) for each in outcomes]


def largest_first(snapshot: Snapshot, outcomes: Outcomes) -> Outcomes:
    """Read the largest server first, as if there were one."""
    snapshot.topology.server_units.argmax()
    return outcomes


def by_switch(snapshot: Snapshot, outcomes: Outcomes) -> Outcomes:
    """Read the switch above the first server, as if it had one."""
    topology = snapshot.topology
    for server in topology.server_rack[:1]:
        _ = topology.rack_switch[server]
    return outcomes


def written(snapshot: Snapshot, outcomes: Outcomes) -> Outcomes:
    """Write to the snapshot, as C code could."""
    for array in (snapshot.unit_free,):
        array.flags.writeable = True
        array[0] = not array[0]
    return outcomes


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (lambda: Broken(name=""), "has name version and draws sample"),
        (lambda: Unfinished("broken"), "has name version and draws sample"),
        (with_outcomes(drawn), "same seed same outcome"),
        (with_outcomes(written), "does not change its input"),
        (with_outcomes(first_read), "decides an empty batch"),
        (without(platforms=frozenset({"J"})), "finds the last free unit"),
        (with_outcomes(one_by_one), "sees earlier jobs of a batch"),
        (with_outcomes(lambda _, found: found[:0]), "refuses on a full cluster"),
        (with_outcomes(largest_first), "refuses on a cluster without servers"),
        (with_outcomes(by_switch), "decides without known racks and switches"),
        (without(gang=False), "places gangs whole"),
        (without(gang=True), "gives an incremental job what is free"),
        (without(excluded=frozenset()), "respects platforms and exclusions"),
        (without(unit_memory_bytes=0.0), "respects memory"),
        (without(locality=None), "keeps units together"),
        (without(spread=None), "spreads units"),
        (with_outcomes(shuffled), "lists candidates best first"),
        (with_outcomes(uncounted), "counts every unit once"),
        (with_outcomes(one_by_one), "never exceeds capacity"),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_a_check_finds_its_fault(broken: Callable[[], Any], check: str) -> None:
    assert check in {each.check for each in failures(broken)}


def without_if(only: Callable[[Request], bool], **fields: Any) -> Callable[[], Broken]:
    """Return a policy that ignores fields of some requests, which stay whole."""

    def changed(request: Request) -> Request:
        gang = request.is_whole
        return replace(request, gang=gang, **fields) if only(request) else request

    return lambda: Broken(requests=changed)


def ignoring(field: str, value: Within) -> Callable[[], Broken]:
    """Return a policy that ignores one value of a field."""
    return without_if(lambda request: getattr(request, field) is value, **{field: None})


@pytest.mark.parametrize("check", ["meets each constraint", "meets random constraints"])
@pytest.mark.parametrize(
    ("broken", "named"),
    [
        (without(platforms=None), "against platforms ['"),
        (without(labels=frozenset()), "against labels ['disk=ssd']"),
        (without(excluded=frozenset()), "against excluded ["),
        (without(unit_memory_bytes=0.0), "lack memory"),
        (without(unit_network_bps=0.0), "lack network"),
        (without(unit_storage_bytes=0.0), "lack storage"),
        *((ignoring("locality", within), f"locality {within}") for within in Within),
        *((ignoring("spread", within), f"spread {within}") for within in Within),
        (without_if(lambda r: r.locality is not None, spread=None), "against spread "),
        (without_if(lambda r: r.spread is not None, locality=None), "against locality "),
    ],
    ids=[
        *("platforms", "labels", "excluded", "memory", "network", "storage"),
        *(f"locality-{within}" for within in Within),
        *(f"spread-{within}" for within in Within),
        *("spread-with-locality", "locality-with-spread"),
    ],
)
def test_a_constraint_that_is_ignored_is_named(
    broken: Callable[[], Broken], named: str, check: str
) -> None:
    messages = {each.check: each.message for each in failures(broken)}
    assert named in messages[check]


def test_a_policy_that_refuses_a_constraint_is_named() -> None:
    impossible = without_if(lambda r: r.labels > frozenset(), labels=frozenset({"disk=tape"}))
    messages = {each.check: each.message for each in failures(impossible)}
    assert messages["meets each constraint"] == (
        "ContractError: refused units 8, labels ['disk=ssd'], for which units are free"
    )


def test_a_gang_that_gets_a_part_of_its_units_is_named() -> None:
    messages = {each.check: each.message for each in failures(without(gang=False))}
    assert "against units" in messages["meets random constraints"]


class Closed(Broken):
    """Opens every server."""

    def place(
        self, snapshot: Snapshot, requests: Sequence[Request], rng: np.random.Generator
    ) -> Outcomes:
        """Decide as if every server were open."""
        opened = replace(snapshot, server_open=np.ones_like(snapshot.server_open))
        return super().place(opened, requests, rng)


def test_servers_that_are_closed_are_found() -> None:
    assert [each.check for each in failures(Closed)] == ["respects closed servers"]


def test_a_failure_says_what_happened() -> None:
    messages = {each.check: each.message for each in failures(without(unit_memory_bytes=0.0))}
    assert messages["respects memory"].startswith("ContractError: chose [0, 0, 0, 0, 1, 1, 1, 1];")
