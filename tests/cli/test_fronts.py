"""Fronts, preference sets and weights from the command line."""

import json
from pathlib import Path

import pytest
import yaml

from apps.accounts.core.roles import Role
from apps.accounts.models import User
from apps.accounts.services import create_token, create_user, ensure_project
from apps.inventory.models import Rack
from apps.placement.core.problem.examples import InstanceSpec, generate_instance
from apps.placement.core.problem.instance_file import instance_to_json
from apps.placement.models import Activation, Front, PreferenceSet
from apps.placement.services.front.fronts import Workload, search_next_front
from controlplane.cli.errors import Exit
from tests import factories
from tests.cli.conftest import Berth, working
from tests.placement.api.test_preferences import constructed
from tests.placement.core.preference.test_weights import paper_front
from tests.placement.front_world import nothing_runs, searched_front, ticking

INSTANCE = generate_instance(
    InstanceSpec(containers=60, nodes=60, nodes_per_rack=20, largest=8), 2
)
FRONTS = "/api/v1/fronts/"
PAPER = ("--front", "f-0001", "--pick", "P-D=0,1,2", "--pick", "P-C=2,3,4", "--pick", "D-C=0,3,4")


@pytest.fixture
def user(transactional_db: None) -> User:
    ensure_project("default")
    factories.cluster(seen_cluster_s=500.0)
    return create_user(username="olga", password=None, role=Role.OPERATOR)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "instance.json"
    path.write_text(json.dumps(instance_to_json(INSTANCE)))
    return str(path)


def search() -> None:
    search_next_front(nothing_runs, clock=ticking())


# ---- fronts ----


def test_a_front_is_requested_and_shown(berth: Berth, file: str) -> None:
    code, out, _ = berth("fronts", "run", file, "--budget", "2s", "--seed", "7")
    assert (code, out) == (Exit.OK, "f-0001\n")
    front = Front.objects.get()
    assert (front.budget_s, front.seed, front.source) == (2.0, 7, "instance")
    shown = berth("fronts", "show", "f-0001")[1]
    assert "state     pending\n" in shown
    assert "source    instance: 60 containers, 60 nodes\n" in shown
    search()
    shown = berth("fronts", "show", str(front.pk))[1]
    assert "state     succeeded\n" in shown
    assert "11 points, complete" in shown
    assert "\nSlotRR  " in shown


