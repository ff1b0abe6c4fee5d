"""Progress of a start: bars on a terminal, plain lines elsewhere."""

import re
import sys
import time
from dataclasses import dataclass, field
from typing import TextIO

BAR_CELLS = 28
PLAIN_INTERVAL_S = 30.0
REDRAW_INTERVAL_S = 0.1
FRACTION = re.compile(r"(\d[\d,]*)\s*/\s*(\d[\d,]*)")


@dataclass(slots=True)
class Progress:
    """Progress output of consecutive steps."""

    stream: TextIO = field(default_factory=lambda: sys.stdout)
    label: str = ""
    started_s: float = 0.0
    shown_s: float = 0.0

    def begin(self, label: str) -> None:
        """Start a step."""
        self.label, self.started_s, self.shown_s = label, time.monotonic(), time.monotonic()
        if self.stream.isatty():
            self._redraw(label)

    def update(self, text: str) -> None:
        """Show the progress of the step; `done/total` in the text becomes a bar."""
        now = time.monotonic()
        interval = REDRAW_INTERVAL_S if self.stream.isatty() else PLAIN_INTERVAL_S
        if now - self.shown_s < interval:
            return
        self.shown_s = now
        if self.stream.isatty():
            self._redraw(f"{self.label}  {bar(text)}")
        else:
            self.write_line(f"{self.label}: {text}")

    def end(self) -> None:
        """Finish the step."""
        self.write_line(f"{self.label} ({time.monotonic() - self.started_s:.1f} s)")

    def write_line(self, text: str) -> None:
        """Write a permanent line."""
        if self.stream.isatty():
            self._redraw("")
        self.stream.write(text + "\n")
        self.stream.flush()

    def _redraw(self, text: str) -> None:
        self.stream.write("\r\033[K" + text)
        self.stream.flush()


def bar(text: str) -> str:
    """Return the text, with a bar in front if it contains `done/total`."""
    match = FRACTION.search(text)
    if match is None:
        return text
    done, total = (int(group.replace(",", "")) for group in match.groups())
    share = min(1.0, done / total) if total else 1.0
    filled = round(share * BAR_CELLS)
    return f"[{'#' * filled}{'.' * (BAR_CELLS - filled)}] {share:4.0%}  {text}"
