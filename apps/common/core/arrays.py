"""Arrays that several owners share."""

from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

_Type = TypeVar("_Type", bound=np.generic)


@overload
def as_readonly(array: NDArray[_Type]) -> NDArray[_Type]: ...


@overload
def as_readonly(array: NDArray[Any], dtype: type[_Type]) -> NDArray[_Type]: ...


def as_readonly(array: NDArray[Any], dtype: type[np.generic] | None = None) -> NDArray[Any]:
    """Return a contiguous, read-only view of an array; copy it only if layout or type differ.

    Compiled kernels get one signature for each type and layout, so callers fix both here.
    """
    if dtype is not None or not array.flags.c_contiguous:
        array = np.ascontiguousarray(array, dtype=dtype)
    if array.flags.writeable:
        array = array.view()
        array.setflags(write=False)
    return array
