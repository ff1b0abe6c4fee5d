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
    """Objects by key: uid or name.

    Attributes
    ----------
    read : makes a value of an object's JSON
    key : of a value
    version : resource version up to which it is complete; empty = list first
    is_current : whether the list was read and its watch is open
    unread : objects that could not be read, with the reason, by path; replaced by each change, so
        that other threads may iterate over it
    """

    read: Callable[[Mapping[str, Any]], T]
    key: Callable[[T], str]
    version: str = ""
    is_current: bool = False
    unread: Mapping[str, str] = field(default_factory=dict)
    _items: dict[str, T] = field(default_factory=dict)
    _deleted: dict[str, T] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def replace(self, objects: Iterable[Mapping[str, Any]], version: str) -> None:
        """Replace all objects by those of a list."""
        items, unread = {}, {}
        for data in objects:
            value, why = self._value(data)
            if value is None:
                unread[path_of(data)] = why
            else:
                items[self.key(value)] = value
        with self._lock:
            self._items, self.unread = items, unread
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
        value, why = (None, "") if kind == "BOOKMARK" else self._value(data)
        with self._lock:
            if value is not None:
                self._put(kind, value)
            elif kind == "DELETED":
                self._drop(data.get("metadata") or {})
            self._set_unread(path_of(data), "" if kind == "DELETED" else why)
            self.version = version or self.version

    def _drop(self, metadata: Mapping[str, Any]) -> None:
        """Delete an object that cannot be read; its last form is the last one that could."""
        for key in (metadata.get("uid"), metadata.get("name")):
            if key in self._items:
                self._put("DELETED", self._items[key])

    def _put(self, kind: str, value: T) -> None:
        key = self.key(value)
        if kind != "DELETED":
            self._items[key] = value
            return
        self._items.pop(key, None)
        self._deleted[key] = value
        if len(self._deleted) > MAX_DELETED:
            self._deleted.pop(next(iter(self._deleted)))

    def _value(self, data: Mapping[str, Any]) -> tuple[T | None, str]:
        """Return the value of an object, or why it cannot be read; it hides no other."""
        try:
            return self.read(data), ""
        except AnswerError as error:
            return None, str(error)

    def _set_unread(self, path: str, why: str) -> None:
        """Set why an object cannot be read; empty = it can, or it was deleted."""
        if why:
            self.unread = {**self.unread, path: why}
        elif path in self.unread:
            self.unread = {each: text for each, text in self.unread.items() if each != path}

    def expire(self) -> None:
        """Forget the version: the next step is a list."""
        self.version, self.is_current = "", False

    def items(self) -> dict[str, T]:
        """Return a copy of all objects."""
        with self._lock:
            return dict(self._items)

    def items_and_unread(self) -> tuple[dict[str, T], Mapping[str, str]]:
        """Return a copy of all objects, and what could not be read at the same time."""
        with self._lock:
            return dict(self._items), self.unread

    def deleted(self) -> dict[str, T]:
        """Return the objects whose deletion was seen, in their last form."""
        with self._lock:
            return dict(self._deleted)

    def forget(self, keys: Iterable[str]) -> None:
        """Drop deleted objects that are no longer needed."""
        with self._lock:
            for key in keys:
                self._deleted.pop(key, None)


def path_of(data: Mapping[str, Any]) -> str:
    """Return the namespace and name of an object, as in messages; of a node, its name."""
    metadata = data.get("metadata") or {}
    name, namespace = str(metadata.get("name")), metadata.get("namespace")
    return f"{namespace}/{name}" if namespace else name


def _error(status: Mapping[str, Any]) -> Exception:
    if status.get("code") == GONE:
        return ExpiredError(status.get("message") or "expired")
    return AnswerError(f"the watch failed: {status.get('code')} {status.get('message')!s:.200}")
