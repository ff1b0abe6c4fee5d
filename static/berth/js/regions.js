/* Live regions: elements with an id and data-live fetch themselves. The server sends those that changed, and no page. */
const digests = new Map(); // of the content shown, by id
let busy = false;

export async function refreshRegions(url = location.href) {
  const regions = [...document.querySelectorAll("[data-live][id]")].filter((one) => !isInside(one));
  if (busy || !regions.length) return;
  busy = true;
  try {
    const known = regions.map(({ id }) => (digests.has(id) ? `${id}=${digests.get(id)}` : id));
    const response = await fetch(url, { credentials: "same-origin", headers: { "X-Berth-Regions": known.join(" ") } });
    if (response.redirected && new URL(response.url).pathname === "/login/") {
      location.reload();
      return;
    }
    if (!response.ok) throw new Error(`HTTP ${response.status}`);
    for (const [id, { html, digest }] of Object.entries((await response.json()).regions)) {
      patch(document.getElementById(id), html);
      digests.set(id, digest);
    }
    document.dispatchEvent(new CustomEvent("berth:patched"));
  } finally {
    busy = false;
  }
}

/* A region inside another one is refreshed with it. */
const isInside = (region) => Boolean(region.parentElement.closest("[data-live][id]"));

function patch(old, html) {
  const fresh = new DOMParser().parseFromString(`<template>${html}</template>`, "text/html").querySelector("template");
  if (!old || old.innerHTML === fresh.innerHTML) return;
  const focused = old.contains(document.activeElement) ? pathTo(old, document.activeElement) : null;
  const checked = new Set([...old.querySelectorAll("input[type=checkbox]:checked")].map((box) => box.value));
  old.replaceChildren(document.importNode(fresh.content, true));
  for (const box of old.querySelectorAll("input[type=checkbox]")) if (checked.has(box.value)) box.checked = true;
  if (focused) at(old, focused)?.focus({ preventScroll: true });
}
function pathTo(root, node) {
  const path = [];
  for (let at = node; at !== root; at = at.parentNode) path.unshift([...at.parentNode.children].indexOf(at));
  return path;
}

function at(root, path) {
  return path.reduce((node, index) => node?.children[index], root);
}
