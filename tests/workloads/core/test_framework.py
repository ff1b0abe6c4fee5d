import pytest

from apps.workloads.core.framework import (
    DEFAULT_SETTING,
    LABELS,
    SETTINGS,
    Setting,
    setting_named,
)

GB = 10**9


def test_every_setting_is_found_by_its_label() -> None:
    assert [setting_named(label) for label in LABELS] == list(SETTINGS)
    assert len(set(LABELS)) == 18


def test_labels_fit_a_column() -> None:
    assert Setting(2, GB // 2, is_compressed=True).label == "2x0.5GB+lz4"
    assert DEFAULT_SETTING.label == "1x1GB"


def test_memory_is_that_of_all_tasks_of_a_core() -> None:
    assert Setting(4, 2 * GB, is_compressed=False).memory_bytes == 8 * GB


def test_a_setting_has_a_description() -> None:
    assert Setting(2, GB // 2, is_compressed=True).description == (
        "2 tasks a core, 0.5 GB heap each, compressed"
    )
    assert DEFAULT_SETTING.description == "1 task a core, 1 GB heap each, not compressed"


def test_an_unknown_setting_is_named() -> None:
    with pytest.raises(ValueError, match="'3x1GB'"):
        setting_named("3x1GB")
