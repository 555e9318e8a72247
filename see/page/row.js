// SPDX-License-Identifier: MIT
// One row of the list: its cells, made once and bound to one name after the other while the list scrolls. A cell whose value changes while
// its row stays with one name is tinted for a moment.

import { age, count, el, nameNodes, plainName, setText, svg, tokenNodes, whoNodes } from "./format.js";
import { mark } from "./marks.js";
import { judge } from "./order.js";
import { t } from "./text.js";

const TINT_MS = 600;
const BARS_MAX = 8;
export const calm = matchMedia("(prefers-reduced-motion: reduce)");

export class Row {
  constructor() {
    this.key = null;
    this.cells = {};
    this.seen = {};
    this.node = el("div.row");
    this.node.setAttribute("role", "row");
    for (const name of ["state", "name", "kind", "taken", "holder", "age", "token", "waiters", "spark"]) {
      const cell = el(`div.cell.c-${name}`);
      cell.setAttribute("role", "gridcell");
      this.cells[name] = cell;
      this.node.append(cell);
    }
  }

  // `row` may be null: the name is gone, and its place is kept while a person looks at the list.
  bind(key, row, store, now, room) {
    const same = this.key === key;
    if (!same) {
      this.seen = {};
      this.node.id = "";
    }
    this.key = key;
    this.row = row;
    this.store = store;
    this.node.classList.toggle("gone", !row);
    if (!row) return this.put("age", t("released"), same);
    this.node.dataset.state = row.state;
    this.put("state", row.state, same, () => [mark(row.state), el("span.sr", t(row.state))]);
    this.put("name", `${row.name}\n${row.name_hex ?? ""}\n${room}`, false, () => nameNodes(row, room));
    this.cells.name.title = plainName(row);
    this.put("kind", t(row.kind), false);
    this.put("taken", `${row.kind} ${row.taken}/${row.capacity} ${t("name")}`, same, () => taken(row));
    this.put("holder", `${row.state} ${row.holder?.label} ${row.holder?.pid} ${row.more_holders} ${t("name")}`, same, () => holder(row));
    this.put("token", row.token, false, () => tokenNodes(store.tokens ? row.token : ""));
    const waiters = !store.waiters_tracked ? "?" : row.waiters ? count(row.waiters) : "–";
    this.put("waiters", `${waiters} ${t("n_wait")}`, same, () => [el("b", waiters), el("span.word", ` ${t("n_wait")}`)]);
    this.cells.waiters.classList.toggle("none", !row.waiters);
    this.put("spark", (row.handovers ?? []).join(), false, () => [spark(row.handovers ?? [])]);
    this.tick(now);
  }

  // What changes by time alone.
  tick(now) {
    if (!this.row) return;
    const { text, tone } = ageOf(this.row, now);
    const cell = this.cells.age;
    if (!cell.firstChild || cell.firstChild.nodeType !== Node.ELEMENT_NODE) cell.replaceChildren(el("span.badge"));
    setText(cell.firstChild, text);
    const name = `badge ${tone}`;
    if (cell.firstChild.className !== name) cell.firstChild.className = name;
    this.seen.age = null;
  }

  put(name, value, tint, make) {
    if (this.seen[name] === value) return;
    const had = this.seen[name] !== undefined;
    this.seen[name] = value;
    if (make) this.cells[name].replaceChildren(...make());
    else this.cells[name].textContent = value;
    if (tint && had && !calm.matches) this.cells[name].animate([{ backgroundColor: "var(--tint)" }, { backgroundColor: "transparent" }], TINT_MS);
  }
}

export function ageOf(row, now) {
  if (row.state === "lost") return { text: t("lost_ago", age(now - (row.lost_at ?? now))), tone: "inverted" };
  if (row.state === "at_risk" && row.until !== null) return { text: t("left", age(row.until - now)), tone: "amber" };
  if (row.closed_until !== null && row.closed_until > now && !row.taken) return { text: t("closed_for", age(row.closed_until - now)), tone: "grey" };
  return { text: row.since === null ? "–" : age(now - row.since), tone: judge(row, now) };
}

// The capacity as bars: a box for each permit as long as they are few, else one bar that fills.
function taken(row) {
  if (row.kind === "rwlock") return [el("span.words", row.taken === 0 ? t("readers", 0) : row.taken >= row.capacity ? t("writer") : t("readers", count(row.taken)))];
  if (row.kind === "leader") return [el("span.words", row.taken ? t("leads") : "–")];
  const bars = el("span.bars");
  if (row.capacity <= BARS_MAX) {
    for (let i = 0; i < Math.max(1, row.capacity); i++) bars.append(el(i < row.taken ? "i.full" : "i"));
  } else {
    const fill = el("i.fill");
    fill.style.width = `${Math.min(100, (100 * row.taken) / row.capacity)}%`;
    bars.append(el("i.track", fill));
  }
  return [bars, el("span.of", `${count(row.taken)}/${count(row.capacity)}`)];
}

function holder(row) {
  if (!row.holder) return [el("span.dim", "–")];
  const nodes = whoNodes(row.holder);
  if (row.state === "idle") return [el("span.dim", `${t("idle_by")} `), ...nodes];
  if (row.state === "lost") nodes[0]?.classList.add("struck");
  if (row.more_holders > 0) nodes.push(el("span.where", `+${count(row.more_holders)}`));
  return nodes;
}

function spark(counts) {
  const most = Math.max(1, ...counts);
  let d = "";
  counts.slice(-24).forEach((value, i) => {
    if (value > 0) d += `M${i * 3 + 1} 16v-${Math.max(1.5, (15 * value) / most).toFixed(1)}`;
  });
  return svg("svg", { viewBox: "0 0 72 17", width: 72, height: 17, class: "spark", "aria-hidden": "true" }, svg("path", { d: "M0 16.5h72", class: "base" }), svg("path", { d, class: "bars" }));
}
