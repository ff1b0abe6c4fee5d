"""Sends the output of tasks: a little of each in turn, so that no heartbeat waits for it."""

import base64
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from apps.execution.backends.agent.link import Link
from apps.execution.backends.agent.task import STREAMS, Task
from apps.execution.backends.agent.wakes import Wakes
from apps.execution.core.agent.wire import MAX_CHUNK

GATHERED_S: Final = 0.5  # between two small chunks of a stream
FULL: Final = 1 << 14  # bytes of output that do not wait for more


@dataclass(slots=True)
class Sending:
    """The output that is on its way."""

    link: Link
    wakes: Wakes
    _last: int = 0  # launch whose output was sent last

    def in_turn(self, tasks: Iterable[Task]) -> list[Task]:
        """Return tasks in the order in which they may send: after the one that did so last."""
        return sorted(tasks, key=lambda task: (task.launch <= self._last, task.launch))

    def send(self, task: Task, epoch: int, *, is_last: bool, until_s: float) -> bool:
        """Send a chunk of each stream that is full or old enough; return True if nothing is left.

        Parameters
        ----------
        is_last : whether the task has ended: then nothing waits for more
        until_s : second of the monotonic clock after which nothing is sent

        Raises
        ------
        AwayError, RefusedError : as `Link.post` says.
        """
        left = 0
        for stream in STREAMS:
            data, now_s = task.unsent(stream, limit=MAX_CHUNK), time.monotonic()
            is_old = now_s - task.sent_s.get(stream, -GATHERED_S) >= GATHERED_S
            if data and now_s < until_s and (is_last or is_old or len(data) >= FULL):
                self._post(task, epoch, stream, data)
                task.sent_s[stream] = now_s
                data = task.unsent(stream, limit=FULL)
            left = max(left, len(data))
        if left >= FULL or (left and is_last):
            self.wakes.wake()
        return not left

    def _post(self, task: Task, epoch: int, stream: str, data: bytes) -> None:
        body = {
            "epoch": epoch,
            "launch": task.launch,
            "stream": stream,
            "start": task.sent[stream],
            "chunk": base64.b64encode(data).decode(),
        }
        self.link.post("output", body)
        task.confirm_sent(stream, len(data))
        self._last = task.launch
