"""Progress of a replay: a bar on a terminal, else a line every few seconds."""

import time
from collections.abc import Sequence
from typing import Final, TextIO

from apps.testbed.core.jobs import ReplayJob
from apps.testbed.core.replay_state import ReplayState

BAR_CELLS: Final = 28
LINE_INTERVAL_S: Final = 5.0
BAR_INTERVAL_S: Final = 0.2
NOTICEABLY_LATE_S: Final = 60.0


class ReplayProgressLine:
    """A line that is redrawn on a terminal, and else repeated every few seconds."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.is_terminal = stream.isatty()
        self._shown_at = float("-inf")
        self._is_open = False

    def show(self, state: ReplayState, plan: Sequence[ReplayJob], late_s: float) -> None:
        """Show the number of submitted jobs and the delay of the next one in cluster seconds."""
        self._write(progress_text(state, plan, late_s, with_bar=self.is_terminal))

    def hint(self, text: str) -> None:
        """Show a temporary message."""
        self._write(text)

    def say(self, text: str) -> None:
        """Write a permanent line."""
        self.end()
        self.stream.write(f"{text}\n")
        self.stream.flush()

    def end(self) -> None:
        """Move below the redrawn line."""
        if self._is_open:
            self.stream.write("\n")
            self._is_open = False

    def _write(self, text: str) -> None:
        now = time.monotonic()
        if now - self._shown_at < (BAR_INTERVAL_S if self.is_terminal else LINE_INTERVAL_S):
            return
        self._shown_at = now
        if self.is_terminal:
            self.stream.write(f"\r\033[K{text}")
            self._is_open = True
        else:
            self.stream.write(f"{text}\n")
        self.stream.flush()


def progress_text(
    state: ReplayState, plan: Sequence[ReplayJob], late_s: float, *, with_bar: bool
) -> str:
    """Progress of a replay in one line."""
    total = len(plan)
    parts = [f"{state.next:,}/{total:,} jobs submitted", f"trace time {clock_text(state.sent_s)}"]
    if late_s > NOTICEABLY_LATE_S:
        parts.append(f"{clock_text(late_s)} behind")
    if state.rejected:
        parts.append(f"{state.rejected:,} refused")
    text = ", ".join(parts)
    if not with_bar:
        return text
    filled = BAR_CELLS * state.next // max(total, 1)
    return f"[{'#' * filled}{'.' * (BAR_CELLS - filled)}] {text}"


def clock_text(seconds: float) -> str:
    """Seconds as h:mm:ss."""
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
