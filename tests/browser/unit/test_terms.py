"""Definitions of terms on hover and focus."""

from typing import Any

from tests.browser.unit.conftest import Script

PAGE = """
    document.body.innerHTML = `<p><dfn class="term" tabindex="0"
        aria-description="The weighted sum">F</dfn> <button>other</button></p>`;
    const { startTerms } = await load("terms.js");
    startTerms();
    const word = document.querySelector(".term");
    const tip = document.querySelector(".term-tip");
    const shown = () => (tip.hidden ? null : tip.textContent);
"""


def results(js: Script, script: str) -> Any:
    return js(PAGE + script)


def test_focus_shows_the_definition_until_it_leaves(js: Script) -> None:
    script = """const before = shown();
        word.focus();
        const during = shown();
        document.querySelector("button").focus();
        return [before, during, shown()];"""
    assert results(js, script) == [None, "The weighted sum", None]


def test_the_pointer_shows_the_definition_and_escape_hides_it(js: Script) -> None:
    script = """word.dispatchEvent(new MouseEvent("mouseover", { bubbles: true }));
        const during = shown();
        document.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }));
        return [during, shown()];"""
    assert results(js, script) == ["The weighted sum", None]


def test_a_definition_in_a_dialog_is_above_it(js: Script) -> None:
    script = """const dialog = document.createElement("dialog");
        dialog.append(word);
        document.body.append(dialog);
        dialog.showModal();
        dialog.tabIndex = -1;
        dialog.focus();
        word.dispatchEvent(new MouseEvent("mouseover", { bubbles: true }));
        return [shown(), tip.parentNode === dialog];"""
    assert results(js, script) == ["The weighted sum", True]
