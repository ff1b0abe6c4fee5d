"""Sends the output of tasks: a little of each in turn, so that no heartbeat waits for it."""

import base64
import time
from collections.abc import Iterable
from dataclasses import dataclass

from apps.execution.backends.agent.link import Link
from apps.execution.backends.agent.tasks import STREAMS, Task
from apps.execution.backends.agent.wakes import Wakes
from apps.execution.core.agent.wire import MAX_CHUNK


@dataclass(slots=True)
class Sending:
    """The output that is on its way."""

    link: Link
    wakes: Wakes
    _last: int = 0  # launch whose output was sent last

    def in_turn(self, tasks: Iterable[Task]) -> list[Task]:
        """Return tasks in the order in which they may send: after the one that did so last."""
        return sorted(tasks, key=lambda task: (task.launch <= self._last, task.launch))

    def send(self, task: Task, epoch: int, *, until_s: float) -> bool:
        """Send a chunk of each stream; return True if nothing is left to send.

        Parameters
        ----------
        until_s : second of the monotonic clock after which nothing is sent

        Raises
        ------
        AwayError, RefusedError : as `Link.post` says.
        """
        for stream in STREAMS:
            data = task.unsent(stream, limit=MAX_CHUNK)
            if data and time.monotonic() < until_s:
                self._post(task, epoch, stream, data)
        is_left = any(task.unsent(stream, limit=1) for stream in STREAMS)
        if is_left:
            self.wakes.wake()
        return not is_left

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
