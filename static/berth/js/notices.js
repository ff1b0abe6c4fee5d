/* Short notices at the lower right; they say what happened and go away. */
const host = document.getElementById("toasts");

function icon(name, tone) {
  const NS = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(NS, "svg");
  svg.setAttribute("class", `ic ${tone}`);
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(NS, "use");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}

export function toast(text, { tone = "ok", link = null, stays = false } = {}) {
  const box = document.createElement("div");
  box.className = "toast";
  const words = document.createElement("span");
  words.textContent = text;
  if (link) {
    const a = document.createElement("a");
    a.href = link.href;
    a.textContent = link.text;
    words.append(" ", a);
  }
  const close = document.createElement("button");
  close.type = "button";
  close.className = "btn quiet small icon";
  close.setAttribute("aria-label", "Close");
  close.append(icon("x", ""));
  close.addEventListener("click", () => box.remove());
  box.append(icon(tone === "ok" ? "check" : "trib", tone), words, close);
  host.append(box);
  if (!stays) setTimeout(() => box.remove(), 6000);
}

/* What a problem document says, as one sentence with its request id. */
export function problemText(problem) {
  const parts = [problem.title, problem.detail].filter(Boolean).join(": ");
  return problem.request_id ? `${parts} (request ${problem.request_id})` : parts;
}

export { icon };
