"""Windows next to a stressor count only if the kernel's counters confirm them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.profiling.core.windows import Basis, Fault, Window, fault_of, fault_of_pair

OFF = Window(wall_s=2.0, work=10.0, cpu_s=1.9, wait_s=0.02)
# on the program's core: it ran half of the time, and the stressor explains the other half
ON = Window(
    wall_s=2.0, work=5.0, cpu_s=1.0, wait_s=1.0, told=0.5, pressed=0.5, shared_s=1.0
)  # fmt: skip


def test_speed_per_cpu_second_leaves_out_all_waits() -> None:
    window = Window(wall_s=4.0, work=6.0, cpu_s=1.0, wait_s=2.0)
    assert window.speed(Basis.CPU) == 6.0
    assert window.speed(Basis.UNQUEUED) == 3.0  # it ran for 1 s and was blocked for 1 s
    assert window.speed(Basis.WALL) == 1.5


def test_a_window_without_work_has_no_speed() -> None:
    with pytest.raises(ValueError, match="no work"):
        replace(OFF, work=0.0).speed(Basis.CPU)


def test_the_stressor_explains_waits_on_its_own_core() -> None:
    assert ON.foreign_wait_s == 0.0
    assert replace(ON, wait_s=1.3).foreign_wait_s == pytest.approx(0.3)
    assert replace(ON, wait_s=None).foreign_wait_s is None


@pytest.mark.parametrize("window", [OFF, ON], ids=["off", "on"])
@pytest.mark.parametrize("basis", list(Basis))
def test_an_undisturbed_window_counts(window: Window, basis: Basis) -> None:
    assert fault_of(window, basis) is None


@pytest.mark.parametrize(
    ("window", "fault"),
    [
        (replace(OFF, fault=Fault.ENDED), Fault.ENDED),
        (replace(OFF, work=0.0), Fault.NO_PROGRESS),
        (replace(OFF, wall_s=0.0), Fault.NO_PROGRESS),
        (replace(OFF, cpu_s=0.03), Fault.IDLE_PROGRAM),
        (replace(ON, pressed=0.39), Fault.IDLE_STRESSOR),
        (replace(ON, pressed=0.0, shared_s=0.0, wait_s=0.0), Fault.IDLE_STRESSOR),
        (replace(OFF, pressed=0.06), Fault.BUSY_STRESSOR),
        (replace(OFF, wait_s=0.11), Fault.FOREIGN_WAIT),
        (replace(ON, wait_s=1.11), Fault.FOREIGN_WAIT),
        (replace(OFF, foreign_s=0.12), Fault.FOREIGN_USE),
        (replace(OFF, foreign_s=0.23, cores=2), Fault.FOREIGN_USE),
        (replace(OFF, steal_s=0.12), Fault.STEAL),
    ],
)
def test_a_disturbed_window_does_not_count(window: Window, fault: Fault) -> None:
    assert fault_of(window, Basis.CPU) is fault


@pytest.mark.parametrize(
    "window",
    [
        replace(ON, pressed=0.4),
        replace(OFF, pressed=0.05),
        replace(OFF, wait_s=0.1),
        replace(ON, wait_s=1.09),
        replace(OFF, foreign_s=0.11),  # 5 % of 2 s, and a tick
        replace(OFF, foreign_s=0.22, cores=2),
        replace(OFF, wait_s=None),
    ],
)
def test_a_window_at_the_limits_counts(window: Window) -> None:
    assert fault_of(window, Basis.CPU) is None


def test_unknown_waits_matter_only_to_a_speed_that_leaves_them_out() -> None:
    assert fault_of(replace(OFF, wait_s=None), Basis.UNQUEUED) is Fault.UNKNOWN_WAITS


def test_a_blocked_program_has_a_speed_without_cpu_time() -> None:
    assert fault_of(replace(OFF, cpu_s=0.01), Basis.UNQUEUED) is None


def test_a_pair_counts_only_if_both_windows_do() -> None:
    disturbed = replace(OFF, foreign_s=1.0)
    assert fault_of_pair(ON, OFF, Basis.CPU) is None
    assert fault_of_pair(ON, disturbed, Basis.CPU) is Fault.FOREIGN_USE
    assert fault_of_pair(replace(ON, pressed=0.0), OFF, Basis.CPU) is Fault.IDLE_STRESSOR


def test_load_near_by_must_be_the_same_in_both_windows() -> None:
    assert fault_of_pair(replace(ON, nearby_s=2.0), replace(OFF, nearby_s=2.0), Basis.CPU) is None
    assert fault_of_pair(replace(ON, nearby_s=2.0), replace(OFF, nearby_s=1.4), Basis.CPU) is (
        Fault.DIFFERENCE
    )


@given(wait_s=st.floats(0.0, 2.0), foreign_s=st.floats(0.0, 2.0), shared_s=st.floats(0.0, 1.0))
def test_a_window_that_counts_has_little_foreign_load(
    wait_s: float, foreign_s: float, shared_s: float
) -> None:
    window = replace(ON, wait_s=wait_s, foreign_s=foreign_s, shared_s=shared_s)
    if fault_of(window, Basis.CPU) is None:
        assert wait_s - shared_s <= 0.1
        assert foreign_s <= 0.11


@given(fault=st.sampled_from(Fault))
def test_every_fault_is_a_clause_without_a_full_stop(fault: Fault) -> None:
    assert fault.value[0].islower()
    assert not fault.value.endswith(".")


@pytest.mark.parametrize(
    ("on_s", "off_s", "fault"),
    [
        (1.05e-5, 1.0e-5, None),
        (1.0e-5, 1.05e-5, None),
        (1.1e-5, 1.0e-5, Fault.UNEVEN_CORE),
        (1.0e-5, 1.1e-5, Fault.UNEVEN_CORE),
        (None, 1.1e-5, None),
        (1.0e-5, None, None),
    ],
)
def test_a_pair_counts_only_if_the_core_was_as_fast_in_both_windows(
    on_s: float | None, off_s: float | None, fault: Fault | None
) -> None:
    on, off = replace(ON, loop_s=on_s), replace(OFF, loop_s=off_s)
    assert fault_of_pair(on, off, Basis.CPU) is fault
