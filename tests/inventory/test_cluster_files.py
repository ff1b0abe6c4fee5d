"""Cluster files on disk: JSON and YAML, and the position of syntax errors."""

from pathlib import Path

import pytest

from apps.inventory.files import ClusterFileError, read_document

YAML = "name: quay\nplatforms:\n- {name: a, cores: 1_000}\n"
JSON = '{"name": "quay", "platforms": [{"name": "a", "cores": 1000}]}'
READ = {"name": "quay", "platforms": [{"name": "a", "cores": 1000}]}


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("c.json", JSON),
        ("c.JSON", f"\n\n{JSON}"),
        ("c.yaml", YAML),
        ("c.yml", JSON),  # JSON is YAML
        ("cluster", JSON),
        ("cluster", YAML),
        ("c.txt", b"\xef\xbb\xbf" + YAML.encode()),
        ("c.txt", f"---\n{YAML}"),
    ],
)
def test_json_and_yaml_are_read(tmp_path: Path, name: str, content: str | bytes) -> None:
    assert read_document(written(tmp_path, name, content)) == READ


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("c.json", '{\n"name": "a",\n}', "c.json, line 3, column 1: "),
        ("c.json", YAML, "c.json, line 1, column 1: Expecting value"),
        ("c.json", "", "c.json, line 1, column 1: Expecting value"),
        ("c.yaml", "name: quay\nplatforms: [a\n", "c.yaml, line 3, column 1: "),
        ("c.yaml", "name: quay\n\tplatforms: a\n", "c.yaml, line 2, column 1: "),
        ("c.yaml", "name: quay\nrack: a\0b\n", "c.yaml, line 2: special characters"),
        ("c.yaml", "a: 1\nb: !!python/object:os.system x\n", "c.yaml, line 2, column 4: "),
        ("c.yaml", "a: 1\nb: 2024-13-45\n", "c.yaml, line 2, column 4: this value cannot be read"),
        ("c.yaml", "a: !!bool x\n", "c.yaml, line 1, column 4: this value cannot be read"),
        ("c.yaml", "a: *b\n", "c.yaml, line 1, column 4: found undefined alias"),
        ("c.yaml", "? [a]\n: b\n", "c.yaml, line 1, column 3: found unhashable key"),
        ("c.yaml", f"a: 1\nb: {'9' * 5000}\n", "c.yaml, line 2, column 4: this value cannot"),
        ("c.yaml", "a: 1\nb: 2\na: 3\n", "c.yaml, line 3, column 1: the field 'a' occurs twice"),
        ("c.yaml", "a: 1\n---\nb: 2\n", "c.yaml, line 2, column 1: "),
        ("c.json", '{"a": 1, "b": {"c": 1, "c": 2}}', "c.json: the field 'c' occurs twice"),
        ("c.json", f'{{"a": {"9" * 5000}}}', "c.json: Exceeds the limit"),
        ("c.json", "[" * 100_000, "c.json is nested too deeply"),
        ("c.yaml", "[" * 5_000, "c.yaml is nested too deeply"),
        ("c", b"name: a\nrack: \xff\n", "c, line 2: this is not UTF-8 text"),
    ],
    ids=range(19),
)
def test_a_broken_file_is_named_with_its_line(
    tmp_path: Path, name: str, content: str | bytes, message: str
) -> None:
    with pytest.raises(ClusterFileError) as caught:
        read_document(written(tmp_path, name, content))
    assert str(caught.value).startswith(f"{tmp_path}/{message}")
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ClusterFileError, match=r"cannot read .*/none.yaml: No such file"):
        read_document(tmp_path / "none.yaml")


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ClusterFileError, match=r"cannot read .*: Is a directory"):
        read_document(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        "a: &a {x: 1}\nb: {<<: *a, x: 2}\n",
        "a: &a {x: 1}\nd: {e: &e {<<: *a, x: 2}}\nb: {<<: *e}\n",  # e is created after b
    ],
)
def test_a_merge_key_is_not_a_duplicate_field(tmp_path: Path, content: str) -> None:
    assert read_document(written(tmp_path, "c.yaml", content))["b"] == {"x": 2}
