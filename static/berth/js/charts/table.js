/* The data of a chart as a table and as files. */
import { element } from "../dom.js";
import { csv } from "../format.js";

/* Create or refresh the table of a chart. Returns its container. */
export function chartTable({ element: host, data }) {
  let box = host.querySelector(".chart-table");
  if (!box) {
    box = element("div", "", "chart-table table-wrap", { tabindex: "0", role: "region" });
    host.append(box);
  }
  box.setAttribute("aria-label", `Table: ${data.title}`);
  const table = element("table", "", "table tight");
  table.append(tableSection("thead", [data.table.head], "th"), tableSection("tbody", data.table.rows, "td"));
  box.replaceChildren(table);
  return box;
}

function tableSection(tag, rows, cellTag) {
  const section = element(tag);
  for (const values of rows) {
    const row = element("tr");
    for (const [i, value] of values.entries()) {
      const cell = element(cellTag, value, i ? "num" : "");
      if (cellTag === "th") cell.scope = "col";
      row.append(cell);
    }
    section.append(row);
  }
  return section;
}

export const chartCsv = ({ table }) => csv([table.head, ...table.rows]);

/* File name of an export, from the address of the figure. */
export const exportName = (address) =>
  address
    .replace(/^\/figures\//, "")
    .replace(/[^a-z0-9]+/gi, "-")
    .replace(/-$/, "");
