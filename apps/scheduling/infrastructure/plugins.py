"""Policies of other packages, by the entry point ``berth.policies``."""

from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from django.core.exceptions import ImproperlyConfigured

from apps.scheduling.core import registry
from apps.scheduling.core.registry import Entry

GROUP: Final = "berth.policies"


class PolicyPluginError(ValueError):
    """A package offers a policy that cannot be used."""


def load_policies() -> list[str]:
    """Add the policies of installed packages to the registry; returns their names.

    Raises
    ------
    PolicyPluginError : an entry point names no `Entry`, or a name that is taken.
    """
    found = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    for point in found:
        try:
            registry.add(point.name, _entry(point))
        except registry.NameTakenError as error:
            raise PolicyPluginError(f"{_where(point)}: {error}") from error
    return [point.name for point in found]


def require_policies(setting: str, names: Sequence[str]) -> None:
    """Check the policies that a setting names, after `load_policies`.

    Raises
    ------
    ImproperlyConfigured : names the setting, the unknown policies and the known ones.
    """
    unknown = [name for name in names if name not in registry.POLICIES]
    if unknown:
        known = ", ".join(sorted(registry.POLICIES))
        raise ImproperlyConfigured(f"{setting} must be among {known}, not {', '.join(unknown)!r}")


def _entry(point: EntryPoint) -> Entry:
    try:
        entry = point.load()
    except (ImportError, AttributeError) as error:
        raise PolicyPluginError(f"{_where(point)} cannot be imported: {error}") from error
    if not isinstance(entry, Entry):
        kind = type(entry).__name__
        raise PolicyPluginError(f"{_where(point)} must be a registry.Entry, not a {kind}")
    return entry


def _where(point: EntryPoint) -> str:
    package = point.dist.name if point.dist is not None else "a package"
    return f"policy {point.name!r} of {package} ({point.value})"
