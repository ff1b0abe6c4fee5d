"""Picks with undo and redo, and their move to another version."""

from tests.browser.unit.conftest import Script
from tests.browser.unit.points import FRONT, PREPARE, with_front


def test_accepting_twice_on_a_screen_removes_the_pick(js: Script) -> None:
    script = (
        PREPARE
        + """model.draft.accept(10, "P-D", "placement 10");
        const accepted = model.draft.state.picks;
        model.draft.accept(10, "P-D", "placement 10");
        return [accepted, model.draft.state.picks, actions];"""
    )
    accepted, removed, actions = js(script, with_front())
    assert accepted == [{"point": 10, "screens": ["P-D"]}]
    assert removed == []
    assert actions == ["accept placement 10 on P-D", "no longer accept placement 10 on P-D"]


def test_a_pick_keeps_its_place_if_another_screen_is_added_or_removed(js: Script) -> None:
    script = (
        PREPARE
        + """const { draft } = model;
        for (const point of [10, 20]) draft.accept(point, "P-D", "it");
        draft.accept(10, "P-C", "it");
        const added = draft.state.picks;
        draft.accept(10, "P-D", "it");
        return [added, draft.state.picks, draft.byScreen];"""
    )
    added, removed, by_screen = js(script, with_front())
    assert added[0] == {"point": 10, "screens": ["P-D", "P-C"]}
    assert removed == [{"point": 10, "screens": ["P-C"]}, {"point": 20, "screens": ["P-D"]}]
    assert by_screen == {"P-D": [20], "P-C": [10], "D-C": []}


def test_accepting_a_rejected_placement_ends_its_rejection_and_vice_versa(js: Script) -> None:
    script = (
        PREPARE
        + """const { draft } = model;
        draft.reject([10], "it");
        draft.accept(10, "P-D", "it");
        const afterAccept = draft.state;
        draft.reject([10, 20], "both");
        return [afterAccept, draft.state];"""
    )
    accepted, rejected = js(script, with_front())
    assert (len(accepted["picks"]), accepted["rejected"]) == (1, [])
    assert (rejected["picks"], rejected["rejected"]) == ([], [10, 20])


def test_rejecting_again_undoes_it_only_if_all_are_rejected(js: Script) -> None:
    script = (
        PREPARE
        + """const { draft } = model;
        draft.reject([10], "it");
        draft.reject([10, 20], "both");
        const both = draft.state.rejected;
        draft.reject([10, 20], "both");
        return [both, draft.state.rejected, actions.at(-1)];"""
    )
    assert js(script, with_front()) == [[10, 20], [], "no longer reject both"]


def test_accepting_all_adds_only_what_is_missing(js: Script) -> None:
    script = (
        PREPARE
        + """const { draft } = model;
        draft.accept(10, "P-D", "it");
        draft.accept(20, "P-C", "it");
        draft.acceptAll([10, 20, 30], "P-D");
        return [draft.byScreen, actions.at(-1)];"""
    )
    by_screen, action = js(script, with_front())
    assert by_screen == {"P-D": [10, 20, 30], "P-C": [20], "D-C": []}
    assert action == "accept 2 placements on P-D"


def test_undo_and_redo_restore_states_and_a_change_ends_redo(js: Script) -> None:
    script = (
        PREPARE
        + """const { draft } = model;
        draft.undo();
        draft.accept(10, "P-D", "it");
        draft.accept(20, "P-D", "it");
        draft.undo();
        const undone = draft.byScreen["P-D"];
        draft.redo();
        const redone = draft.byScreen["P-D"];
        draft.undo();
        draft.accept(30, "P-D", "it");
        draft.redo();
        return [undone, redone, draft.byScreen["P-D"], draft.past.length];"""
    )
    assert js(script, with_front()) == [[10], [10, 20], [10, 30], 2]


def test_only_the_last_two_hundred_changes_can_be_undone(js: Script) -> None:
    script = (
        PREPARE
        + """for (let k = 0; k < 250; k += 1) model.draft.reject([10], "it");
        return model.draft.past.length;"""
    )
    assert js(script, with_front()) == 200


def test_a_draft_is_restored_in_the_same_tab_and_invalid_content_is_ignored(js: Script) -> None:
    script = (
        PREPARE
        + """model.draft.accept(10, "P-D", "it");
        const restored = new Draft("unit", () => {}).byScreen["P-D"];
        sessionStorage.setItem("berth-calibrate-unit", "{");
        return [restored, new Draft("unit", () => {}).isEmpty];"""
    )
    assert js(script, with_front()) == [[10], True]


def test_changes_of_deleted_versions_cannot_be_undone(js: Script) -> None:
    script = (
        PREPARE
        + """const { draft } = model;
        draft.amend({ version: 1 });
        draft.accept(10, "P-D", "it");
        draft.commit("switch", { version: 2 });
        const none = draft.keepVersions([0, 1, 2]);
        const some = draft.keepVersions([2]);
        return [none, some, draft.past.length];"""
    )
    assert js(script, with_front()) == [False, True, 0]


