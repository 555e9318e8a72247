// SPDX-License-Identifier: MIT
// One name opened: its holders with what is left of their leases, and its queue. It is built again when the server tells something new; what
// changes by time alone is in `clocks`, run once a second.

import { age, count, el, nameNodes, plainName, tokenNodes, whoNodes, whoText } from "./format.js";
import { mark } from "./marks.js";
import { ageOf, calm } from "./row.js";
import { t } from "./text.js";

const HOLDERS_MAX = 12;
const WAITERS_MAX = 200;
const SLIDE_MS = 150;
const WHOLE_MS = 2000;

export class Detail {
  // on.break(row, holder), on.token()
  constructor(node, on) {
    Object.assign(this, { node, on, clocks: [], places: new Map(), key: null });
  }

  show(store, key, world) {
    // A person who copies a token keeps the selection; the next change draws it again.
    const chosen = getSelection();
    if (!chosen.isCollapsed && this.node.contains(chosen.anchorNode) && this.key === key) return;
    const scroll = this.node.querySelector(".queue")?.scrollTop ?? 0;
    const focus = this.node.contains(document.activeElement) ? document.activeElement.dataset.focus : null;
    if (this.key !== key) this.places = new Map();
    Object.assign(this, { store, world, key, clocks: [] });
    const row = key === null || !store ? null : store.rows.get(key) ?? null;
    this.node.classList.toggle("none", !row);
    if (!row) this.node.replaceChildren(el("p.quiet", key === null || !store ? t("choose") : t("gone")));
    else this.node.replaceChildren(...this.parts(row, store.detail?.key === key ? store.detail : null));
    const queue = this.node.querySelector(".queue");
    if (queue) queue.scrollTop = this.key === key ? scroll : 0;
    if (focus) this.node.querySelector(`[data-focus="${CSS.escape(focus)}"]`)?.focus();
    this.tick();
  }

  tick() {
    if (!this.store) return;
    const now = this.world.now(this.store);
    for (const clock of this.clocks) clock(now);
  }

  parts(row, detail) {
    const head = el("header", mark(row.state), el("h2", nameNodes(row, 28)), el("span.tag", t(row.kind)));
    head.querySelector("h2").title = plainName(row);
    head.dataset.state = row.state;
    if (row.waiters) head.append(el(`span.tag.state-${row.state === "deadlock" ? "deadlock" : "wanted"}`, t("wanted_by", count(row.waiters))));
    if (!this.world.rights.break) {
      const lock = el("button.plain.right", mark("lock", 12), t("read_only"));
      lock.dataset.focus = "token";
      lock.title = t("token_title");
      lock.addEventListener("click", () => this.on.token());
      head.append(lock);
    }
    const parts = [head];
    if (!detail) return [...parts, el("div.card.bone", el("i"), el("i"))];
    if (!detail.holders.length) parts.push(row.state === "lost" && row.holder ? this.lost(row) : el("p.quiet", t("nobody_has")));
    parts.push(...detail.holders.slice(0, HOLDERS_MAX).map((holder) => this.holder(row, holder, detail)));
    if (detail.holders.length > HOLDERS_MAX) parts.push(el("p.quiet", t("more_holders", count(detail.holders.length - HOLDERS_MAX))));
    parts.push(...this.queue(row, detail));
    return parts;
  }

  // Who had it, until when, and what to look at.
  lost(row) {
    const gone = el("span.badge.inverted");
    this.clocks.push((now) => { gone.textContent = ageOf(row, now).text; });
    return el("div.card.lost",
      el("div.line", el("span.who", whoNodes(row.holder)), gone),
      el("div.line", el("span.token", `${t("token")} `, el("span.mono", this.store.tokens ? tokenNodes(row.token) : t("no_tokens")))),
      el("p", t("lost_what")), el("p.dim", t("lost_check")));
  }

