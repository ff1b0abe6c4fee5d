"""Files that the pages read."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from apps.dashboard.core.glossary import read_glossary

GLOSSARY: Final = Path(__file__).resolve().parents[2] / "docs" / "glossary.md"


@cache
def glossary() -> Mapping[str, str]:
    """Return the meaning of each term of ``docs/glossary.md``, by the lower-case term."""
    return read_glossary(GLOSSARY.read_text(encoding="utf-8"))
