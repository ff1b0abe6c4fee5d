"""Papers whose figures are reproduced: one module each, and one line here."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from apps.testbed.core.reproduction.clavismo import CLAVISMO
from apps.testbed.core.reproduction.figures import Paper
from apps.testbed.core.reproduction.paragon import PARAGON
from apps.testbed.core.reproduction.quasar import QUASAR
from apps.testbed.core.reproduction.tarcil import TARCIL
from apps.testbed.core.reproduction.thesis import THESIS

__all__ = ["PAPERS"]

PAPERS: Final[Mapping[str, Paper]] = MappingProxyType(
    {
        "clavismo": CLAVISMO,
        "paragon": PARAGON,
        "quasar": QUASAR,
        "tarcil": TARCIL,
        "thesis": THESIS,
    }
)
