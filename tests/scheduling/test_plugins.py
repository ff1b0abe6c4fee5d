"""Policies of other packages, by entry point."""

from collections.abc import Iterator
from importlib.metadata import EntryPoint

import pytest

from apps.scheduling.core import registry
from apps.scheduling.core.policy_errors import PolicyFailedError
from apps.scheduling.core.registry import POLICIES, Entry
from apps.scheduling.core.tarcil.job_sampling import job_limits
from apps.scheduling.infrastructure import plugins
from apps.scheduling.infrastructure.plugins import PolicyPluginError, load_policies
from apps.testbed.core.lab_options import OPTIONS
from controlplane.embedded.launcher import check_policy
from controlplane.embedded.processes import LauncherError
from tests.scheduling import policies_that_fail
from tests.scheduling.policies_that_fail import Theirs

OURS = Entry(lambda: Theirs("none"), "a test", "a coin")
NOT_AN_ENTRY = 3


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = dict(POLICIES)
    yield
    POLICIES.clear()
    POLICIES.update(before)


def offered(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """Install a package with one entry point."""
    point = EntryPoint(name, f"tests.scheduling.test_plugins:{value}", "berth.policies")
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point] * (group == point.group))


def test_an_installed_policy_is_in_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    offered(monkeypatch, "theirs", "OURS")
    assert load_policies() == ["theirs"]
    assert load_policies() == ["theirs"]  # twice is harmless
    assert registry.POLICIES["theirs"] is OURS
    assert registry.make("theirs").version >= 1


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("tarcil", "OURS", "another policy is called 'tarcil'"),
        ("theirs", "NOT_AN_ENTRY", "must be a registry.Entry, not a int"),
        ("theirs", "MISSING", "cannot be imported"),
    ],
    ids=["taken", "kind", "missing"],
)
def test_an_unusable_policy_is_refused_with_its_package(
    name: str, value: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    offered(monkeypatch, name, value)
    with pytest.raises(PolicyPluginError, match=sentence):
        load_policies()


def test_a_policy_must_have_its_name_in_the_registry() -> None:
    registry.add("renamed", OURS)
    sentence = "the policy renamed failed with ValueError: its name is 'theirs', and 'renamed' in"
    with pytest.raises(PolicyFailedError) as error:
        registry.make("renamed")
    assert error.value.detail.startswith(sentence)


def test_an_installed_policy_can_be_the_default_and_compared_in_the_lab(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    offered(monkeypatch, "theirs", "OURS")
    check_policy("theirs")
    assert OPTIONS["policy"].accepts("theirs")
    assert "theirs" in job_limits([], 32).policies
    with pytest.raises(LauncherError, match="Unknown policy 'other'"):
        check_policy("other")


@pytest.mark.parametrize("fault", ["cannot-be-made", "lacks-a-field", "version-0"])
def test_a_policy_that_cannot_be_made_is_left_out_of_the_sampling_policies(
    monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    policies_that_fail.install(monkeypatch, "theirs", fault)
    limits = job_limits([], 32)
    assert "theirs" in limits.policies
    assert "theirs" not in limits.sampling_policies
    assert {"tarcil", "quietest"} <= {*limits.sampling_policies}
    assert registry.sampling_policy("theirs") == registry.SAMPLING
    with pytest.raises(PolicyFailedError) as error:
        registry.make("theirs")
    assert error.value.detail == policies_that_fail.FAULTS[fault]


def test_a_start_with_an_unusable_policy_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    offered(monkeypatch, "theirs", "MISSING")
    with pytest.raises(LauncherError, match="cannot be imported"):
        check_policy("tarcil")