  holder(row, holder, detail) {
    const held = el("span.badge");
    const first = el("div.line", el("span.who", whoNodes(holder)), held);
    const card = el("div.card", first);
    const tokens = el("div.line", el("span.token", `${t("token")} `, el("span.mono", this.store.tokens ? tokenNodes(holder.token) : t("no_tokens"))));
    if (row.p99 !== null && row.capacity === 1) tokens.append(el("span.dim", t("p99_of", age(row.p99))));
    card.append(tokens);
    const facts = [];
    if (row.kind === "semaphore" && holder.permits > 1) facts.push(t("permits", count(holder.permits)));
    if (holder.slots?.length) facts.push(t("slots", holder.slots.join(" ")));
    if (holder.detached) facts.push(t("detached"));
    if (facts.length) card.append(el("div.line.dim", facts.join(" · ")));
    this.clocks.push((now) => {
      const lost = row.state === "lost";
      const tone = lost ? "inverted" : holder.token === row.token ? ageOf({ ...row, state: row.state === "at_risk" ? "held" : row.state }, now).tone : "grey";
      held.className = `badge ${tone}`;
      held.textContent = lost ? ageOf(row, now).text : t(holder.idle ? "idle_for" : "held_for", age(now - holder.since));
    });
    card.append(...this.lease(holder));
    if (this.world.rights.break) {
      const button = el("button.plain.danger", t("break_it"));
      button.dataset.focus = `break ${holder.token}`;
      button.addEventListener("click", () => this.on.break(row, holder, detail));
      card.append(el("div.line.end", button));
    }
    return card;
  }

  // What is left of the lease, as a bar.
  lease(holder) {
    if (holder.until === null || holder.until === undefined) return [el("div.line.dim", t("no_ttl"))];
    const fill = el("i.fill");
    const renewed = el("span");
    const left = el("span");
    this.clocks.push((now) => {
      const rest = Math.max(0, holder.until - now);
      const ttl = Math.max(holder.ttl_seen ?? 0, rest);
      fill.style.width = `${ttl ? (100 * rest) / ttl : 0}%`;
      fill.classList.toggle("low", ttl > 0 && rest < ttl / 3);
      renewed.textContent = ttl ? t("renewed", age(ttl - rest)) : "";
      left.textContent = ttl ? t("left_of", age(rest), age(whole(ttl))) : t("left", age(rest));
    });
    return [el("div.track", fill), el("div.line.dim", renewed, left)];
  }

  queue(row, detail) {
    if (!this.store.waiters_tracked) return [el("p.quiet", t("cannot_list", this.store.engine))];
    if (!detail.waiters.length) return [el("p.quiet", t("nobody_waits"))];
    const wants = row.kind === "mutex" ? null : t("wants");
    const table = el("div.queue");
    table.append(el("div.waiter.head", el("span", "#"), el("span", t("waiter")), el("span.num", t("waits")), wants && el("span.num", wants)));
    const longest = Math.min(...detail.waiters.map((waiter) => waiter.since ?? Infinity));
    const shown = detail.waiters.slice(0, WAITERS_MAX);
    const before = this.places;
    this.places = new Map();
    shown.forEach((waiter, i) => table.append(this.waiter(waiter, i, longest, wants, before)));
    const more = Math.max(detail.waiters_total, detail.waiters.length) - shown.length;
    const foot = el("p.quiet", more > 0 ? `${t("more", count(more))} · ` : "", `${t("next_is")} `, el("b", whoText(shown[0])));
    return [table, foot];
  }

  waiter(waiter, i, longest, wants, before) {
    const line = el("div.waiter", el("span.position", String(waiter.position ?? i + 1)), el("span.who", whoNodes(waiter)));
    const fill = el("i.fill");
    const waits = el("span.num");
    line.append(el("span.waits", el("span.track", fill), waits));
    if (wants) line.append(el("span.num.dim", waiter.wants === "semaphore" || waiter.wants === "mutex" ? count(waiter.permits ?? 1) : t(waiter.wants ?? "")));
    this.clocks.push((now) => {
      waits.textContent = age(now - waiter.since);
      fill.style.width = `${now > longest ? Math.max(4, (100 * (now - waiter.since)) / (now - longest)) : 100}%`;
    });
    const id = `${waiter.label} ${waiter.pid} ${waiter.since}`;
    const was = before.get(id);
    this.places.set(id, i);
    if (was !== undefined && was !== i && !calm.matches) line.animate([{ transform: `translateY(${(was - i) * 100}%)` }, { transform: "none" }], { duration: SLIDE_MS, easing: "ease-out" });
    return line;
  }
}

// The largest time left that was seen is a few milliseconds short of the ttl.
function whole(ttl) {
  return ttl < WHOLE_MS ? ttl : Math.ceil(ttl / 1000) * 1000;
}
