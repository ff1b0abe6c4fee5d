"""The stop signal: a handler may set it at any moment, and all threads that wait go on."""

import subprocess
import sys
from pathlib import Path
from threading import Thread

from apps.common.infrastructure.stop_signal import StopSignal

ROOT = Path(__file__).parents[2]
# Each round is interrupted at another place of `wait`.
INTERRUPTED = """
import signal

from apps.common.infrastructure.stop_signal import StopSignal

for number in range(400):
    stop = StopSignal()
    signal.signal(signal.SIGALRM, lambda *_: stop.set())
    signal.setitimer(signal.ITIMER_REAL, 1e-4 + 1e-6 * number)
    while not stop.wait(1e-6):
        pass
print(number, stop.is_set())
"""


def test_a_signal_handler_stops_a_thread_wherever_it_waits() -> None:
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", INTERRUPTED],
        cwd=ROOT,
        timeout=60,
        check=True,
        stdout=subprocess.PIPE,
    )
    assert done.stdout == b"399 True\n"


def test_all_threads_that_wait_go_on() -> None:
    stop, woken = StopSignal(), list[bool]()
    threads = [Thread(target=lambda: woken.append(stop.wait(60.0))) for _ in range(4)]
    for thread in threads:
        thread.start()
    stop.set()
    for thread in threads:
        thread.join(30.0)
    assert woken == [True] * 4
    assert stop.is_set()
    assert stop.wait(60.0)


def test_without_a_stop_the_wait_ends_after_its_time() -> None:
    stop = StopSignal()
    assert not stop.wait(0.0)
    assert not stop.wait(0.01)
    assert not stop.is_set()
