/* Creating and finding elements. */
const SVG_NAMESPACE = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

/* An HTML element with text, class and attributes. */
export function element(tag, text = "", cls = "", attributes = {}) {
  const node = document.createElement(tag);
  if (text !== "") node.textContent = text;
  if (cls) node.className = cls;
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

/* An SVG element, appended to `parent` if there is one. */
export function svgElement(tag, attributes = {}, parent = null, text = null) {
  const node = document.createElementNS(SVG_NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== null) node.textContent = text;
  parent?.append(node);
  return node;
}

/* Show a text. Words that the page has a template of, such as term-gap, explain themselves. */
export function showExplained(node, text) {
  const part = (word) => byId(`term-${word}`)?.content.cloneNode(true) ?? word;
  node.replaceChildren(...text.split(/\b/).map(part));
}

export function icon(name, cls = "ic") {
  const svg = svgElement("svg", { class: cls, "aria-hidden": "true" });
  svgElement("use", { href: `#i-${name}` }, svg);
  return svg;
}

/* The value of a design token in the current theme. */
export const css = (token) => getComputedStyle(document.documentElement).getPropertyValue(`--${token}`).trim();

/* A function that runs `work` once, `ms` after its last call; `stop` cancels a pending run. */
export function debounce(work, ms) {
  let timer = 0;
  const later = (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...given), ms);
  };
  later.stop = () => clearTimeout(timer);
  return later;
}

/* A function that runs `work` at its first call only, and returns that result. */
export function once(work) {
  let result;
  return () => {
    result ??= work();
    return result;
  };
}

/* A table with column headings: `columns` are [text, class] pairs, `rows` are <tr> elements. */
export function dataTable(columns, rows, { cls = "table tight", caption = "" } = {}) {
  const table = element("table", "", cls);
  if (caption) table.append(element("caption", caption, "sr"));
  const headings = element("tr");
  headings.append(...columns.map(([text, columnClass]) => element("th", text, columnClass, { scope: "col" })));
  const [head, body] = [element("thead"), element("tbody")];
  head.append(headings);
  body.append(...rows);
  table.append(head, body);
  return table;
}

/* A container that scrolls sideways and can be reached by keyboard. */
export function scrollRegion(label, content, cls = "table-wrap") {
  const box = element("div", "", cls, { tabindex: "0", role: "region", "aria-label": label });
  box.append(content);
  return box;
}

/* A definition list of [name, value] pairs. */
export function definitionList(pairs, cls = "kv") {
  const list = element("dl", "", cls);
  for (const [name, value] of pairs) list.append(element("dt", name), element("dd", value));
  return list;
}