def test_a_search_is_waited_for(berth: Berth, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    working(monkeypatch, FRONTS, search)
    code, out, _ = berth("fronts", "run", file, "--wait", "--timeout", "20s")
    assert code == Exit.OK
    assert out.startswith("f-0001: succeeded; 11 points, complete, hypervolume 0.")


def test_a_search_continues_after_a_timeout(berth: Berth, file: str) -> None:
    code, _, err = berth("fronts", "run", file, "--wait", "--timeout", "0.2s")
    assert code == Exit.TIMEOUT
    assert "the search is still pending" in err
    assert "berth fronts show f-0001" in err


def test_without_a_file_the_front_is_of_the_cluster(berth: Berth, user: User) -> None:
    assert berth("fronts", "run", "--at", "400", "--key", "k")[0] == Exit.OK
    assert berth("fronts", "run", "--at", "400", "--key", "k")[1] == "f-0001\n"
    front = Front.objects.get()
    assert (front.source, front.cluster_s) == ("cluster", 400.0)


def test_a_failed_front_shows_the_reason(
    berth: Berth, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(_: float | None) -> Workload:
        raise ZeroDivisionError

    def fail() -> None:
        search_next_front(unreadable, clock=ticking())

    working(monkeypatch, FRONTS, fail)
    code, out, _ = berth("fronts", "run", "--wait")
    assert (code, out) == (
        Exit.FAILED,
        "f-0001: The search failed with an internal error; see the log.\n",
    )


def test_an_invalid_instance_is_reported(berth: Berth, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"nodes": [], "containers": 5}')
    code, _, err = berth("fronts", "run", str(path))
    assert code == Exit.FAILED
    assert "/instance/containers: " in err
    assert berth("fronts", "run", str(path), "--at", "5")[0] == Exit.USAGE
    assert berth("fronts", "run", str(tmp_path / "none.json"))[0] == Exit.USAGE


def test_points_are_listed_and_limited(berth: Berth, user: User) -> None:
    searched_front(user, INSTANCE)
    out = berth("fronts", "points", "f-0001")[1]
    assert out.splitlines()[0].split()[:3] == ["POINT", "P", "(W)"]
    assert out.endswith("11 of 11 points of version 1\n")
    assert berth("fronts", "points", "f-0001", "--limit", "4")[1].endswith(
        "4 of 11 points of version 1\n"
    )
    heading = berth("fronts", "points", "f-0001", "--objectives", "M")[1].splitlines()[0]
    assert heading.split()[5:8] == ["M", "(containers)", "NODES"]
    listed = json.loads(berth("fronts", "points", "f-0001", "--version", "1", "-o", "json")[1])
    assert listed["index"] == list(range(11))


def test_fronts_are_listed_and_stopped(berth: Berth, user: User, file: str) -> None:
    searched_front(user, INSTANCE)
    berth("fronts", "run", file)
    rows = [line.split() for line in berth("fronts", "list")[1].splitlines()[1:]]
    assert [row[:2] for row in rows] == [["f-0002", "pending"], ["f-0001", "succeeded"]]
    assert berth("fronts", "stop", "f-0002")[:2] == (Exit.OK, "f-0002  cancelled\n")
    code, _, err = berth("fronts", "stop", "f-0002")
    assert code == Exit.CONFLICT
    assert "berth fronts show f-0002" in err
    assert berth("fronts", "list", "--state", "cancelled")[1].count("f-000") == 1


def test_an_unknown_front_is_not_found(berth: Berth, user: User) -> None:
    code, _, err = berth("fronts", "show", "f-0009")
    assert code == Exit.NOT_FOUND
    assert "berth fronts list" in err


# ---- preferences ----


def test_bounds_are_sent_shown_and_checked(
    berth: Berth, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched_front(user, INSTANCE)
    given = ("--front", "f-0001", "--weights", "1,0.1,0.1", "--bound", "P=0.01")
    out = berth("pref", "check", *given)[1]
    assert "! It breaks the bound on P; no placement of the front keeps it." in out
    berth("pref", "new", "thrifty", *given)
    assert "bounds        P 0.01\n" in berth("pref", "show", "thrifty")[1]
    with pytest.raises(SystemExit):
        berth("pref", "check", *given[:-1], "P")


@pytest.fixture
def paper(user: User) -> str:
    constructed(user, paper_front())
    return "f-0001"


def test_the_papers_picks_give_its_weights(berth: Berth, paper: str) -> None:
    code, out, _ = berth("pref", "derive", *PAPER)
    assert code == Exit.OK
    assert out.splitlines()[0].endswith("so diversity counts 4.5 × power.")
    rows = [line.split() for line in out.splitlines()[2:6]]
    assert [row[:2] for row in rows[1:]] == [["P", "0.2200"], ["D", "1.0000"], ["C", "0.3600"]]
    assert "5 placements picked; removing point " in out
    assert PreferenceSet.objects.count() == 0


def test_invalid_picks_are_named(berth: Berth, paper: str) -> None:
    code, _, err = berth("pref", "derive", "--front", paper, "--pick", "P-D=0,99")
    assert code == Exit.FAILED
    assert "/picks/P-D/1: placement 99 does not exist" in err
    with pytest.raises(SystemExit):
        berth("pref", "derive", "--pick", "0,1,2")
    with pytest.raises(SystemExit):
        berth("pref", "derive", "--weights", "1,2")


def test_the_solvers_placement_is_shown(berth: Berth, user: User) -> None:
    searched_front(user, INSTANCE)
    code, out, _ = berth("pref", "check", "--front", "f-0001", "--weights", "0.22,1,0.36")
    assert code == Exit.OK
    assert out.startswith("No placement was accepted")
    assert "proven optimal after" in out
    picks = ("--pick", "P-D=0,1,2", "--reject", "9")
    checked = yaml.safe_load(berth("pref", "check", "--front", "f-0001", *picks, "-o", "yaml")[1])
    assert checked["star"]["optimal"] is True


def test_sets_are_stored_listed_and_shown(berth: Berth, paper: str) -> None:
    code, out, _ = berth("pref", "new", "night", *PAPER, "--note", "quiet", "--reject", "5,6")
    assert (code, out) == (Exit.OK, "night: P 0.2200, D 1.0000, C 0.3600\n")
    berth("pref", "new", "day", "--weights", "1,2,4", "--parent", "night")
    shown = berth("pref", "show", "night")[1]
    assert "weight of D   1.0000\n" in shown
    assert "front         f-0001 version 1\n" in shown
    assert "picks on P-C  2, 3, 4\n" in shown
    assert "rejected      5, 6\n" in shown
    assert "given values  P 1, D 2, C 4\n" in berth("pref", "show", "day")[1]
    rows = [line.split() for line in berth("pref", "list")[1].splitlines()[1:]]
    assert [row[:4] for row in rows] == [
        ["day", "0.25", "0.50", "1.00"],
        ["night", "0.22", "1.00", "0.36"],
    ]
    code, _, err = berth("pref", "new", "night", "--weights", "1,1,1")
    assert code == Exit.CONFLICT
    assert "berth pref show night" in err


def test_weights_are_activated_and_reverted(berth: Berth, user: User) -> None:
    Rack.objects.create(name="rack-3")
    for name, weights in (("night", "1,1,1"), ("day", "0,1,0")):
        berth("pref", "new", name, "--weights", weights)
    assert berth("pref", "activate", "night", "-m", "calm")[0] == Exit.OK
    options = ("--rack", "rack-3", "--guard", "0.05:5min")
    code, out, _ = berth("pref", "activate", "day", "-m", "faster", *options)
    last = Activation.objects.latest("id")
    assert code == Exit.OK
    assert out == (
        "day is in force on rack-3, reverted if 5% fewer targets are met for 5.0 min"
        f" (activation {last.pk}): P 0.0000, D 1.0000, C 0.0000\n"
    )
    assert (last.guard_drop, last.guard_s, last.message) == (0.05, 300.0, "faster")
    assert berth("pref", "list")[1].splitlines()[1].startswith("*  day")
    code, out, err = berth("pref", "revert", "-m", "too hot")
    assert code == Exit.OK
    assert out.startswith("night is in force (activation ")
    assert f"reverting activation {last.pk}, day" in err
    code, _, err = berth("pref", "revert", str(last.pk), "-m", "again")
    assert code == Exit.CONFLICT
    assert "is not in force" in err


def test_reverting_without_weights_in_force_is_a_conflict(berth: Berth, user: User) -> None:
    code, _, err = berth("pref", "revert", "-m", "why not")
    assert (code, "no weights are in force" in err) == (Exit.CONFLICT, True)


@pytest.mark.parametrize("key", ["nobody", "0192d5a0-0000-7000-8000-000000000000"])
def test_an_unknown_set_is_not_found(berth: Berth, user: User, key: str) -> None:
    code, _, err = berth("pref", "activate", key, "-m", "m")
    assert code == Exit.NOT_FOUND
    assert f"preference set {key} not found" in err


def test_a_viewer_cannot_activate_weights(
    berth: Berth, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    berth("pref", "new", "night", "--weights", "1,1,1")
    vic = create_user(username="vic", password=None, role=Role.VIEWER)
    monkeypatch.setenv("BERTH_TOKEN", create_token(user=vic, name="cli").secret)
    assert berth("pref", "activate", "night", "-m", "m")[0] == Exit.AUTH
    assert berth("pref", "derive", "--weights", "1,1,1")[0] == Exit.OK