def test_a_set_is_loaded_with_its_screens_and_weights(js: Script) -> None:
    script = (
        PREPARE
        + """model.draft.load(argument.set, 3);
        const { version, rule, picks, direct, parent } = model.draft.state;
        return { version, rule, picks, direct, parent };"""
    )
    saved = {
        "id": "s",
        "name": "day",
        "rule": "spread",
        "picks": {"P-D": [10, 20], "D-C": [20]},
        "rejected": [],
        "wanted": {},
        "weights": {"P": 0.2, "D": 1, "C": 0.4},
    }
    assert js(script, with_front(set=saved)) == {
        "version": 3,
        "rule": "spread",
        "picks": [{"point": 10, "screens": ["P-D"]}, {"point": 20, "screens": ["P-D", "D-C"]}],
        "direct": {"P": 0.2, "D": 1, "C": 0.4},
        "parent": "s",
    }


# "gone" is no objective; a state stored by an earlier script has no bounds
STALE = {
    "version": 1,
    "picks": [{"point": 10, "screens": ["P-D", "P-gone"]}, {"point": 20, "screens": ["D-gone"]}],
    "bounds": {"P": 0.5, "gone": 0.2},
}
RESTORE = (
    PREPARE
    + """const text = JSON.stringify(argument.stored);
    sessionStorage.setItem("berth-calibrate-unit", text);
    const draft = new Draft("unit", () => {});
    const seen = ({ picks, bounds }) => ({ picks, bounds });
    const current = [seen(draft.state), draft.unknown];
    draft.undo();
    const earlier = seen(draft.state);
    draft.undo();
    return [...current, earlier, draft.state.bounds];"""
)


def test_a_stored_draft_is_restored_without_objectives_that_do_not_exist(js: Script) -> None:
    past = [
        {"action": "first", "state": {"version": 1, "picks": []}},
        {"action": "then", "state": STALE},
    ]
    stored = {"past": past, "future": [], "state": STALE}
    current, unknown, earlier, oldest = js(RESTORE, with_front(stored=stored))
    assert current == {"picks": [{"point": 10, "screens": ["P-D"]}], "bounds": {"P": 0.5}}
    assert unknown == ["gone"]
    assert earlier == current
    assert oldest == {}


def test_a_set_is_loaded_without_objectives_that_do_not_exist(js: Script) -> None:
    script = (
        PREPARE
        + """model.draft.load(argument.set, 1);
        const { picks, bounds } = model.draft.state;
        return [picks, bounds, model.draft.unknown];"""
    )
    saved = {
        "id": "s",
        "name": "cheap",
        "rule": "spread",
        "picks": {"P-D": [10], "P-lost": [10, 20]},
        "rejected": [],
        "wanted": {},
        "weights": {"P": 0.2, "D": 1, "C": 0.4},
        "bounds": {"C": 0.4, "gone": 0.2},
    }
    picks, bounds, unknown = js(script, with_front(set=saved))
    assert picks == [{"point": 10, "screens": ["P-D"]}]
    assert bounds == {"C": 0.4}
    assert sorted(unknown) == ["gone", "lost"]


MAPPING = (
    PREPARE
    + """const { mapSelection, pointMapper } = await load("calibrate/front_versions.js");
    const target = new Points(argument.target);
    const { map, counts } = pointMapper(model.points, target);
    return [mapSelection(argument.selection, map), counts];"""
)


def test_picks_move_to_the_same_placement_of_another_version(js: Script) -> None:
    renumbered = FRONT | {"index": [1, 2, 3, 4]}
    selection = {"picks": [{"point": 20, "screens": ["P-D"]}], "rejected": [30], "answers": []}
    moved, counts = js(MAPPING, with_front(target=renumbered, selection=selection))
    assert moved["picks"] == [{"point": 2, "screens": ["P-D"]}]
    assert moved["rejected"] == [3]
    assert counts == {"equal": 2, "moved": 0, "maxDistance": 0}


def test_picks_that_move_to_one_placement_are_merged(js: Script) -> None:
    single = {
        name: values[:1] if isinstance(values, list) else values for name, values in FRONT.items()
    } | {
        "raw": {o: [0] for o in "PDC"},
        "normalised": {"P": [0.1], "D": [0.1], "C": [0.5]},
    }
    selection = {
        "picks": [{"point": 10, "screens": ["P-D"]}, {"point": 20, "screens": ["P-D", "P-C"]}],
        "rejected": [30],
        "answers": [{"better": 10, "worse": 20, "skipped": False}],
    }
    moved, counts = js(MAPPING, with_front(target=single, selection=selection))
    assert moved == {
        "picks": [{"point": 10, "screens": ["P-D", "P-C"]}],
        "rejected": [],
        "answers": [],
    }
    assert (counts["equal"], counts["moved"]) == (1, 2)
