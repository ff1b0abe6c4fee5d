"""An admission control that recalls what another one knew gives the same verdicts."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from apps.common.core.interference import N_SOURCES
from apps.scheduling.core.admission.registry import make_admission
from apps.scheduling.core.admission.types import Admission, Applicant, Control, Delayed
from apps.scheduling.core.batch_state import TopologyFacts
from tests.scheduling.core.clusters import idle, request, topology

NOW_S = 10_000.0
BUSY_S = 100.0
CONTROLS = [control for control in Control if control is not Control.NONE]
CLUSTER = idle(topology((4, 4)))
FACTS = TopologyFacts(CLUSTER.topology)
LATER = replace(CLUSTER, unit_free=np.arange(8) % 4 == 0)  # one free unit on each server


def applicant(job: str, units: int) -> Applicant:
    of = request(
        units, job=job, caused=np.full(N_SOURCES, 75.0), tolerated=np.full(N_SOURCES, 30.0)
    )
    return Applicant(of, waited_s=0.0, run_s=36_000.0)


def experienced(control: Control) -> Admission:
    """One that saw all units freed six times, and a job that waits."""
    made = make_admission(control)
    assert made is not None
    full = replace(CLUSTER, unit_free=np.zeros(8, dtype=np.bool_))
    made.evaluate([], CLUSTER, FACTS, NOW_S - 8 * BUSY_S)
    for i in range(7, 1, -1):
        made.evaluate([], full, FACTS, NOW_S - i * BUSY_S)
        made.note_freed(CLUSTER, np.arange(8), NOW_S - (i - 1) * BUSY_S)
        made.evaluate([], CLUSTER, FACTS, NOW_S - (i - 1) * BUSY_S)
    made.evaluate([], LATER, FACTS, NOW_S - 40.0)
    (verdict,) = made.evaluate([applicant("first", 3)], LATER, FACTS, NOW_S)
    assert isinstance(verdict, Delayed)
    return made


def recalled(control: Control, memory: dict[str, Any], seen: Any = LATER) -> Admission:
    """One that recalls what was stored as JSON."""
    made = make_admission(control)
    assert made is not None
    made.recall(json.loads(json.dumps(memory)), seen)
    return made


@pytest.mark.parametrize("control", CONTROLS)
def test_the_verdicts_and_states_are_the_same(control: Control) -> None:
    known = experienced(control)
    again = recalled(control, known.memory())
    jobs = [applicant("first", 3), applicant("second", 3)]
    assert again.state(LATER, FACTS, NOW_S + 5.0) == known.state(LATER, FACTS, NOW_S + 5.0)
    after = [made.evaluate(jobs, LATER, FACTS, NOW_S + 5.0) for made in (again, known)]
    assert [str(each) for each in after[0]] == [str(each) for each in after[1]]
    assert any(isinstance(each, Delayed) for each in after[0])


@pytest.mark.parametrize("control", CONTROLS)
def test_one_that_recalls_nothing_differs(control: Control) -> None:
    fresh = make_admission(control)
    assert fresh is not None
    (verdict,) = fresh.evaluate([applicant("second", 3)], LATER, FACTS, NOW_S + 5.0)
    assert not isinstance(verdict, Delayed)


def test_busy_times_of_other_servers_are_forgotten() -> None:
    larger = idle(topology((4, 4, 4)))
    busy = replace(larger, unit_free=np.arange(12) % 4 == 0)
    again = recalled(Control.ARQ, experienced(Control.ARQ).memory(), busy)
    facts = TopologyFacts(busy.topology)
    (verdict,) = again.evaluate([applicant("second", 3)], busy, facts, NOW_S + 5.0)
    assert not isinstance(verdict, Delayed)


@pytest.mark.parametrize("control", CONTROLS)
def test_a_forgotten_job_waits_for_no_units(control: Control) -> None:
    known = experienced(control)
    assert list(known.waiting) == ["first"]
    known.forget({"first", "never seen"})
    assert list(known.waiting) == []
    assert sum(row.waiting for row in known.state(LATER, FACTS, NOW_S)) == 0
