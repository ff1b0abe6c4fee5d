/* The search field of the top bar: results while typing, arrow keys to choose, Enter to open. */
const input = document.getElementById("q");
const list = document.getElementById("found");
let timer = 0;
let requests = 0; // only the answer to the last one is shown

export function startSearch() {
  if (!input) return;
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(search, 150);
  });
  input.addEventListener("keydown", keys);
  input.addEventListener("blur", () => setTimeout(hide, 150));
}

async function search() {
  const text = input.value.trim();
  if (text.length < 2) {
    hide();
    return;
  }
  requests += 1;
  const request = requests;
  const response = await fetch(`/search/?q=${encodeURIComponent(text)}`, { credentials: "same-origin" });
  if (!response.ok || request !== requests) return;
  showResults((await response.json()).results, text);
}

function showResults(results, text) {
  list.replaceChildren();
  results.forEach((result, i) => {
    const item = document.createElement("li");
    item.id = `found-${i}`;
    item.setAttribute("role", "option");
    item.setAttribute("aria-selected", "false");
    item.dataset.url = result.url;
    const name = document.createElement("b");
    name.textContent = result.name;
    const description = document.createElement("span");
    description.className = "t3";
    description.textContent = result.what;
    item.append(name, description);
    item.addEventListener("mousedown", () => {
      location.href = result.url;
    });
    list.append(item);
  });
  if (!results.length) {
    const empty = document.createElement("li");
    empty.setAttribute("role", "option");
    empty.setAttribute("aria-disabled", "true");
    empty.textContent = `No results for “${text}”. Press Enter to search the jobs.`;
    list.append(empty);
  }
  list.hidden = false;
  input.setAttribute("aria-expanded", "true");
}

function keys(event) {
  const items = [...list.querySelectorAll("[data-url]")];
  const current = items.findIndex((item) => item.getAttribute("aria-selected") === "true");
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    if (!items.length) return;
    event.preventDefault();
    const next = (current + (event.key === "ArrowDown" ? 1 : -1) + items.length) % items.length;
    for (const [i, item] of items.entries()) item.setAttribute("aria-selected", String(i === next));
    input.setAttribute("aria-activedescendant", items[next].id);
  } else if (event.key === "Enter" && current >= 0 && !list.hidden) {
    event.preventDefault();
    location.href = items[current].dataset.url;
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
