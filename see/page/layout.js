// SPDX-License-Identifier: MIT
// Where the boxes and arrows of the wait-for graph go. Pure, and the same for the same graph: a circle is drawn in the order in which its
// clients wait, from the smallest id on; other clients keep the slot that `memory` (a Map) has for them as long as they live.

const HIGH = 58;
const PITCH = 114;
const EDGE = 8;
const PILL = 34;
const QUEUE_MAX = 8;
export const FOLD = 30;

export function boxWidth(width) {
  return Math.max(112, Math.min(166, (width - 2 * EDGE - 96) / 2));
}

// A circle from its smallest id on, so that it is drawn alike whoever the server names first.
export function turned(nodes) {
  const at = nodes.indexOf([...nodes].sort()[0]);
  return [...nodes.slice(at), ...nodes.slice(0, at)];
}

// The circle `ids`: {boxes: [{id, x, y}], arrows: [{from, to, d, label: {x, y, anchor, split}}], height}. x and y are centres.
//
// Two are above each other. More run down on the right and up on the left, an odd one stands at the top:
//        1                 4 > 1
//     3  <  2              3 < 2
export function ring(ids, width) {
  const wide = boxWidth(width);
  const half = wide / 2;
  const middle = width / 2;
  const right = width - EDGE - half - 6;
  const left = EDGE + half;
  const top = HIGH / 2 + 14;
  if (ids.length <= 2) return pair(ids, middle, top, half);
  const odd = ids.length % 2;
  const rows = (ids.length - odd) / 2;
  // Where boxes are narrow, what waits below the one at the top would touch the words beside the arrows.
  const first = odd ? top + PITCH + (wide < 150 ? 40 : 8) : top;
  const boxes = ids.map((id, i) => {
    if (odd && i === 0) return { id, x: middle, y: top, side: 0 };
    const place = i - odd;
    if (place < rows) return { id, x: right, y: first + place * PITCH, side: 1 };
    return { id, x: left, y: first + (2 * rows - 1 - place) * PITCH, side: -1 };
  });
  const arrows = boxes.map((from, i) => arrow(from, boxes[(i + 1) % boxes.length], half));
  return { boxes, arrows, height: first + (rows - 1) * PITCH + HIGH / 2 + 46, wide };
}

function pair(ids, x, top, half) {
  const low = top + 172;
  const boxes = ids.map((id, i) => ({ id, x, y: i ? low : top, side: 0 }));
  const bow = (from, to, side) => ({
    from: from.id, to: to.id,
    d: `M${x + side * half} ${from.y}C${x + side * (half + 58)} ${from.y} ${x + side * (half + 58)} ${to.y} ${x + side * (half + 3)} ${to.y}`,
    label: { x: x + side * (half + 34), y: low - HIGH / 2 - 38, anchor: side > 0 ? "end" : "start" },
  });
  if (ids.length === 1) {
    const d = `M${x + half} ${top - 12}C${x + half + 60} ${top - 30} ${x + half + 60} ${top + 30} ${x + half + 3} ${top + 12}`;
    return { boxes, arrows: [{ from: ids[0], to: ids[0], d, label: { x, y: top + 60, anchor: "middle" } }], height: 150, wide: 2 * half };
  }
  return { boxes, arrows: [bow(boxes[0], boxes[1], 1), bow(boxes[1], boxes[0], -1)], height: low + HIGH / 2 + 46, wide: 2 * half };
}

function arrow(from, to, half) {
  const ends = { from: from.id, to: to.id };
  if (from.side === 0) // from the top, down to the right
    return { ...ends, d: `M${from.x + half} ${from.y}Q${to.x} ${from.y} ${to.x} ${to.y - HIGH / 2 - 3}`, label: { x: to.x - 10, y: to.y - HIGH / 2 - 22, anchor: "end" } };
  if (to.side === 0) // up on the left, to the top
    return { ...ends, d: `M${from.x} ${from.y - HIGH / 2}Q${from.x} ${to.y} ${to.x - half - 3} ${to.y}`, label: { x: from.x + 10, y: from.y - HIGH / 2 - 22, anchor: "start" } };
  if (from.y === to.y) {
    const way = Math.sign(to.x - from.x);
    return { ...ends, d: `M${from.x + way * half} ${from.y}H${to.x - way * (half + 3)}`, label: { x: (from.x + to.x) / 2, y: from.y, anchor: "middle", split: true } };
  }
  const way = Math.sign(to.y - from.y);
  return { ...ends, d: `M${from.x} ${from.y + (way * HIGH) / 2}V${to.y - way * (HIGH / 2 + 3)}`, label: { x: from.x - from.side * 10, y: (from.y + to.y) / 2 - 2, anchor: from.side > 0 ? "end" : "start" } };
}

// ---- without a circle: the longest queue

export function longestQueue(graph) {
  const waits = new Map();
  for (const edge of graph.edges) waits.set(edge.to, (waits.get(edge.to) ?? 0) + 1);
  return [...waits].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))[0]?.[0] ?? null;
}

// The lowest free slot for each id; one that has a slot keeps it.
export function slots(ids, memory) {
  const alive = new Set(ids);
  for (const id of memory.keys()) if (!alive.has(id)) memory.delete(id);
  const used = new Set(memory.values());
  let next = 0;
  for (const id of ids) {
    if (memory.has(id)) continue;
    while (used.has(next)) next++;
    memory.set(id, next);
    used.add(next);
  }
  return memory;
}

