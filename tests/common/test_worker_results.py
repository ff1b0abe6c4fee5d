"""Results that a worker stores for a waiting process."""

import pytest

from apps.common.core.errors import TransientError
from apps.common.infrastructure.worker_results import await_result, store_result


def test_a_result_is_read_once() -> None:
    store_result("question", {"found": [1, 2]})
    assert await_result("question", within_s=0.0) == {"found": [1, 2]}
    with pytest.raises(TransientError, match="No worker has answered in time"):
        await_result("question", within_s=0.0)


def test_a_result_has_its_own_key() -> None:
    store_result("one", 1)
    with pytest.raises(TransientError):
        await_result("other", within_s=0.02)
    assert await_result("one", within_s=0.0) == 1
