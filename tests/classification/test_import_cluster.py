"""``import_cluster``: creates the cluster of a file once, or reports all errors of the file."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from apps.inventory.models import Change, Cluster, Platform, Rack, ResourceUnit, Server
from tests import factories

pytestmark = pytest.mark.django_db

KIND: dict[str, Any] = {
    "cores": 2, "memory_bytes": 10**9, "network_bps": 10**9, "storage_bytes": 10**10,
    "idle_watts": 10, "peak_watts": 20,
}  # fmt: skip
BIG, SMALL = {**KIND, "name": "big"}, {**KIND, "name": "small"}
ONE = {"name": "a", "platform": "big", "rack": "r1"}
TWO = {"name": "b", "platform": "small", "rack": "r1", "labels": {"zone": "w"}}
DATA: dict[str, Any] = {"name": "quay", "platforms": [BIG, SMALL], "servers": [ONE, TWO]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cluster.json"


def run(path: Path, data: Any = DATA, **options: Any) -> list[str]:
    """Import a document; return the output lines of the command."""
    path.write_text(json.dumps(data))
    out = StringIO()
    call_command("import_cluster", path, stdout=out, **options)
    return out.getvalue().splitlines()


def refused(path: Path, data: Any) -> list[str]:
    """Import an invalid document; return the lines of the error."""
    with pytest.raises(CommandError) as caught:
        run(path, data)
    return str(caught.value).splitlines()


def test_servers_are_added_once(path: Path) -> None:
    assert run(path)[0] == "2 servers added, 0 already exist"
    assert run(path)[0] == "0 servers added, 2 already exist"
    third = {**ONE, "name": "c"}
    more = {**DATA, "servers": [ONE, TWO, third]}
    assert run(path, more)[0] == "1 servers added, 2 already exist"
    assert (Server.objects.count(), ResourceUnit.objects.count()) == (3, 6)
    assert Cluster.objects.get().name == "quay"
    assert Server.objects.get(name="b").labels == {"zone": "w"}


def test_yaml_files_are_accepted(tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "docs" / "cluster-file.md"
    text = example.read_text().split("```yaml\n")[1].split("```")[0]
    (tmp_path / "my.yaml").write_text(text)
    out = StringIO()
    call_command("import_cluster", tmp_path / "my.yaml", stdout=out)
    assert out.getvalue().startswith("4 servers added, 0 already exist")


def test_a_dry_run_changes_nothing(path: Path) -> None:
    assert run(path, dry_run=True) == ["2 servers would be added, 0 already exist"]
    assert [m.objects.count() for m in (Platform, Rack, Server, Change)] == [0, 0, 0, 0]
    run(path, {**DATA, "servers": [ONE]})
    assert run(path, dry_run=True) == ["1 servers would be added, 1 already exist"]


def test_every_problem_is_listed_and_nothing_is_imported(path: Path) -> None:
    bad = {**DATA, "platforms": [{**BIG, "cores": 0}, SMALL], "servers": [ONE, {**TWO, "rack": 1}]}
    assert refused(path, bad) == [
        f"{path} cannot be imported:",
        "  /platforms/0/cores: expected a whole number from 1 to 4,096, got 0",
        "  /servers/1/rack: expected a text of 1 to 63 printable characters, got 1 "
        "(a number; write it in quotes)",
    ]
    assert not Platform.objects.exists()


def test_at_most_fifty_problems_are_listed(path: Path) -> None:
    lines = refused(path, {**DATA, "servers": [7] * 120})
    assert len(lines) == 52
    assert lines[-1] == "  ... and 70 more problems"


def test_an_unreadable_file_is_a_one_line_error(path: Path) -> None:
    path.write_text('{"name": }')
    with pytest.raises(CommandError, match=r"cluster.json, line 1, column 10: Expecting value"):
        call_command("import_cluster", path)


def test_a_document_that_is_not_an_object_is_one_problem_of_the_whole_file(path: Path) -> None:
    assert refused(path, [])[1].startswith("  (whole file): expected an object")


def test_contradictions_to_existing_servers_are_refused(path: Path) -> None:
    run(path)
    bad = {
        **DATA,
        "platforms": [{**BIG, "cores": 4, "peak_watts": 30}, SMALL],
        "servers": [{**ONE, "platform": "small", "rack": "r9"}, {**TWO, "name": "c"}],
    }
    assert refused(path, bad)[1:] == [
        "  /platforms/0/cores: expected 2 as in the inventory (or a new name), got 4",
        "  /platforms/0/peak_watts: expected 20.0 as in the inventory (or a new name), got 30.0",
        "  /servers/0/platform: expected 'big' as in the inventory (or a new name), got 'small'",
        "  /servers/0/rack: expected 'r1' as in the inventory (or a new name), got 'r9'",
    ]
    assert Server.objects.count() == 2


def test_platforms_missing_from_the_library_are_named(path: Path) -> None:
    message = run(path)
    assert message[1] == "The library of profiled applications does not cover: big, small."
    assert "manage.py profile_library" in message[2]
    factories.library(("big",))
    assert run(path)[1] == "The library of profiled applications does not cover: small."
    factories.library(("big", "small"))
    assert len(run(path)) == 1


def test_the_largest_numbers_can_be_stored(path: Path) -> None:
    limits = dict.fromkeys(("memory_bytes", "network_bps", "storage_bytes"), 2**53)
    huge = {**BIG, **limits, "cores": 4096, "idle_watts": 10**6, "peak_watts": 10**6}
    name = "ö" * 63
    labels = {f"k{i}": "x" * 255 for i in range(64)}
    servers = [{"name": name, "platform": "big", "rack": name, "labels": labels}]
    run(path, {"name": name, "platforms": [huge], "servers": servers})
    server = Server.objects.get()
    assert (server.cores, server.memory_bytes, server.name) == (4096, 2**53, name)
    assert server.units.count() == 4096