export function queue(graph, target, width, memory) {
  const wide = boxWidth(width);
  const edges = graph.edges.filter((edge) => edge.to === target).sort((a, b) => (a.since ?? 0) - (b.since ?? 0) || (a.from < b.from ? -1 : 1));
  const places = slots(edges.map((edge) => edge.from), memory);
  const shown = edges.filter((edge) => places.get(edge.from) < QUEUE_MAX);
  const folded = edges.length - shown.length;
  const rows = Math.max(2, ...shown.map((edge) => places.get(edge.from) + 1)) + (folded ? 1 : 0);
  const height = 20 + rows * PILL;
  const box = { id: target, x: width - EDGE - wide / 2, y: Math.min(height / 2, 20 + 4 * PILL), side: 1 };
  const pills = shown.map((edge) => ({ id: edge.from, edge, x: EDGE, y: 26 + places.get(edge.from) * PILL, wide }));
  if (folded) pills.push({ id: null, more: folded, x: EDGE, y: 26 + (rows - 1) * PILL, wide });
  return { boxes: [box], pills, height: Math.max(height, HIGH + 30), wide };
}

// ---- the full graph: what is alike is one box

const GROUP_MIN = 4;

// Clients that have nothing and wait for the same client become one: of a star there is nothing to see in its rays. Its edge has the
// time of the longest wait. `ringed`: ids in circles, which stay.
export function grouped(graph, ringed) {
  const waits = new Map();
  const stay = new Set(ringed);
  for (const edge of graph.edges) {
    stay.add(edge.to);
    waits.set(edge.from, (waits.get(edge.from) ?? 0) + 1);
  }
  for (const node of graph.nodes) if (node.has.length) stay.add(node.id);
  const groups = new Map();
  for (const edge of graph.edges) if (!stay.has(edge.from) && waits.get(edge.from) === 1) groups.set(edge.to, [...(groups.get(edge.to) ?? []), edge]);
  const inside = new Set();
  const made = [];
  for (const [to, edges] of groups) {
    if (edges.length < GROUP_MIN) continue;
    for (const edge of edges) inside.add(edge.from);
    const times = edges.map((edge) => edge.since).filter((since) => since !== null);
    made.push({ ...edges[0], from: `all ${to}`, since: times.length ? Math.min(...times) : null, count: edges.length });
  }
  return {
    nodes: [...graph.nodes.filter((node) => !inside.has(node.id)), ...made.map((edge) => ({ id: edge.from, label: null, pid: null, has: [] }))],
    edges: [...graph.edges.filter((edge) => !inside.has(edge.from)), ...made], folded: graph.folded,
  };
}

// ---- the full graph: layers by how far a client is from one that does not wait

export function layers(graph, memory, rings) {
  const ringed = new Set(rings.flat());
  const out = new Map();
  const in_count = new Map();
  for (const edge of graph.edges) {
    if (!ringed.has(edge.from)) out.set(edge.from, [...(out.get(edge.from) ?? []), edge.to]);
    in_count.set(edge.to, (in_count.get(edge.to) ?? 0) + 1);
  }
  const depth = new Map();
  const measure = (id, seen) => {
    if (ringed.has(id)) return 0;
    if (depth.has(id)) return depth.get(id);
    if (seen.has(id)) return 0; // a circle that the server has not judged yet
    seen.add(id);
    const deepest = Math.max(0, ...(out.get(id) ?? []).map((to) => measure(to, seen) + 1));
    depth.set(id, deepest);
    return deepest;
  };
  const others = graph.nodes.filter((node) => !ringed.has(node.id) && (out.has(node.id) || in_count.has(node.id)));
  for (const node of others) measure(node.id, new Set());
  const near = (node) => Number((out.get(node.id) ?? []).some((to) => ringed.has(to))); // so few arrows cross a circle
  others.sort((a, b) => Number(memory.has(b.id)) - Number(memory.has(a.id)) || near(b) - near(a) || depth.get(a.id) - depth.get(b.id) || (in_count.get(b.id) ?? 0) - (in_count.get(a.id) ?? 0) || (a.id < b.id ? -1 : 1));
  const shown = others.slice(0, FOLD);
  const alive = new Set(shown.map((node) => node.id));
  for (const id of memory.keys()) if (!alive.has(id)) memory.delete(id);
  for (const node of shown) if (memory.get(node.id)?.layer !== depth.get(node.id)) memory.delete(node.id);
  for (let layer = 0; layer <= Math.max(0, ...depth.values()); layer++)
    fillLayer(layer, shown.filter((node) => depth.get(node.id) === layer && !memory.has(node.id)), memory, out, rings.flat());
  return { slots: memory, folded: others.length - shown.length };
}

// The lowest free rows of a layer for `nodes`, each beside the one for which it waits, so that few arrows cross: first those that wait for a
// client of a circle, then by the rows of the layers before.
function fillLayer(layer, nodes, memory, out, ringed) {
  const beside = (node) => Math.min(FOLD, ...(out.get(node.id) ?? []).map((to) => memory.get(to)?.row ?? (ringed.includes(to) ? ringed.indexOf(to) - ringed.length : FOLD)));
  const used = new Set([...memory.values()].filter((slot) => slot.layer === layer).map((slot) => slot.row));
  const order = new Map(nodes.map((node) => [node, beside(node)]));
  let row = 0;
  for (const node of [...nodes].sort((a, b) => order.get(a) - order.get(b))) {
    while (used.has(row)) row++;
    used.add(row);
    memory.set(node.id, { layer, row });
  }
}
