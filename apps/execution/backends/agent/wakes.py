"""The named pipe by which supervisors wake their agent; a lost wake costs one tick."""

import os
import select
from pathlib import Path

from apps.execution.backends.agent.supervisor import wake_agent


class Wakes:
    """The pipe of one agent; it is there before and after the agent."""

    def __init__(self, path: Path) -> None:
        self._path = path
        if not path.is_fifo():
            os.mkfifo(path, 0o600)
        # open for both: a pipe without a writer would always be ready to read
        self._pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def wake(self) -> None:
        """End the wait of the other thread, or its next one."""
        wake_agent(str(self._path))

    def wait(self, seconds: float) -> bool:
        """Return True as soon as somebody wakes the agent, else False after some seconds."""
        ready, _, _ = select.select([self._pipe], [], [], seconds)
        if ready:
            os.read(self._pipe, 1 << 16)
        return bool(ready)

    def close(self) -> None:
        """Stop listening."""
        os.close(self._pipe)
