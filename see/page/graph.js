// SPDX-License-Identifier: MIT
// Who waits for whom, drawn as SVG: clients are boxes with what they have, arrows go from a waiter to a holder. A circle is red, thick and
// numbered; everything else is grey and dashed. The panel shows one circle, or the longest queue; the full graph everything up to the fold.

import { age, count, el, plainCut, plainName, shellWord, shortAge, svg, who, whoText } from "./format.js";
import { boxWidth, grouped, layers, longestQueue, queue, ring, turned } from "./layout.js";
import { circleSince, isKnown } from "./store.js";
import { t } from "./text.js";

const HIGH = 58;
const COLUMN = 250;

export class Graph {
  // nodes: {title, tag, body, says}
  constructor(nodes, full = false) {
    Object.assign(this, { nodes, full, clocks: [], memory: new Map(), memory_store: null });
  }

  show(store, world) {
    Object.assign(this, { store, world, clocks: [] });
    if (!store) return;
    if (this.memory_store !== store.id) this.memory = new Map();
    this.memory_store = store.id;
    const { graph } = store;
    const circles = [...graph.circles].sort((a, b) => (turned(a.nodes)[0] < turned(b.nodes)[0] ? -1 : 1));
    this.by_id = new Map(graph.nodes.map((node) => [node.id, node]));
    this.nodes.tag.hidden = circles.length === 0;
    this.nodes.tag.textContent = circles.length === 1 ? t("circle_of", circles[0].nodes.length) : t("circles", circles.length);
    this.width = Math.max(320, this.nodes.body.clientWidth || 420);
    this.nodes.body.replaceChildren();
    if (!store.up && graph.edges.length === 0) this.quiet(t(isKnown(store) ? "waits_unknown_now" : "waits_unknown"));
    else if (!store.waiters_tracked) this.quiet(t("cannot_list", store.engine));
    else if (this.full) this.everything(graph, circles);
    else if (circles.length) this.circle(graph, circles[0]);
    else this.longest(graph);
    this.says(graph, circles);
    this.tick();
  }

  tick() {
    if (!this.store) return;
    const now = this.world.now(this.store);
    for (const clock of this.clocks) clock(now);
  }

  quiet(text) {
    this.nodes.body.append(el("p.quiet", text));
  }

