/* Live regions: elements with an id and data-live are replaced from a fresh copy of the page.

   A region with data-version holds charts, which change it after it is loaded: it is replaced only when its version
   changes. */
let busy = false;

export async function refreshRegions(url = location.href) {
  const regions = document.querySelectorAll("[data-live][id]");
  if (busy || !regions.length) return;
  busy = true;
  try {
    const response = await fetch(url, { credentials: "same-origin", headers: { "X-Berth-Refresh": "1" } });
    if (response.redirected && new URL(response.url).pathname === "/login/") {
      location.reload();
      return;
    }
    if (!response.ok) throw new Error(`HTTP ${response.status}`);
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    for (const region of regions) patch(region, fresh.getElementById(region.id));
    document.dispatchEvent(new CustomEvent("berth:patched"));
  } finally {
    busy = false;
  }
}

function patch(old, fresh) {
  if (!fresh || isCurrent(old, fresh)) return;
  const focused = old.contains(document.activeElement) ? pathTo(old, document.activeElement) : null;
  const checked = new Set([...old.querySelectorAll("input[type=checkbox]:checked")].map((box) => box.value));
  old.replaceChildren(...document.importNode(fresh, true).childNodes);
  if (fresh.dataset.version) old.dataset.version = fresh.dataset.version;
  for (const box of old.querySelectorAll("input[type=checkbox]")) if (checked.has(box.value)) box.checked = true;
  if (focused) at(old, focused)?.focus({ preventScroll: true });
}

function isCurrent(old, fresh) {
  if (fresh.dataset.version) return old.dataset.version === fresh.dataset.version;
  return old.innerHTML === fresh.innerHTML;
}

function pathTo(root, node) {
  const path = [];
  for (let at = node; at !== root; at = at.parentNode) path.unshift([...at.parentNode.children].indexOf(at));
  return path;
}

function at(root, path) {
  return path.reduce((node, index) => node?.children[index], root);
}
