"""The copy of a list of objects that a watch keeps up to date; pure, with a lock around it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final, Generic, TypeVar

from apps.execution.core.kubernetes.answers import AnswerError

T = TypeVar("T")
GONE: Final = 410
MAX_DELETED: Final = 10_000  # kept until they are read


class ExpiredError(Exception):
    """The resource version is too old for a watch: list again."""


@dataclass
class Mirror(Generic[T]):
    """Objects by key.

    Attributes
    ----------
    read : makes a value of an object's JSON
    key : of a value
    version : resource version up to which it is complete; empty = list first
    is_current : whether the list was read and its watch is open
    unread : objects that could not be read, with the reason, by name
    """

    read: Callable[[Mapping[str, Any]], T]
    key: Callable[[T], str]
    version: str = ""
    is_current: bool = False
    unread: dict[str, str] = field(default_factory=dict)
    _items: dict[str, T] = field(default_factory=dict)
    _deleted: dict[str, T] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def replace(self, objects: Iterable[Mapping[str, Any]], version: str) -> None:
        """Replace all objects by those of a list."""
        items = [value for each in objects if (value := self._value(each)) is not None]
        with self._lock:
            self._items = {self.key(value): value for value in items}
            # a list tells which objects are missing, and not how they ended
            self.version, self.is_current = version, True

    def apply(self, event: Mapping[str, Any]) -> None:
        """Apply one event of a watch.

        Raises
        ------
        ExpiredError : it says that the version of the watch is too old.
        AnswerError : it is another error.
        """
        kind, data = event["type"], event["object"]
        if kind == "ERROR":
            raise _error(data)
        version = (data.get("metadata") or {}).get("resourceVersion", "")
        value = None if kind == "BOOKMARK" else self._value(data)
        with self._lock:
            if value is not None:
                self._put(kind, value)
            self.version = version or self.version

    def _put(self, kind: str, value: T) -> None:
        key = self.key(value)
        if kind != "DELETED":
            self._items[key] = value
            return
        self._items.pop(key, None)
        self._deleted[key] = value
        if len(self._deleted) > MAX_DELETED:
            self._deleted.pop(next(iter(self._deleted)))

    def _value(self, data: Mapping[str, Any]) -> T | None:
        """Return the value of an object; one that cannot be read hides no other."""
        name = str((data.get("metadata") or {}).get("name"))
        try:
            value = self.read(data)
        except AnswerError as error:
            self.unread[name] = str(error)
            return None
        self.unread.pop(name, None)
        return value

    def expire(self) -> None:
        """Forget the version: the next step is a list."""
        self.version, self.is_current = "", False

    def items(self) -> dict[str, T]:
        """Return a copy of all objects."""
        with self._lock:
            return dict(self._items)

    def deleted(self) -> dict[str, T]:
        """Return the objects whose deletion was seen, in their last form."""
        with self._lock:
            return dict(self._deleted)

    def forget(self, keys: Iterable[str]) -> None:
        """Drop deleted objects that are no longer needed."""
        with self._lock:
            for key in keys:
                self._deleted.pop(key, None)


def _error(status: Mapping[str, Any]) -> Exception:
    if status.get("code") == GONE:
        return ExpiredError(status.get("message") or "expired")
    return AnswerError(f"the watch failed: {status.get('code')} {status.get('message')!s:.200}")
