// SPDX-License-Identifier: MIT
// All stores side by side: for each its totals and the names that a person should see first. A click opens the store.

import { age, count, el, nameNodes, plainName, storeName, whoNodes } from "./format.js";
import { mark, STATES } from "./marks.js";
import { order } from "./order.js";
import { ageOf } from "./row.js";
import { countOf, health, isKnown, namesOf } from "./store.js";
import { t } from "./text.js";

const ROWS = 15;

export class Side {
  constructor(node, on) {
    Object.assign(this, { node, on, clocks: [] });
  }

  show(world) {
    this.clocks = [];
    this.node.replaceChildren(...world.stores.map((store) => this.column(store, world)));
    this.tick();
  }

  tick() {
    for (const clock of this.clocks) clock();
  }

  column(store, world) {
    const state = health(store);
    const open = el("button.plain.right", t("key_open"));
    open.addEventListener("click", () => this.on.open(store.id, null));
    const head = el("header", el(`span.health.${state}`, mark(state, 16)), el("h2", storeName(store)), el("span.tag", store.engine), open);
    const panel = el(store.up ? "section.panel" : "section.panel.stale", head);
    panel.append(el("div.totals", el("span", el("b", isKnown(store) ? count(namesOf(store)) : "–"), ` ${t("n_names")}`), ...STATES.filter((each) => countOf(store, each) > 0).map((each) => {
      const total = el("span.total", mark(each, 12), `${t(each)} `, el("b", count(countOf(store, each))));
      total.dataset.state = each;
      return total;
    })));
    if (!store.up) panel.append(this.away(store, world));
    const keys = order(store, { now: world.now(store) }).slice(0, ROWS);
    if (!keys.length && isKnown(store)) panel.append(el("p.quiet", t("empty")));
    for (const key of keys) panel.append(this.row(store, store.rows.get(key), world));
    if (store.rows.size > keys.length) panel.append(el("p.quiet", t("more", count(store.rows.size - keys.length))));
    return panel;
  }

  away(store, world) {
    const text = el("p.away");
    this.clocks.push(() => {
      const now = world.clock();
      const next = store.next_try === null || store.next_try <= now ? t("trying") : t("trying_in", age(Math.ceil((store.next_try - now) / 1000) * 1000));
      text.textContent = t("away", storeName(store), age(now - (store.since ?? now)), next);
    });
    return text;
  }

  row(store, row, world) {
    const badge = el("span.badge");
    const line = el("button.side-row", mark(row.state, 14), el("span.sr", t(row.state)), el("b", nameNodes(row, 24)), el("span.who", row.holder ? whoNodes(row.holder) : "–"), badge, el("span.num", row.waiters ? count(row.waiters) : "–"));
    line.dataset.state = row.state;
    line.title = plainName(row);
    line.addEventListener("click", () => this.on.open(store.id, row.key));
    this.clocks.push(() => {
      const { text, tone } = ageOf(row, world.now(store));
      badge.textContent = text;
      badge.className = `badge ${tone}`;
    });
    return line;
  }
}
