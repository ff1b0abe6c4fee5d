"""Files that the pages read."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from apps.dashboard.core.glossary import read_glossary
from apps.dashboard.core.modules import loaded_with, modules_by_page

PROJECT: Final = Path(__file__).resolve().parents[2]
GLOSSARY: Final = PROJECT / "docs" / "glossary.md"
SCRIPTS: Final = PROJECT / "static" / "berth" / "js"


@cache
def glossary() -> Mapping[str, str]:
    """Return the meaning of each term of ``docs/glossary.md``, by the lower-case term."""
    return read_glossary(GLOSSARY.read_text(encoding="utf-8"))


@cache
def modules_of(page: str | None) -> tuple[str, ...]:
    """Return the paths of the modules that a page loads with ``app.js``; None = of no user."""

    def read(path: str) -> str:
        return (SCRIPTS / path).read_text(encoding="utf-8")

    entries = ["app.js"]
    if page is not None:
        module = modules_by_page(read("app.js")).get(page)
        entries += ["clock.js", *([module] if module else [])]
    return loaded_with(entries, read)[1:]
