// SPDX-License-Identifier: MIT
// The marks of states and the signs of buttons, drawn by hand on 16 by 16. A state is always a mark, a word and a colour.

import { svg } from "./format.js";

const line = (d, more = {}) => ["path", { d, fill: "none", stroke: "currentColor", "stroke-width": 1.6, "stroke-linecap": "round", "stroke-linejoin": "round", ...more }];
const solid = (d, more = {}) => ["path", { d, fill: "currentColor", ...more }];

const shapes = {
  held: [["circle", { cx: 8, cy: 8, r: 4, fill: "currentColor" }]],
  waiting: [["circle", { cx: 8, cy: 8, r: 4, fill: "none", stroke: "currentColor", "stroke-width": 1.6 }]],
  wanted: [solid("M8 2.5 13.5 8 8 13.5 2.5 8Z")],
  at_risk: [solid("M8 1.8 15 14H1Z"), line("M8 6v3.6", { class: "on-mark" }), ["circle", { cx: 8, cy: 11.9, r: 0.9, class: "on-mark-fill" }]],
  lost: [["rect", { x: 2, y: 2, width: 12, height: 12, rx: 2.5, fill: "currentColor" }], line("M5.6 5.6l4.8 4.8M10.4 5.6l-4.8 4.8", { class: "on-mark" })],
  deadlock: [line("M2.6 7.2A5.5 5.5 0 0 1 12.4 4.6M13.4 8.8A5.5 5.5 0 0 1 3.6 11.4"), solid("M13.9 1.6v4.6H9.3Z"), solid("M2.1 14.4V9.8h4.6Z")],
  idle: [["circle", { cx: 8, cy: 8, r: 4, fill: "none", stroke: "currentColor", "stroke-width": 1.6, "stroke-dasharray": "1.6 1.55" }]],
  away: [["rect", { x: 2, y: 2, width: 12, height: 12, rx: 2.5, fill: "currentColor" }], line("M5.6 5.6l4.8 4.8M10.4 5.6l-4.8 4.8", { class: "on-mark" })],
  absent: [["circle", { cx: 8, cy: 8, r: 4, fill: "none", stroke: "currentColor", "stroke-width": 1.6, "stroke-dasharray": "1.6 1.55" }]],
  unknown: [line("M4 8h8")],
  ok: [line("M3 8.5 6.5 12 13 4.5", { "stroke-width": 1.9 })],
  warning: [solid("M8 1.8 15 14H1Z"), line("M8 6v3.6", { class: "on-mark" }), ["circle", { cx: 8, cy: 11.9, r: 0.9, class: "on-mark-fill" }]],
  note: [["circle", { cx: 8, cy: 8, r: 6, fill: "none", stroke: "currentColor", "stroke-width": 1.5 }], line("M8 7.4v3.6"), ["circle", { cx: 8, cy: 4.9, r: 0.9, fill: "currentColor" }]],
  bad: [solid("M5.2 1.5h5.6l3.7 3.7v5.6l-3.7 3.7H5.2l-3.7-3.7V5.2Z"), line("M8 4.6v4.2", { class: "on-mark" }), ["circle", { cx: 8, cy: 11.3, r: 0.9, class: "on-mark-fill" }]],
  anchor: [["circle", { cx: 8, cy: 3.4, r: 1.6, fill: "none", stroke: "currentColor", "stroke-width": 1.4 }], line("M8 5v9M5.4 7.2h5.2M2.4 9.4c.3 3 2.6 4.6 5.6 4.6s5.3-1.6 5.6-4.6l-1.7 1.2M2.4 9.4l1.7 1.2", { "stroke-width": 1.4 })],
  search: [["circle", { cx: 7, cy: 7, r: 4.4, fill: "none", stroke: "currentColor", "stroke-width": 1.5 }], line("M10.4 10.4 14 14", { "stroke-width": 1.5 })],
  theme: [["circle", { cx: 8, cy: 8, r: 5.8, fill: "none", stroke: "currentColor", "stroke-width": 1.5 }], solid("M8 2.2a5.8 5.8 0 0 1 0 11.6Z")],
  lock: [["rect", { x: 3.2, y: 7, width: 9.6, height: 6.8, rx: 1.6, fill: "currentColor" }], line("M5.2 7V5a2.8 2.8 0 0 1 5.6 0v2")],
  side: [line("M2.5 3h4.3v10H2.5ZM9.2 3h4.3v10H9.2Z", { "stroke-width": 1.4 })],
  names: [line("M2 4h12M2 8h12M2 12h12")],
  graph: [["circle", { cx: 8, cy: 3.6, r: 2, fill: "none", stroke: "currentColor", "stroke-width": 1.4 }], ["circle", { cx: 3.4, cy: 12.2, r: 2, fill: "none", stroke: "currentColor", "stroke-width": 1.4 }], ["circle", { cx: 12.6, cy: 12.2, r: 2, fill: "none", stroke: "currentColor", "stroke-width": 1.4 }], line("M7 5.4 4.4 10.4M9 5.4l2.6 5M5.4 12.2h5.2", { "stroke-width": 1.4 })],
  charts: [line("M2 13.5h12M2.5 10l3.4-4 2.8 2.6L13.5 3")],
  doctor: [line("M1.5 8.5h3l1.8-5 3.2 9 1.7-4h3.3")],
  close: [line("M4 4l8 8M12 4l-8 8")],
};

// The mark of a state or a sign. Hidden from screen readers: the word beside it says the same.
export function mark(name, size = 16) {
  const node = svg("svg", { viewBox: "0 0 16 16", width: size, height: size, class: `mark mark-${name}`, "aria-hidden": "true" });
  for (const [tag, attributes] of shapes[name] ?? []) node.append(svg(tag, attributes));
  return node;
}

export const STATES = ["deadlock", "at_risk", "lost", "wanted", "held", "waiting", "idle"];
