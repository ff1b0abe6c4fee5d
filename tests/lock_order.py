"""A check of every transaction of the tests: rows are locked in the documented order.

It reads the statements, so it sees tables, not rows: ids in order within one table are the
business of `races.assert_locks_in_order`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakKeyDictionary

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.db.transaction import Atomic

from apps.common.infrastructure.locks import LOCK_ORDER

_SELECTED: Final = re.compile(r'\b(?:FROM|JOIN) "?(\w+)"?(?: (?:AS )?"?(\w+)"?)?')
_LOCKING: Final = re.compile(r'\bFOR (?:KEY SHARE|(?:NO KEY )?UPDATE)(?: OF "?(\w+)"?)?')
_CHANGED: Final = re.compile(
    r'(?<!KEY )(?<!FOR )(?<!DO )\bUPDATE "?(\w+)"?|\bDELETE FROM "?(\w+)"?'
)
_INSERTED: Final = re.compile(r'\bINSERT INTO "?(\w+)"?')
_GROUP: Final = re.compile(r"\([^()]*\)")
_ARRAY: Final = re.compile(r'\{[\w,."-]*\}')  # of `number_array`
_LOG: Final = re.compile(r"pg_advisory_xact_lock(?:_shared)?\(\(?(?:7101|7102)\b")


@dataclass
class _Transaction:
    """The tables in which a transaction has locked rows, in order, and the keys it named."""

    block: Atomic
    tables: list[str] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    has_log_number: bool = False


@dataclass(eq=False)
class LockOrder:
    """Collects the violations of all connections while a test runs."""

    violations: list[str] = field(default_factory=list)
    open: "WeakKeyDictionary[BaseDatabaseWrapper, _Transaction]" = field(
        default_factory=WeakKeyDictionary
    )

    def __call__(
        self,
        execute: Callable[[Any, Any, bool, dict[str, Any]], Any],
        sql: Any,
        params: Any,
        many: bool,
        context: dict[str, Any],
    ) -> Any:
        connection = context["connection"]
        own = [x for x in connection.atomic_blocks if not x._from_testcase]
        if own:
            text = sql if isinstance(sql, str) else sql.as_string(connection.connection)
            self._follow(connection, own[0], text, params)
        return execute(sql, params, many, context)

    def _follow(
        self, connection: BaseDatabaseWrapper, block: Atomic, sql: str, params: Any
    ) -> None:
        sql = " ".join(sql.split())
        now = self.open.get(connection)
        if now is None or now.block is not block:
            now = self.open[connection] = _Transaction(block)
        may_wait = "SKIP LOCKED" not in sql and "NOWAIT" not in sql
        keys = set(_flat(params))
        for table in locked_tables(sql):
            if may_wait:
                self._check(now, table, sql, is_locked=table in now.tables and keys <= now.keys)
            now.tables.append(table)
        now.keys |= keys
        now.tables += _INSERTED.findall(sql)  # no other transaction sees a new row
        if "pg_advisory_xact_lock" in sql:
            key = str(next(iter(params), "")) if params else ""
            now.has_log_number |= _LOG.search(sql.replace("%s", key, 1)) is not None

    def _check(self, now: _Transaction, table: str, sql: str, *, is_locked: bool) -> None:
        is_known = table in now.tables
        is_locked = is_locked or (is_known and not _LOCKING.search(sql))
        if now.has_log_number and not is_locked:
            self.violations.append(f"{table} is locked after a log: {sql[:200]}")
        if is_known or table not in LOCK_ORDER:
            return
        later = set(LOCK_ORDER[LOCK_ORDER.index(table) + 1 :])
        if held := [x for x in now.tables if x in later]:
            self.violations.append(f"{table} is locked after {held[0]}: {sql[:200]}")


def _flat(params: Any) -> Iterator[str]:
    for value in params.values() if isinstance(params, Mapping) else params or ():
        if isinstance(value, (list, tuple)):
            yield from _flat(value)
        elif isinstance(value, str) and _ARRAY.fullmatch(value):
            yield from value[1:-1].replace('"', "").split(",")
        else:
            yield str(value)


def locked_tables(sql: str) -> list[str]:
    """Tables in which a statement locks rows; its white space is single."""
    tables: list[str] = []
    for lock in _LOCKING.finditer(sql):
        chosen = lock.group(1)
        tables += [
            table
            for table, alias in _SELECTED.findall(_same_level(sql[: lock.start()]))
            if chosen in {None, table, alias}
        ]
    return tables + [updated or deleted for updated, deleted in _CHANGED.findall(sql)]


def _same_level(sql: str) -> str:
    """The end of an SQL text from its last open parenthesis, without closed ones."""
    while (shorter := _GROUP.sub("", sql)) != sql:
        sql = shorter
    return sql.rsplit("(", 1)[-1]


def watch(order: LockOrder) -> None:
    """Let every new connection report to ``order``."""

    def install(*, connection: BaseDatabaseWrapper, **_: Any) -> None:
        if order not in connection.execute_wrappers:
            connection.execute_wrappers.append(order)

    connection_created.connect(install, weak=False)
