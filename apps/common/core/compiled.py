"""The decorator of kernels and the cache of their machine code.

numba invalidates its cache only if the file of the kernel changes, not if an imported function or
constant changes. So the cache directory of a module carries a digest of its source and of all
project modules that it imports, directly or not. A module must therefore import the classes of the
records that its kernels take, if only under `TYPE_CHECKING`: their fields are compiled in.
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
    rb"^[ \t]*(?:from|import) (apps(?:\.\w+)*)(?: import (\([^)]*\)|[\w, ]+))?", re.MULTILINE
)
_CONFIG: Final[Any] = numba.config
_NJIT: Final[Any] = numba.njit  # whose option `_nrt` is not in its types

_F = TypeVar("_F", bound=Callable[..., Any])


def jit(*, makes_arrays: bool = True, **options: Any) -> Callable[[_F], _F]:
    """Compile a function on its first call, without the interpreter lock, and cache the result.

    Parameters
    ----------
    makes_arrays : False if the function neither creates an array nor copies one as a whole. numba
        then counts no references, which saves two atomic operations for each array that is read
        from a record or passed on (half the time of a generation of NSGA-II). Compilation fails
        if the function creates an array after all.
    options : passed to `numba.njit`. ``forceinline=True`` for a small function that takes records:
        a call passes every field of every array (a third of a generation for 100 containers)
    """

    def compiled(function: _F) -> _F:
        usual = _CONFIG.CACHE_DIR
        _CONFIG.CACHE_DIR = _place(function.__module__, usual)
        try:
            dispatcher: _F = _NJIT(cache=True, nogil=True, _nrt=makes_arrays, **options)(function)
        finally:
            _CONFIG.CACHE_DIR = usual
        return dispatcher

    return compiled


@lru_cache(maxsize=256)
def _place(module: str, usual: str) -> str:
    """Return the cache directory of a module; numba's own choice if it is not writable."""
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
    """Digest the sources of a module and of all its imports below ``root``: 16 hex digits."""
    total = hashlib.blake2b(digest_size=8)
    for _, source in sorted(sources(module, root).items()):
        total.update(source)
    return total.hexdigest()


def sources(module: str, root: Path) -> dict[Path, bytes]:
    """Read a module and all modules below ``root`` that it imports, directly or not."""
    contents: dict[Path, bytes] = {}
    pending = [module]
    while pending:
        path = _source(pending.pop(), root)
        if path is None or path in contents:
            continue
        contents[path] = path.read_bytes()
        for package, names in _IMPORTED.findall(contents[path]):
            pending.append(package.decode())
            # names that are not modules resolve to no file
            pending += [
                f"{package.decode()}.{name}" for name in re.findall(r"\w+", names.decode())
            ]
    return contents


def _source(module: str, root: Path) -> Path | None:
    path = root.joinpath(*module.split("."))
    places = (path.with_suffix(".py"), path / "__init__.py")
    return next((place for place in places if place.is_file()), None)
