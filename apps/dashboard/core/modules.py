"""The modules that the scripts of a page import."""

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

IMPORT: Final = re.compile(r'\bfrom "(\.{1,2}/[^"]+)"')
MODULE_OF_PAGE: Final = re.compile(r'^  "?([a-z-]+)"?: "\./(pages/[^"]+)",$', re.MULTILINE)


def loaded_with(entries: Iterable[str], read: Callable[[str], str]) -> tuple[str, ...]:
    """Return modules and all that they import, directly or not, nearest first.

    Parameters
    ----------
    entries : paths of modules in the folder of scripts
    read : returns the text of a module by its path
    """
    loaded = dict.fromkeys(entries)
    pending = list(loaded)
    for path in pending:
        names = [
            posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
            for name in IMPORT.findall(read(path))
        ]
        pending += [name for name in dict.fromkeys(names) if name not in loaded]
        loaded.update(dict.fromkeys(names))
    return tuple(loaded)


def modules_by_page(app: str) -> Mapping[str, str]:
    """Return the module of each page that has one, as ``app.js`` lists them."""
    return dict(MODULE_OF_PAGE.findall(app))
