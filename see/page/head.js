// SPDX-License-Identifier: MIT
// The head of the page: the stores with their health, whether we are live, and the state filters of the list.

import { age, count, el, plainName, storeName } from "./format.js";
import { mark, STATES } from "./marks.js";
import { countOf, health, isKnown, namesOf } from "./store.js";
import { t } from "./text.js";

export class Head {
  // nodes: {stores, live, filters}; on.store(id), on.side(), on.state(state), on.retry()
  constructor(nodes, on) {
    Object.assign(this, { nodes, on, clocks: [], status: { state: "connecting" } });
    nodes.live.addEventListener("click", () => on.retry());
  }

  show(world, ui) {
    const shown = ui.side ? null : world.store(ui.store);
    Object.assign(this, { world, clocks: [], quiet: shown !== null && !shown.up }); // we hear the server, and it nothing of the store
    const tabs = world.stores.map((store, i) => this.tab(store, i, ui));
    if (world.stores.length > 1) {
      const side = el("button.store.all", el("span.line", mark("side", 14), el("b", t("side"))), el("span.line.dim", t("all_stores", world.stores.length)));
      side.setAttribute("aria-pressed", String(ui.side));
      side.addEventListener("click", () => this.on.side());
      tabs.push(side);
    }
    const focused = [...this.nodes.stores.children].indexOf(document.activeElement);
    this.nodes.stores.replaceChildren(...tabs);
    if (focused >= 0) tabs[focused]?.focus();
    this.tick();
  }

  tab(store, i, ui) {
    const state = health(store);
    const second = el("span.line.dim");
    const word = state === "away" ? "" : t(state); // of an outage the second line has the words
    const tab = el("button.store", el("span.line", el(`span.health.${state}`, mark(state, 14), el("span.sr", word)), el("b.split", ends(storeName(store))), el("span.names.dim", isKnown(store) ? count(namesOf(store)) : "–")), second);
    tab.setAttribute("aria-pressed", String(!ui.side && ui.store === store.id));
    tab.title = plainName({ name: store.location ?? "" });
    tab.addEventListener("click", () => this.on.store(store.id));
    this.clocks.push(() => {
      const where = plainName({ name: store.location ?? store.engine ?? "" });
      const rest = store.up ? (store.latency_us === null ? "" : latency(store.latency_us)) : t("away_for", age(this.world.clock() - (store.since ?? this.world.clock())));
      second.replaceChildren(el("span.address", store.up ? where : store.engine), el("span.rest", rest && ` · ${rest}`));
    });
    return tab;
  }

  setStatus(status) {
    this.status = status;
    this.tick();
  }

  tick() {
    for (const clock of this.clocks) clock();
    const { live } = this.nodes;
    const { state, until } = this.status;
    live.className = `live is-${state}${state === "live" && this.quiet ? " grey" : ""}`;
    live.disabled = state === "live";
    const text = state === "live" ? t("live") : state === "waiting" ? t("again_in", age(Math.max(1, Math.ceil((until - Date.now()) / 1000)) * 1000)) : state === "refused" ? t("token_title") : t("connecting");
    if (live.lastChild.textContent !== text) live.lastChild.textContent = text;
    live.title = state === "waiting" ? t("retry_now") : "";
  }

  filters(store, ui) {
    const chip = (state, number) => {
      const node = el("button.filter", state ? mark(state, 14) : "", t(state ?? "all"), " ", el("b", number === null ? "–" : count(number)));
      if (state) node.dataset.state = state;
      node.setAttribute("aria-pressed", String(ui.state === state));
      node.addEventListener("click", () => this.on.state(ui.state === state ? null : state));
      return node;
    };
    const known = store !== null && isKnown(store);
    const chips = [chip(null, known ? namesOf(store) : null)];
    for (const state of STATES) if (known && (countOf(store, state) > 0 || ui.state === state)) chips.push(chip(state, countOf(store, state)));
    const focused = [...this.nodes.filters.children].indexOf(document.activeElement);
    this.nodes.filters.replaceChildren(...chips);
    if (focused >= 0) chips[Math.min(focused, chips.length - 1)].focus();
  }
}

// A name that is too long loses its middle: what tells two servers on one machine apart is at the end.
function ends(name) {
  const characters = [...name];
  return [el("span.start", characters.slice(0, -7).join("")), el("span.end", characters.slice(-7).join(""))];
}

function latency(us) {
  if (us < 100) return "<0.1ms";
  return us < 1000 ? `${(us / 1000).toFixed(2).replace(/0$/, "")}ms` : us < 10000 ? `${(us / 1000).toFixed(1)}ms` : age(us / 1000);
}
