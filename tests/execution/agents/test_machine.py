"""The L3 caches of a machine, as its kernel says or as they are described."""

from pathlib import Path

import pytest

from apps.execution.backends.agent import machine
from apps.execution.backends.agent.agent import Agent
from apps.execution.backends.agent.machine import Machine, described_groups, l3_groups

pytestmark = pytest.mark.agent


def caches(cpus: Path, cpu: int, **shared: str) -> None:
    """Write what the kernel says of the caches of a core, by level."""
    for index, (level, cores) in enumerate(shared.items()):
        directory = cpus / f"cpu{cpu}/cache/index{index}"
        directory.mkdir(parents=True)
        (directory / "level").write_text(f"{level[1:]}\n")
        (directory / "shared_cpu_list").write_text(f"{cores}\n")


@pytest.fixture
def cpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(machine, "_CPUS", tmp_path)
    return tmp_path


def test_cores_that_share_an_l3_cache_are_one_group(cpus: Path) -> None:
    for cpu in range(8):
        caches(cpus, cpu, l1=str(cpu), l2=str(cpu), l3="0-1,4-5" if cpu % 4 < 2 else "2-3,6-7")
    assert l3_groups(tuple(range(8))) == (0, 0, 1, 1, 0, 0, 1, 1)
    assert l3_groups((2, 3, 4)) == (0, 0, 1)


def test_a_machine_with_one_l3_cache_has_no_groups(cpus: Path) -> None:
    for cpu in range(2):
        caches(cpus, cpu, l3="0-1")
    assert l3_groups((0, 1)) == ()


def test_a_machine_whose_kernel_does_not_say_has_no_groups(cpus: Path) -> None:
    caches(cpus, 0, l3="0")
    caches(cpus, 1, l2="1")
    assert l3_groups((0, 1)) == ()


def test_this_machine_says_a_group_for_each_core_or_none() -> None:
    found = l3_groups(machine.usable_cpus())
    assert len(found) in {0, len(machine.usable_cpus())}


def test_a_description_stands_for_the_machine() -> None:
    assert described_groups((0, 1, 2, 3), ((0, 3), (1, 2))) == (0, 1, 1, 0)
    assert described_groups((0, 1), ((0, 1),)) == ()


@pytest.mark.parametrize("described", [((0,), (0, 1)), ((0,),), ((0, 1), (2,))])
def test_a_description_names_each_core_once(described: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(ValueError, match="must name each of the cores"):
        described_groups((0, 1), described)


class Plane:
    """A control plane that registers everybody."""

    url = "http://127.0.0.1:1/"
    body: dict[str, object]

    def post(self, _path: str, body: dict[str, object], **_: float) -> dict[str, object]:
        self.body = body
        return {"epoch": 1, "lease_s": 90.0, "orders_url": "orders"}


def test_a_description_is_registered_as_one(tmp_path: Path) -> None:
    plane = Plane()
    box = Machine("box-1", tmp_path, (0, 1), l3_described=((0,), (1,)))
    Agent(plane, box)._register()  # type: ignore[arg-type]
    assert plane.body["l3_groups"] == (0, 1)
    facts = plane.body["facts"]
    assert isinstance(facts, dict)
    assert facts["l3_groups"] == "described, not read from the machine"
