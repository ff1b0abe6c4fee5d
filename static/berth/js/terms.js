/* Terms of the glossary: hover, focus or touch shows the definition of a word, Esc hides it. */
import { element } from "./dom.js";

const GAP = 6; // px between the word and its definition
const tip = element("div", "", "term-tip", { "aria-hidden": "true" });
let shown = null; // the word whose definition is shown

export function startTerms() {
  tip.hidden = true;
  document.body.append(tip);
  for (const name of ["mouseover", "focusin", "click"]) document.addEventListener(name, showAtTarget);
  document.addEventListener("mouseout", (event) => {
    if (event.target === shown && document.activeElement !== shown) hide();
  });
  document.addEventListener("focusout", hide);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
  });
  window.addEventListener("scroll", hide, { capture: true, passive: true });
}

function showAtTarget({ target }) {
  const word = target.closest?.(".term");
  if (word && word !== shown) show(word);
}

/* The definition is in the top layer if the word is in a dialog, which would cover it. */
function show(word) {
  shown = word;
  tip.textContent = word.getAttribute("aria-description");
  (word.closest("dialog") ?? document.body).append(tip);
  tip.hidden = false;
  const [at, size] = [word.getBoundingClientRect(), tip.getBoundingClientRect()];
  const width = document.documentElement.clientWidth;
  const below = at.bottom + GAP + size.height <= window.innerHeight;
  tip.style.left = `${Math.max(GAP, Math.min(at.left, width - size.width - GAP))}px`;
  tip.style.top = `${below ? at.bottom + GAP : Math.max(GAP, at.top - GAP - size.height)}px`;
}

function hide() {
  shown = null;
  tip.hidden = true;
}
