"""The terms of the glossary, read from its tables in Markdown."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_ROW: Final = re.compile(r"^\| (?P<words>[^|]+) \| (?P<meaning>[^|]+) \|$", re.MULTILINE)
_HEAD: Final = frozenset({"word", "---"})
# where a term comes from: sections of papers and files, of no use on a page
_SOURCE: Final = re.compile(r" \((?:[^()]*§[^()]*|C\d+|P\d+|`apps/[^()]*)\)")
_MARKS: Final = re.compile(r"\*\*|`")
_ALIAS: Final = re.compile(r"^(?P<word>.+?) \((?P<alias>.+)\)$")


def read_glossary(text: str) -> Mapping[str, str]:
    """Return the meaning of each term, by the lower-case term and by each of its synonyms.

    Parameters
    ----------
    text : Markdown; each table has a row per term: its synonyms, and its meaning
    """
    meanings = {}
    for row in _ROW.finditer(text):
        words = _MARKS.sub("", row["words"]).strip()
        if words in _HEAD:
            continue
        meaning = _MARKS.sub("", _SOURCE.sub("", row["meaning"])).strip()
        for word in _synonyms(words):
            meanings[word.lower()] = meaning[:1].upper() + meaning[1:]
    return MappingProxyType(meanings)


def _synonyms(words: str) -> list[str]:
    """Return the synonyms of the first column, e.g. of "resource unit (RU), unit"."""
    synonyms: list[str] = []
    for word in words.split(", "):
        parts = _ALIAS.match(word)
        synonyms += [word] if parts is None else [parts["word"], parts["alias"]]
    return synonyms
