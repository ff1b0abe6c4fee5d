"""The order in which all transactions lock rows, which prevents deadlocks.

A transaction locks tables in the order of `LOCK_ORDER`, and the rows of one table by ascending id.
It may skip tables, and may change rows that it has locked at any time. Numbers of the change log
and of the event log come last (`log_numbers`): after the first, it locks no further row.

An UPDATE or DELETE of several rows locks them in any order, and an INSERT of several unique keys
waits for them in the order of its rows. So lock rows first, and insert unique keys sorted.
Tables that are not listed have no order: a transaction locks at most one of them, or holds an
advisory lock. The tests check every transaction (`tests.lock_order`).
"""

from collections.abc import Collection
from typing import Any, Final

from django.db import connection
from django.db.models import CASCADE, Model
from psycopg.sql import SQL, Identifier

LOCK_ORDER: Final = (
    "inventory_cluster",
    "execution_backendholder",
    "workloads_application",
    "profiling_profilingrun",
    "operations_operation",
    "placement_plan",
    "placement_move",
    "execution_launch",
    "workloads_job",
    "workloads_waitingshape",
    "accounts_project",
    "execution_migration",
    "scheduling_allocation",
    "inventory_resourceunit",
    "inventory_server",
)


def lock_for_deletion(model: type[Model], keys: Collection[Any]) -> None:
    """Lock rows, and the rows that their deletion deletes with them, in the lock order."""
    columns = {model._meta.db_table: "id"}
    for relation in model._meta.related_objects:
        if relation.on_delete is CASCADE and relation.field.column is not None:
            columns[relation.related_model._meta.db_table] = relation.field.column
    for table in sorted(columns.keys() & set(LOCK_ORDER), key=LOCK_ORDER.index):
        _lock(table, columns[table], keys)


def _lock(table: str, column: str, keys: Collection[Any]) -> None:
    statement = SQL("SELECT FROM {} WHERE {} = ANY(%s) ORDER BY id FOR UPDATE")
    with connection.cursor() as cursor:
        cursor.execute(statement.format(Identifier(table), Identifier(column)), [list(keys)])
