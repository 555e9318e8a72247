// SPDX-License-Identifier: MIT
// The virtual list of names: as many row elements as fit the view and a few more, whatever the store has. While the pointer or the keyboard
// is in the list its order stands still: values change in place, and what would move waits behind a button.

import { count, el, plainName, setText, shellWord } from "./format.js";
import { changes, order, place } from "./order.js";
import { Row } from "./row.js";
import { t } from "./text.js";

const OVERSCAN = 6;
const KEYBOARD_MS = 20000; // a key in the list counts as presence for so long
const SKELETON_ROWS = 12;
export const phone = matchMedia("(max-width: 700px)");

export class NameList {
  // nodes: {scroll, foot, changes, view, over}; on.open(key), on.cursor(key).
  constructor(nodes, on) {
    Object.assign(this, { nodes, on, keys: [], places: new Map(), pool: [], store: null, cursor: null, opened: null, inline: null, inline_height: 0 });
    this.pointer = false;
    this.last_key = -Infinity;
    this.asked = "";
    this.top = this.high = this.room = 0; // kept: asking the document for them while it changes costs a layout
    this.spacer = el("div.spacer");
    nodes.scroll.append(this.spacer);
    nodes.scroll.addEventListener("scroll", () => { this.top = nodes.scroll.scrollTop; this.draw(); }, { passive: true });
    nodes.scroll.addEventListener("pointerenter", (event) => { this.freeze(); this.pointer = event.pointerType === "mouse"; });
    nodes.scroll.addEventListener("pointerleave", () => { this.pointer = false; this.refresh(); });
    nodes.scroll.addEventListener("click", (event) => this.clicked(event));
    nodes.changes.addEventListener("click", () => this.refresh(true));
    new ResizeObserver(() => { this.high = nodes.scroll.clientHeight; this.room = 0; this.draw(); }).observe(nodes.scroll);
    this.inline_size = new ResizeObserver(() => this.measured());
  }

  rowHeight() {
    return phone.matches ? 64 : 32;
  }

  frozen() {
    return this.pointer || performance.now() - this.last_key < KEYBOARD_MS;
  }

  // What decided the place of every row, as it is before a person begins to look.
  freeze() {
    if (!this.frozen() && this.store) this.places = new Map(this.keys.map((key) => [key, place(this.store.rows.get(key))]));
  }

  // Everything that decides what is shown; world.now() gives the time.
  show(store, world, ui) {
    const asked = `${store?.id}\n${ui.state}\n${ui.search}\n${ui.sort}`;
    const other = asked !== this.asked;
    Object.assign(this, { store, world, ui, asked });
    if (other) this.nodes.scroll.scrollTop = this.top = 0;
    this.refresh(other);
  }

  refresh(force = false) {
    const { store, world, ui } = this;
    if (!store) return this.draw();
    const fresh = order(store, { state: ui.state, search: ui.search, by: ui.sort, now: world.now(store), before: this.keys });
    const still = this.frozen();
    const moved = force || !still ? 0 : changes(this.places, store, fresh);
    if (force || !still || this.keys.length === 0) {
      this.keys = fresh;
      if (still) this.places = new Map(fresh.map((key) => [key, place(store.rows.get(key))]));
    }
    this.nodes.changes.hidden = moved === 0;
    if (moved) setText(this.nodes.changes, t("changes", count(moved)));
    this.draw();
  }

  offsetOf(index) {
    const open = this.inlineIndex();
    return index * this.rowHeight() + (open >= 0 && index > open ? this.inline_height : 0);
  }

  inlineIndex() {
    return this.inline && phone.matches ? this.keys.indexOf(this.opened) : -1;
  }

  // The first row at or above a scroll position.
  indexAt(y) {
    const height = this.rowHeight();
    const open = this.inlineIndex();
    if (open >= 0 && y > (open + 1) * height) y = Math.max((open + 1) * height, y - this.inline_height);
    return Math.floor(y / height);
  }

  draw() {
    const { scroll } = this.nodes;
    const height = this.rowHeight();
    const { top, high } = this;
    const first = Math.max(0, this.indexAt(top) - OVERSCAN);
    const last = Math.min(this.keys.length, this.indexAt(top + high) + 1 + OVERSCAN);
    const open = this.inlineIndex();
    this.spacer.style.height = `${this.keys.length * height + (open >= 0 ? this.inline_height : 0)}px`;
    scroll.setAttribute("aria-rowcount", String(this.keys.length));
    this.fill(first, last);
    this.placeInline(open);
    this.messages();
    const seen = Math.min(this.keys.length, Math.max(0, Math.floor(high / height)));
    setText(this.nodes.view, this.keys.length ? t("in_view", count(seen), count(this.store ? this.keys.length : 0)) : "");
  }

  // How many columns of text a name has.
  nameRoom() {
    const cell = this.room ? 0 : this.pool[0]?.cells.name.clientWidth ?? 0;
    if (cell) this.room = Math.max(10, Math.floor(cell / (phone.matches ? 8.2 : 7.4)));
    return this.room || 20;
  }

