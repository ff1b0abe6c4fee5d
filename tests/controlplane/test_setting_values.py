"""Environment variables outside their range stop a process with a clear error."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from apps.emulation.core.worlds import WORLDS
from apps.scheduling.core.registry import POLICIES
from controlplane.settings.values import choice, number, whole
from tests.controlplane.test_settings import DEPLOYMENT, manage


def test_values_in_range_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTH_X", "1e3")
    assert number("BERTH_X", 5.0) == 1000.0
    assert whole("BERTH_X", 5) == 1000
    assert (number("BERTH_Y", 5.5), whole("BERTH_Y", 5)) == (5.5, 5)
    assert choice("BERTH_Y", "off", ("off", "on")) == "off"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("abc", "BERTH_X must be a number, not 'abc'"),
        ("", "BERTH_X must be a number, not ''"),
        ("nan", "BERTH_X must be a number, not 'nan'"),
        ("inf", "BERTH_X must be a number, not 'inf'"),
        ("-1", "BERTH_X must be from 0 to 1, not -1"),
        ("1.5", "BERTH_X must be from 0 to 1, not 1.5"),
    ],
)
def test_a_bad_number_is_named(monkeypatch: pytest.MonkeyPatch, text: str, message: str) -> None:
    monkeypatch.setenv("BERTH_X", text)
    with pytest.raises(ImproperlyConfigured) as caught:
        number("BERTH_X", 0.5, high=1.0)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1.5", "BERTH_X must be an integer, not '1.5'"),
        ("many", "BERTH_X must be an integer, not 'many'"),
        ("0", "BERTH_X must be at least 1, not 0"),
    ],
)
def test_a_bad_integer_is_named(monkeypatch: pytest.MonkeyPatch, text: str, message: str) -> None:
    monkeypatch.setenv("BERTH_X", text)
    with pytest.raises(ImproperlyConfigured) as caught:
        whole("BERTH_X", 3, low=1)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("name", "accepted"),
    [
        ("BERTH_PREEMPTION", "off, previewed, automatic"),
        ("BERTH_ADMISSION", "none, count, tarcil_lsh, arq"),
    ],
)
def test_no_process_starts_with_an_unknown_choice(name: str, accepted: str) -> None:
    done = manage({**DEPLOYMENT, name: "perhaps"}, "check")
    assert done.returncode != 0
    assert f"{name} must be one of {accepted}, not 'perhaps'" in done.stderr


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("BERTH_HTTPS", "true", "must be one of 0, 1, not 'true'"),
        ("BERTH_METRICS_OPEN", "yes", "must be one of 0, 1, not 'yes'"),
        ("BERTH_WORLD", "flat", "must be one of measured, paper, not 'flat'"),
        ("BERTH_LOG_LEVEL", "LOUD", "must be one of DEBUG, INFO, WARNING, ERROR, CRITICAL, not"),
        ("BERTH_EVENT_DAYS", "week", "must be a number, not 'week'"),
        ("BERTH_EVENT_DAYS", "1e300", "must be from 0 to 100000, not 1e+300"),
        ("BERTH_PROFILES_KEPT", "0.5", "must be an integer, not '0.5'"),
        (
            "BERTH_TRUSTED_PROXIES",
            "10.0.0.1/8",
            "must be addresses and networks, comma separated, not '10.0.0.1/8': 10.0.0.1/8 has",
        ),
    ],
)
def test_no_process_starts_with_a_malformed_value(name: str, value: str, message: str) -> None:
    done = manage({**DEPLOYMENT, name: value}, "check")
    assert done.returncode != 0
    assert f"{name} {message}" in done.stderr


@pytest.mark.parametrize("name", ["BERTH_POLICY", "BERTH_JOB_POLICIES"])
def test_no_process_starts_with_an_unknown_policy(name: str) -> None:
    done = manage({**DEPLOYMENT, name: "expectd"}, "check")
    assert done.returncode != 0
    assert f"{name} must be among {', '.join(sorted(POLICIES))}, not 'expectd'" in done.stderr


def test_no_process_starts_with_an_unknown_stressor() -> None:
    done = manage({**DEPLOYMENT, "BERTH_PROBE_STRESSORS": "core,tbl"}, "check")
    assert done.returncode != 0
    known = "BERTH_PROBE_STRESSORS: no stressor is named tbl; there are core, "
    assert known in done.stderr


def test_the_worlds_that_a_setting_accepts_are_those_that_exist() -> None:
    assert [manage({**DEPLOYMENT, "BERTH_WORLD": w}, "check").returncode for w in WORLDS] == [0, 0]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("BERTH_AGENT_INTERVAL_S", "501", "must be from 0 to 500, not 501"),
        ("BERTH_AGENT_JITTER", "1", "must be from 0 to 0.9, not 1"),
        ("BERTH_AGENT_RETRIES", "-1", "must be from 0 to 100, not -1"),
        ("BERTH_AGENT_PATH_LIMIT", "0", "must be from 1 to 4096, not 0"),
        ("BERTH_AGENT_PATH_LIMIT", "2.5", "must be an integer, not '2.5'"),
    ],
)
def test_no_agent_starts_with_a_setting_outside_its_range(
    name: str, value: str, message: str
) -> None:
    done = manage({**DEPLOYMENT, name: value}, "check")
    assert done.returncode != 0
    assert f"{name} {message}" in done.stderr
