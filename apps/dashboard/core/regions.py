"""The live regions of a page: elements with an id and the attribute ``data-live``."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from html.parser import HTMLParser

VOID = frozenset({"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta"})


def live_regions(html: str) -> dict[str, str]:
    """Return the inner HTML of each live region by its id, without those inside another one."""
    reader = _Reader(_line_starts(html))
    reader.feed(html)
    return {
        region.id: html[region.start : region.end] for region in reader.regions if region.end >= 0
    }


def changed_regions(html: str, known: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return HTML and digest of the regions whose digest the caller does not know.

    Parameters
    ----------
    known : digest by id; "" = none
    """
    found = {name: (inner, _digest(inner)) for name, inner in live_regions(html).items()}
    return {
        name: {"html": inner, "digest": digest}
        for name, (inner, digest) in found.items()
        if name in known and known[name] != digest
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _line_starts(html: str) -> list[int]:
    starts = [0]
    for line in html.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    return starts


@dataclass(slots=True)
class _Region:
    id: str
    start: int
    depth: int
    end: int = -1


class _Reader(HTMLParser):
    """Finds the positions of the regions in the text."""

    def __init__(self, line_starts: list[int]) -> None:
        super().__init__(convert_charrefs=False)
        self.regions: list[_Region] = []
        self._line_starts = line_starts
        self._open: list[str] = []  # tags: a stray end tag must not end a region
        self._current: _Region | None = None

    def _position(self) -> int:
        line, column = self.getpos()
        return self._line_starts[line - 1] + column

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in VOID:
            return
        self._open.append(tag)
        values = dict(attrs)
        if self._current is None and "data-live" in values and values.get("id"):
            start = self._position() + len(self.get_starttag_text() or "")
            self._current = _Region(str(values["id"]), start, len(self._open))
            self.regions.append(self._current)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Ignore an element without content."""

    def handle_endtag(self, tag: str) -> None:
        if tag not in self._open:
            return
        while self._open.pop() != tag:
            pass
        if self._current is not None and len(self._open) < self._current.depth:
            self._current.end = self._position()
            self._current = None
