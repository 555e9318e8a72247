// SPDX-License-Identifier: MIT
// The strip below the head: deadlocks and what doctor found, worst first, as short chips; and the whole list of findings.

import { age, clock, count, el, plainName, storeName, whoText } from "./format.js";
import { circleAge } from "./graph.js";
import { mark } from "./marks.js";
import { isKnown } from "./store.js";
import { language, t } from "./text.js";

const RANK = { bad: 0, warning: 1, note: 2, ok: 3 };
const CHIPS_MAX = 4;

// A note is a fact to know and no fault: its level is "ok".
const kindOf = (finding) => (finding.level === "ok" ? (finding.note ? "note" : "ok") : finding.level === "bad" ? "bad" : "warning");

// The server says a finding in both languages, as far as there is a sentence for it.
const topicOf = (finding) => plainName({ name: (language() === "zh" && finding.topic_zh) || (finding.topic ?? "") });
const textOf = (finding) => plainName({ name: (language() === "zh" && finding.text_zh) || (finding.text ?? "") });

function sorted(store) {
  return [...(store?.doctor?.findings ?? [])].sort((a, b) => RANK[kindOf(a)] - RANK[kindOf(b)]);
}

export class Doctor {
  // nodes: {strip, page}; on.graph(), on.doctor()
  constructor(nodes, on) {
    Object.assign(this, { nodes, on, clocks: [] });
  }

  show(store, world) {
    Object.assign(this, { store, world, clocks: [] });
    this.nodes.strip.hidden = !store;
    this.strip(store);
    this.page(store);
    this.tick();
  }

  tick() {
    if (!this.store) return;
    const now = this.world.now(this.store);
    for (const clock of this.clocks) clock(now);
  }

  strip(store) {
    if (!store) return;
    const chips = [];
    if (!store.up) chips.push(this.away(store));
    else if (this.world.stopped_at !== null) chips.push(this.serverAway(store));
    if (store.graph.circles.length) chips.push(this.deadlocks(store));
    const findings = sorted(store);
    const trouble = findings.filter((finding) => finding.level !== "ok");
    for (const finding of trouble.slice(0, CHIPS_MAX)) {
      const chip = el(`button.chip.${finding.level === "bad" ? "bad" : "warning"}`, mark(finding.level === "bad" ? "bad" : "warning", 14), el("b", topicOf(finding)), el("span", textOf(finding)));
      chip.title = textOf(finding);
      chip.addEventListener("click", () => this.on.doctor());
      chips.push(chip);
    }
    if (trouble.length > CHIPS_MAX) chips.push(el("span.dim", t("more", trouble.length - CHIPS_MAX)));
    const notes = findings.filter((finding) => kindOf(finding) === "note").length;
    const fine = findings.length - trouble.length - notes;
    if (notes) chips.push(el("span.chip.note", mark("note", 14), t("notes", notes)));
    if (fine) chips.push(el("span.chip.ok", mark("ok", 14), t("fine", fine)));
    const looked = el("span.dim.right");
    this.clocks.push((now) => { looked.textContent = store.doctor?.at ? t("looked", age(now - store.doctor.at)) : t("not_looked"); });
    this.nodes.strip.replaceChildren(...chips, looked);
  }

  // What, since when, what happens next. This clock runs by the real time: the store is away, we are not.
  away(store) {
    const text = el("span");
    this.clocks.push(() => {
      const now = this.world.clock();
      const next = store.next_try === null || store.next_try <= now ? t("trying") : t("trying_in", age(Math.ceil((store.next_try - now) / 1000) * 1000));
      text.textContent = `${t("away", storeName(store), age(now - (store.since ?? now)), next)}${t("stop")}${isKnown(store) ? ` ${t("as_of", clock(this.world.now(store)))}` : ""}`;
    });
    const chip = el("span.chip.bad.long", mark("lost", 14), text);
    if (store.text) chip.title = plainName({ name: store.text });
    return chip;
  }

  serverAway(store) {
    const text = el("span");
    this.clocks.push(() => { text.textContent = `${t("server_away", age(this.world.clock() - this.world.stopped_at))}${t("stop")} ${t("as_of", clock(this.world.now(store)))}`; });
    return el("span.chip.bad.long", mark("away", 14), text);
  }

  deadlocks(store) {
    const { circles, nodes } = store.graph;
    const by_id = new Map(nodes.map((node) => [node.id, node]));
    const clients = new Set(circles.flatMap((circle) => circle.nodes));
    const more = el("span.brief");
    const names = el("span");
    const chip = el("button.chip.deadlock", mark("deadlock", 14), el("b.brief", t("deadlocks", circles.length)), more, el("span.full", el("b", t("deadlock")), " ", names), el("span.arrow", "›"));
    this.clocks.push((now) => {
      const since = age(Math.max(...circles.map((circle) => circleAge(store, circle, now) ?? 0)));
      more.textContent = t("clients_for", clients.size, since);
      names.textContent = t("deadlock_line", since, [...clients].slice(0, 4).map((id) => whoText(by_id.get(id))).join(", "));
    });
    chip.addEventListener("click", () => this.on.graph());
    return chip;
  }

  page(store) {
    const list = sorted(store);
    const looked = el("p.quiet");
    this.clocks.push((now) => { looked.textContent = store?.doctor?.at ? t("looked", age(now - store.doctor.at)) : t("not_looked"); });
    const lines = list.map((finding) => {
      const level = kindOf(finding);
      return el(`div.finding.${level}`, mark(level, 16), el("span.level", t(level)), el("b", topicOf(finding)), el("span", textOf(finding)));
    });
    this.nodes.page.replaceChildren(...lines, list.length && list.every((finding) => kindOf(finding) === "ok") ? el("p.quiet", t("all_fine")) : "", looked);
  }

  // The number for the tab of the phone.
  count() {
    return count(sorted(this.store).filter((finding) => finding.level !== "ok").length);
  }
}