  canvas(width, height) {
    const canvas = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "waits", role: "img", "aria-label": t("who_waits") });
    const head = (id) => svg("marker", { id: `${id}-${this.full ? "full" : "panel"}`, viewBox: "0 0 10 10", refX: 8, refY: 5, markerWidth: 10, markerHeight: 10, markerUnits: "userSpaceOnUse", orient: "auto" }, svg("path", { d: "M0 0 10 5 0 10Z", class: `${id}-head` }));
    canvas.append(svg("defs", {}, head("circle"), head("other")));
    this.nodes.body.append(canvas);
    return canvas;
  }

  // ---- the three pictures

  circle(graph, circle) {
    const plan = ring(turned(circle.nodes), this.width);
    const canvas = this.canvas(this.width, plan.height);
    this.drawRing(canvas, graph, plan, 0, 0);
    for (const box of plan.boxes) {
      const outside = graph.edges.filter((edge) => edge.to === box.id && !circle.nodes.includes(edge.from));
      if (outside.length) this.attached(canvas, box, outside, plan);
    }
  }

  longest(graph) {
    const target = longestQueue(graph);
    if (target === null) return this.quiet(t("no_circle") + t("nobody_waits_here"));
    const plan = queue(graph, target, this.width, this.memory);
    const canvas = this.canvas(this.width, plan.height);
    for (const pill of plan.pills) {
      const text = pill.id === null ? t("more_wait", pill.more) : whoText(this.by_id.get(pill.id));
      const to = plan.boxes[0];
      const x = to.x - plan.wide / 2;
      canvas.append(svg("path", { d: `M${pill.x + pill.wide} ${pill.y}C${x - 40} ${pill.y} ${pill.x + pill.wide + 40} ${to.y} ${x - 3} ${to.y}`, class: "other-arrow", "marker-end": `url(#other-${this.full ? "full" : "panel"})` }));
      this.pill(canvas, pill.x, pill.y, pill.wide, text, pill.edge);
    }
    for (const box of plan.boxes) this.box(canvas, box, plan.wide, 0);
  }

  everything(told, circles) {
    const rings = circles.map((circle) => turned(circle.nodes));
    const graph = grouped(told, rings.flat());
    for (const node of graph.nodes) this.by_id.set(node.id, node);
    if (!rings.length && !graph.edges.length) return this.quiet(t("no_circle") + t("nobody_waits_here"));
    const block = 460;
    const plan = layers(graph, this.memory, rings);
    const deepest = Math.max(0, ...[...plan.slots.values()].map((slot) => slot.layer));
    const ring_x = deepest * COLUMN;
    const places = new Map();
    let y = 0;
    const drawn = rings.map((ids) => {
      const picture = ring(ids, block);
      const at = y;
      y += picture.height;
      for (const box of picture.boxes) places.set(box.id, { x: box.x + ring_x, y: box.y + at, wide: picture.wide });
      return { picture, at };
    });
    const wide = boxWidth(block);
    // A layer of clients that have nothing is a column of pills: less than half as high.
    const boxed = new Set([...plan.slots].filter(([id]) => this.by_id.get(id)?.has.length).map(([, slot]) => slot.layer));
    for (const [id, slot] of plan.slots) {
      const box = boxed.has(slot.layer);
      places.set(id, { x: (deepest - slot.layer) * COLUMN + wide / 2 + 8, y: (slot.layer === 0 ? y : 0) + (box ? 44 + slot.row * 78 : 28 + slot.row * 36), wide, box });
    }
    const height = Math.max(y, ...[...places.values()].map((place) => place.y + 50));
    const canvas = this.canvas(ring_x + block, height);
    this.otherArrows(canvas, graph, rings, places);
    for (const { picture, at } of drawn) this.drawRing(canvas, graph, picture, ring_x, at);
    for (const id of plan.slots.keys()) {
      const place = places.get(id);
      if (place.box) this.box(canvas, { id, ...place }, wide, 0);
      else this.pill(canvas, place.x - wide / 2, place.y, wide, whoText(this.by_id.get(id)), graph.edges.find((edge) => edge.from === id));
    }
    const folded = plan.folded + graph.folded;
    if (folded) this.quiet(t("folded", folded));
  }

  otherArrows(canvas, graph, rings, places) {
    const ringed = new Set(rings.flat());
    for (const edge of graph.edges) {
      const from = places.get(edge.from);
      const to = places.get(edge.to);
      if (!from || !to || (ringed.has(edge.from) && ringed.has(edge.to))) continue;
      const x1 = from.x + from.wide / 2;
      const x2 = to.x - to.wide / 2 - 3;
      canvas.append(svg("path", { d: `M${x1} ${from.y}C${x1 + 46} ${from.y} ${x2 - 46} ${to.y} ${x2} ${to.y}`, class: "other-arrow", "marker-end": "url(#other-full)" }));
    }
  }

  // ---- the pieces

  drawRing(canvas, graph, plan, dx, dy) {
    const group = svg("g", { transform: `translate(${dx} ${dy})`, class: "ring" });
    canvas.append(group);
    for (const arrow of plan.arrows) {
      group.append(svg("path", { d: arrow.d, class: "circle-arrow", "data-from": arrow.from, "data-to": arrow.to, "marker-end": `url(#circle-${this.full ? "full" : "panel"})` }));
      const edge = graph.edges.find((each) => each.from === arrow.from && each.to === arrow.to);
      if (edge) this.label(group, arrow.label, edge);
    }
    plan.boxes.forEach((box, i) => this.box(group, box, plan.wide, i + 1));
  }

  label(canvas, place, edge) {
    const lines = [svg("tspan", { x: place.x, y: place.split ? place.y - 8 : place.y - 6 }), svg("tspan", { x: place.x, y: place.split ? place.y + 16 : place.y + 8 })];
    lines[1].textContent = plainCut(edge, 16);
    this.clocks.push((now) => { lines[0].textContent = t("waits_for", shortAge(edge.since === null ? null : now - edge.since)); });
    const title = svg("title");
    title.textContent = plainName(edge);
    canvas.append(svg("text", { class: "circle-label", "text-anchor": place.anchor }, title, ...lines));
  }

  box(canvas, box, wide, number) {
    const node = this.by_id.get(box.id) ?? { label: null, pid: null, has: [] };
    const left = box.x - wide / 2;
    const top = box.y - HIGH / 2;
    const group = svg("g", { class: number ? "box in-circle" : "box", "data-node": box.id });
    const title = svg("title");
    title.textContent = [node.label ? plainName({ name: node.label }) : "", ...node.has.map((each) => `${t("has")} ${plainName(each)} ${each.token}`)].join("\n");
    const { what, where } = who(node);
    const room = Math.floor((wide - 24) / 6.6);
    const name = svg("text", { x: left + 12, y: top + 20, class: "box-name" });
    const short = plainCut({ name: what || where || "?" }, room);
    name.append(short);
    if (what && where && room - short.length > 6) {
      const place = svg("tspan", { class: "box-where", dx: 6 });
      place.textContent = plainCut({ name: where }, Math.floor((room - short.length) * 0.95));
      name.append(place);
    }
    const has = svg("text", { x: left + 12, y: top + 45, class: "box-has" });
    if (node.has.length) {
      const names = svg("tspan", { class: "box-what" });
      names.textContent = plainCut(node.has[0], room - 5 - (node.has.length > 1 ? 9 : 0));
      has.append(`${t("has")} `, names, node.has.length > 1 ? ` ${t("and_more", node.has.length - 1)}` : "");
    } else has.append(t("has_nothing"));
    group.append(title, svg("rect", { x: left, y: top, width: wide, height: HIGH, rx: 7 }), svg("path", { d: `M${left} ${top + 29}h${wide}`, class: "rule" }), name, has);
    if (number) {
      const digit = svg("text", { x: left + wide, y: top + 4, "text-anchor": "middle", class: "number" });
      digit.textContent = String(number);
      group.append(svg("circle", { cx: left + wide, cy: top, r: 9, class: "number-disc" }), digit);
    }
    canvas.append(group);
  }

  pill(canvas, x, y, wide, text, edge) {
    const words = svg("text", { x: x + wide / 2, y: y + 4, "text-anchor": "middle" });
    const room = Math.floor((wide - 12) / 5.9);
    words.textContent = plainCut({ name: text }, room);
    if (edge?.count) this.clocks.push((now) => { words.textContent = t("group_waits", count(edge.count), age(edge.since === null ? null : now - edge.since)); });
    else if (edge) this.clocks.push((now) => { words.textContent = `${plainCut({ name: text }, room - 8)} ${edge.since === null ? "" : age(now - edge.since)}`; });
    canvas.append(svg("g", { class: "pill" }, svg("rect", { x, y: y - 13, width: wide, height: 26, rx: 13 }), words));
  }

  // Those that wait for a client of the circle, and are in none themselves: a pill below its box, at its outer edge; for the box at the top
  // of an odd circle a pill on the left, where no words are.
  attached(canvas, box, edges, plan) {
    const text = edges.length === 1 ? whoText(this.by_id.get(edges[0].from)) : t("more_wait", edges.length);
    const half = plan.wide / 2;
    const arrow = { class: "other-arrow", "marker-end": "url(#other-panel)" };
    if (box.side === 0 && plan.boxes.length > 2) {
      const wide = Math.min(84, box.x - half - 36);
      canvas.append(svg("path", { d: `M${8 + wide} ${box.y - 15}H${box.x - half - 3}`, ...arrow }));
      return this.pill(canvas, 8, box.y - 15, wide, text, null);
    }
    const under = plan.boxes.some((other) => other.side === box.side && other.y > box.y);
    const wide = under && box.side ? half - 6 : Math.min(84, plan.wide - 20);
    const x = box.x + box.side * (half - wide / 2) - wide / 2;
    const y = box.y + HIGH / 2 + 28;
    canvas.append(svg("path", { d: `M${x + wide / 2} ${y - 13}V${box.y + HIGH / 2 + 3}`, ...arrow }));
    this.pill(canvas, x, y, wide, text, null);
  }

  // ---- what it means, and what to do

  says(graph, circles) {
    const lines = [];
    if (circles.length === 0) {
      const target = longestQueue(graph);
      if (target !== null && this.store.waiters_tracked) lines.push(el("p", el("b", t("no_circle")), t("longest", whoText(this.by_id.get(target)))));
    }
    for (const circle of this.full ? circles : circles.slice(0, 1)) lines.push(...this.verdict(circle));
    this.nodes.says.replaceChildren(...lines);
  }

  verdict(circle) {
    const victim = circle.victim === null ? null : this.by_id.get(circle.victim);
    const text = el("p", el("b", `${t("none_can", circle.nodes.length)} `));
    if (circle.gives_way && victim) {
      text.append(t("gives_way", whoText(victim)));
      return [text];
    }
    text.append(`${t("none_gives")} `);
    if (!circle.break) return [text];
    const loser = [...this.by_id.values()].find((node) => node.has.some((each) => String(each.token) === String(circle.break.token)));
    text.append(t("to_end", loser ? whoText(loser) : "?"));
    return [text, command(`holdfast break -S ${shellWord({ name: this.store.name })} ${shellWord(circle.break)} --token ${circle.break.token}`)];
  }
}

// On one line: broken, it would read as two commands. Where the page may not write to the clipboard (not HTTPS, not this machine) it can be
// chosen by one click.
function command(text) {
  const line = el("div.copyable", el("code.command", text));
  if (!navigator.clipboard) return line;
  const button = el("button.plain.copy", t("copy"));
  button.addEventListener("click", () => navigator.clipboard.writeText(text).then(() => { button.textContent = t("copied"); }, () => button.remove()));
  line.append(button);
  return line;
}

export function circleAge(store, circle, now) {
  const since = circleSince(store.graph, circle);
  return since === null ? null : now - since;
}
