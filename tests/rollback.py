"""A transaction that is undone, for fixtures that outlive a test."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import transaction


@contextmanager
def rolled_back() -> Iterator[None]:
    """Undo what the block writes.

    Code sees no transaction around it, as in a Django test case: it may open durable ones, and its
    locks are checked from its own transactions on.
    """
    block: Any = transaction.atomic()  # whose mark is not in its stubs
    block._from_testcase = True
    with block:
        yield
        transaction.set_rollback(True)
