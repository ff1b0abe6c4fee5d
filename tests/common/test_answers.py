"""Answers left by a worker for whoever waits."""

import pytest

from apps.common.answers import await_answer, leave_answer
from apps.common.core.errors import TransientError


def test_an_answer_is_picked_up_once() -> None:
    leave_answer("question", {"found": [1, 2]})
    assert await_answer("question", within_s=0.0) == {"found": [1, 2]}
    with pytest.raises(TransientError, match="No worker has answered in time"):
        await_answer("question", within_s=0.0)


def test_the_answer_to_another_question_is_not_taken() -> None:
    leave_answer("one", 1)
    with pytest.raises(TransientError):
        await_answer("other", within_s=0.02)
    assert await_answer("one", within_s=0.0) == 1
