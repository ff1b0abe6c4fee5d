"""The decorator of kernels, and where their machine code is kept.

numba keeps it on disk until the file of the kernel changes, and does not see that a function or a
constant has changed which the kernel took from another module. So every module's kernels are kept
under a digest of its own source and of all of ours that it imports, directly or not.
"""

import hashlib
import re
import shutil
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeVar

import numba

ROOT: Final = Path(__file__).resolve().parents[3]
_IMPORTED: Final = re.compile(
    rb"^\s*(?:from|import) (apps(?:\.\w+)*)(?: import \(?([\w, \n]+))?", re.MULTILINE
)
_CONFIG: Final[Any] = numba.config
_NJIT: Final[Any] = numba.njit  # whose option `_nrt` is not in its types

_F = TypeVar("_F", bound=Callable[..., Any])


def jit(*, makes_arrays: bool = True, **options: Any) -> Callable[[_F], _F]:
    """Compile a function when it is first called, without the interpreter's lock, and keep it.

    Parameters
    ----------
    makes_arrays : False where a function makes none, nor copies one into another at once: numba
        then counts no references, which costs two atomic operations for each array that is taken
        out of a record or handed on (half the time of a generation of NSGA-II). It refuses to
        compile a function of which that is not true.
    options : of `numba.njit`
    """

    def compiled(function: _F) -> _F:
        usual = _CONFIG.CACHE_DIR
        _CONFIG.CACHE_DIR = _place(function.__module__, usual)
        try:
            made: _F = _NJIT(cache=True, nogil=True, _nrt=makes_arrays, **options)(function)
        finally:
            _CONFIG.CACHE_DIR = usual
        return made

    return compiled


@lru_cache(maxsize=256)
def _place(module: str, usual: str) -> str:
    """Directory of a module's kernels; numba's own choice where nothing can be written."""
    source = sys.modules[module].__file__
    if source is None:
        return usual
    base = Path(usual) if usual else Path(source).parent / "__pycache__"
    place = base / f"{module.rpartition('.')[2]}-{digest(module, ROOT)}"
    if usual or place.is_dir():
        return str(place)
    try:
        place.mkdir(parents=True)
    except OSError:
        return usual
    for other in base.glob(f"{module.rpartition('.')[2]}-{'?' * 16}"):
        if other != place:
            shutil.rmtree(other, ignore_errors=True)
    return str(place)


def digest(module: str, root: Path) -> str:
    """16 hexadecimal digits of the sources of a module and of all it imports below ``root``."""
    found, open_ = {}, [module]
    while open_:
        path = _source(open_.pop(), root)
        if path is None or path in found:
            continue
        found[path] = path.read_bytes()
        for package, names in _IMPORTED.findall(found[path]):
            open_.append(package.decode())
            # what follows the import's line is no module of ours, and found nowhere
            open_ += [f"{package.decode()}.{name}" for name in re.findall(r"\w+", names.decode())]
    total = hashlib.blake2b(digest_size=8)
    for path in sorted(found):
        total.update(found[path])
    return total.hexdigest()


def _source(module: str, root: Path) -> Path | None:
    path = root.joinpath(*module.split("."))
    places = (path.with_suffix(".py"), path / "__init__.py")
    return next((place for place in places if place.is_file()), None)
