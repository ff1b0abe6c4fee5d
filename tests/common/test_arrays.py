import numpy as np
import pytest

from apps.common.core.arrays import as_readonly


def test_the_view_is_read_only_and_the_array_stays_writable() -> None:
    array = np.zeros(3)
    view = as_readonly(array)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1.0
    array[0] = 2.0
    assert view.tolist() == [2.0, 0.0, 0.0]


def test_a_read_only_array_is_returned_as_it_is() -> None:
    view = as_readonly(np.zeros(3))
    assert as_readonly(view) is view


def test_another_type_and_layout_are_converted() -> None:
    view = as_readonly(np.arange(6.0).reshape(2, 3).T, np.int32)
    assert view.dtype == np.dtype(np.int32)
    assert view.flags.c_contiguous
    assert view.tolist() == [[0, 3], [1, 4], [2, 5]]
