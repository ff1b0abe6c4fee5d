/* The search field of the top bar: matches while typing, arrows to choose, Enter to open. */
const input = document.getElementById("q");
const list = document.getElementById("found");
let timer = 0;
let asked = 0;

export function startSearch() {
  if (!input) return;
  input.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(look, 150); });
  input.addEventListener("keydown", keys);
  input.addEventListener("blur", () => setTimeout(hide, 150));
}

async function look() {
  const text = input.value.trim();
  if (text.length < 2) { hide(); return; }
  const mine = ++asked;
  const response = await fetch(`/search/?q=${encodeURIComponent(text)}`, { credentials: "same-origin" });
  if (!response.ok || mine !== asked) return;
  draw((await response.json()).results, text);
}

function draw(results, text) {
  list.replaceChildren();
  results.forEach((result, i) => {
    const item = document.createElement("li");
    item.id = `found-${i}`;
    item.setAttribute("role", "option");
    item.setAttribute("aria-selected", "false");
    item.dataset.url = result.url;
    const name = document.createElement("b");
    name.textContent = result.name;
    const what = document.createElement("span");
    what.className = "t3";
    what.textContent = result.what;
    item.append(name, what);
    item.addEventListener("mousedown", () => { location.href = result.url; });
    list.append(item);
  });
  if (!results.length) {
    const none = document.createElement("li");
    none.setAttribute("role", "option");
    none.setAttribute("aria-disabled", "true");
    none.textContent = `Nothing is called “${text}”. Enter searches the jobs.`;
    list.append(none);
  }
  list.hidden = false;
  input.setAttribute("aria-expanded", "true");
}

function keys(event) {
  const items = [...list.querySelectorAll("[data-url]")];
  const now = items.findIndex((item) => item.getAttribute("aria-selected") === "true");
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    if (!items.length) return;
    event.preventDefault();
    const next = (now + (event.key === "ArrowDown" ? 1 : -1) + items.length) % items.length;
    items.forEach((item, i) => item.setAttribute("aria-selected", String(i === next)));
    input.setAttribute("aria-activedescendant", items[next].id);
  } else if (event.key === "Enter" && now >= 0 && !list.hidden) {
    event.preventDefault();
    location.href = items[now].dataset.url;
  } else if (event.key === "Escape") {
    hide();
    input.blur();
  }
}

function hide() {
  list.hidden = true;
  input.setAttribute("aria-expanded", "false");
  input.removeAttribute("aria-activedescendant");
}
