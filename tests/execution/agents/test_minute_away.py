"""The control plane is down for a minute, and nothing is lost. It takes longer than a minute."""

import time

import pytest

from apps.execution.core.agent.wire import KEPT_BYTES
from apps.execution.models import Launch, OutputChunk
from apps.execution.selectors.agents import output_tail
from tests.execution.agents.conftest import Site, eventually
from tests.execution.agents.gate import gate_to

pytestmark = pytest.mark.agent
AWAY_S = 60.0
LINES = 400_000  # of 8 bytes: more than is kept
BACKLOG = f"while [ ! -e go ]; do sleep 0.05; done; seq -w 1000000 {999_999 + LINES}"
RUNNING = "n=0; while [ ! -e go ]; do n=$((n+1)); echo $n; sleep 0.1; done; echo end $n"


def test_a_minute_without_the_control_plane_at_the_default_lease_loses_nothing(
    site: Site,
) -> None:
    with gate_to(site.url) as gate:
        site.url = gate.url
        machine = site.machine("box-1")
        ending = site.until(site.submit("sh", "-c", BACKLOG), "running")
        running = site.until(site.submit("sh", "-c", RUNNING), "running")
        gate.close()
        closed_s = time.monotonic()
        machine.file(ending, "work/go").touch()
        eventually(machine.file(ending, "exit.json").exists, "it ends without the control plane")
        time.sleep(closed_s + AWAY_S - time.monotonic())
        gate.open()
        assert site.done(ending).state == "succeeded"
        machine.file(running, "work/go").touch()
        assert site.done(running).state == "succeeded"
        # the whole output of what ran on, and the last MiB of what ended meanwhile
        text = output_tail(running, "stdout", limit=KEPT_BYTES).text.splitlines()
        numbers, end = text[:-1], text[-1]
        assert numbers == [str(n + 1) for n in range(len(numbers))]
        assert end == f"end {len(numbers)}"
        assert len(numbers) > AWAY_S
        last = output_tail(ending, "stdout", limit=KEPT_BYTES)
        every = "".join(f"{n}\n" for n in range(1_000_000, 1_000_000 + LINES)).encode()
        assert last.data == every[-KEPT_BYTES:]
        assert not OutputChunk.objects.filter(stream="stderr").exists()
        assert {launch.attempt for launch in Launch.objects.all()} == {1}
        machine.stop_everything()