  // Rows that stay in view keep their element, so that only what has changed is touched.
  fill(first, last) {
    const now = this.store ? this.world.now(this.store) : 0;
    const by_key = new Map(this.pool.map((row) => [row.key, row]));
    const room = this.nameRoom();
    const wanted = this.keys.slice(first, last);
    const kept = new Set(wanted);
    const spare = this.pool.filter((row) => !kept.has(row.key));
    this.pool = wanted.map((key, i) => {
      let row = by_key.get(key) ?? spare.pop();
      if (!row) {
        row = new Row();
        this.spacer.append(row.node);
      }
      row.bind(key, this.store.rows.get(key) ?? null, this.store, now, room);
      const transform = `translateY(${this.offsetOf(first + i)}px)`;
      if (row.node.style.transform !== transform) row.node.style.transform = transform;
      row.node.setAttribute("aria-rowindex", String(first + i + 1));
      row.node.classList.toggle("cursor", key === this.cursor);
      row.node.classList.toggle("opened", key === this.opened);
      row.node.setAttribute("aria-selected", String(key === this.opened));
      if (key === this.cursor) {
        row.node.id = "cursor-row";
        this.nodes.scroll.setAttribute("aria-activedescendant", "cursor-row");
      } else if (row.node.id) row.node.removeAttribute("id");
      return row;
    });
    for (const row of spare) row.node.remove();
  }

  messages() {
    const { over } = this.nodes;
    const { store, ui } = this;
    const known = store && store.known && (store.looked || store.absent);
    const kind = !known ? (store && !store.up ? "no_names" : "loading") : this.keys.length ? "" : ui.search ? `match ${ui.search}` : ui.state ? `state ${ui.state}` : "empty";
    const shown = `${kind} ${store?.id} ${store?.text} ${t("empty")}`;
    if (over.dataset.shown === shown) return;
    over.dataset.shown = shown;
    over.hidden = kind === "";
    over.className = kind === "loading" ? "over loading" : "over";
    const clear = el("button.plain", t("clear"));
    clear.addEventListener("click", () => this.on.clear());
    if (kind === "loading") over.replaceChildren(el("span.sr", t("loading")), ...Array.from({ length: SKELETON_ROWS }, () => el("div.bone", el("i"), el("i"), el("i"))));
    else if (kind === "no_names") over.replaceChildren(el("p", t("no_names")), store.text ? el("p.dim", plainName({ name: store.text })) : "");
    else if (kind === "empty") over.replaceChildren(el("p", t("empty")), el("p.dim", `${t("empty_try")} `, el("code", `holdfast run -S ${shellWord({ name: store.name })} demo -- sleep 60`)));
    else if (kind) over.replaceChildren(el("p", ui.search ? t("no_match", ui.search) : t("no_state", t(ui.state))), clear);
    else over.replaceChildren();
  }

  tick() {
    if (!this.store) return;
    const now = this.world.now(this.store);
    for (const row of this.pool) row.tick(now);
  }

  // ---- moving and opening

  clicked(event) {
    const node = event.target.closest(".row");
    const row = this.pool.find((each) => each.node === node);
    if (!row || !row.row) return;
    this.cursor = row.key;
    this.on.open(phone.matches && this.opened === row.key ? null : row.key);
  }

  move(step) {
    this.freeze();
    this.last_key = performance.now();
    const at = this.keys.indexOf(this.cursor);
    const next = at < 0 ? 0 : Math.min(this.keys.length - 1, Math.max(0, at + step));
    this.cursor = this.keys[next] ?? null;
    this.nodes.scroll.focus({ preventScroll: true });
    this.reveal(next);
  }

  reveal(index) {
    const height = this.rowHeight();
    const y = this.offsetOf(index);
    if (y < this.top) this.top = y;
    else if (y + height > this.top + this.high) this.top = y + height - this.high;
    this.nodes.scroll.scrollTop = this.top;
    this.draw();
  }

  // On a phone the detail is a part of the list, below its row.
  setOpened(key, inline) {
    this.opened = key;
    if (this.inline && this.inline !== inline) this.inline_size.unobserve(this.inline);
    this.inline = key === null ? null : inline;
    if (this.inline) this.inline_size.observe(this.inline);
    this.draw();
  }

  placeInline(open) {
    if (!this.inline) return;
    this.inline.hidden = phone.matches && open < 0;
    if (open < 0) {
      this.inline.style.transform = "";
      return;
    }
    if (this.inline.parentNode !== this.spacer) this.spacer.append(this.inline);
    this.inline.style.transform = `translateY(${(open + 1) * this.rowHeight()}px)`;
  }

  measured() {
    const height = phone.matches && this.inline ? this.inline.offsetHeight : 0;
    if (height === this.inline_height) return;
    this.inline_height = height;
    this.draw();
  }
}
