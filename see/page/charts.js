// SPDX-License-Identifier: MIT
// Three small charts of the last 15 minutes: hand-overs, waits, holds. A time in which the store was away is a grey gap with its length, and
// no line goes across it; nor does one cross a time in which nothing was measured.

import { age, el, percentile, rate, svg } from "./format.js";
import { t } from "./text.js";

const SPAN_MS = 15 * 60 * 1000;
const GAP_MS = 5000; // points further apart than this are not joined
const HIGH = 62;

export const CHARTS = [
  { id: "handovers", title: "handovers", note: "per_second", small: "handovers_s", lines: [["handovers", "p50"]], linear: true },
  { id: "wait", title: "wait", note: "p50_p99", small: "wait_p", lines: [["wait_p50", "p50"], ["wait_p99", "p99"]] },
  { id: "hold", title: "hold", note: "p50_p99", small: "hold_p", lines: [["hold_p50", "p50"], ["hold_p99", "p99"]] },
];

export class Charts {
  constructor(node) {
    this.node = node;
    this.panels = CHARTS.map((chart) => {
      const panel = el(`section.panel.chart.chart-${chart.id}`);
      node.append(panel);
      return panel;
    });
  }

  // `deadlock_at`: when the circle closed that is there now, or null.
  show(store, now, deadlock_at) {
    CHARTS.forEach((chart, i) => this.panels[i].replaceChildren(...picture(chart, store, now, deadlock_at, this.panels[i].clientWidth)));
  }
}

function picture(chart, store, now, deadlock_at, wide) {
  const points = store?.history ?? [];
  const last = [...points].reverse().find((point) => !point.away) ?? null;
  const values = el("div.values");
  chart.lines.forEach(([field, tone], i) => {
    const value = last ? last[field] ?? latest(points, field) : null;
    values.append(el(`span.value.${i ? "p99" : "p50x"}`, chart.linear ? rate(value) : percentile(value)));
    if (chart.linear) values.append(el("span.unit", "/s"));
  });
  const head = el("header", el("h3", t(chart.title)), el("span.dim", t(chart.note)));
  const small = el("div.small", t(chart.small));
  return [head, values, small, plot(chart, points, now, deadlock_at, Math.max(200, wide - 24))];
}

// The last value that was measured in the last minute: a quiet second does not blank the figure.
function latest(points, field) {
  const end = points.length ? points[points.length - 1].at - 60000 : 0;
  for (let i = points.length - 1; i >= 0 && points[i].at > end; i--) if (points[i][field] !== null) return points[i][field];
  return null;
}

function plot(chart, points, now, deadlock_at, wide) {
  const left = 42;
  const x = (at) => left + ((at - (now - SPAN_MS)) / SPAN_MS) * (wide - left - 2);
  const scale = chart.linear ? linear(points) : logarithmic(points, chart.lines);
  const y = (value) => 4 + (1 - scale.part(value)) * (HIGH - 20);
  const base = y(scale.low);
  const canvas = svg("svg", { viewBox: `0 0 ${wide} ${HIGH}`, width: wide, height: HIGH, role: "img", "aria-label": t(chart.title) });
  const words = (at, up, text, anchor, kind = "axis") => {
    const node = svg("text", { x: at, y: up, "text-anchor": anchor, class: kind });
    node.textContent = text;
    canvas.append(node);
  };
  canvas.append(svg("path", { d: `M${left} ${base}H${wide - 2}M${left} ${y(scale.high)}H${wide - 2}`, class: "grid" }));
  words(left - 5, y(scale.high) + 4, scale.text(scale.high), "end");
  words(left - 5, base + 2, scale.text(scale.low), "end");
  words(left, HIGH - 2, "−15m", "start");
  words(wide - 2, HIGH - 2, t("now"), "end");
  gaps(points, now).forEach(([from, to]) => {
    const begin = Math.max(left, x(from));
    const end = Math.max(begin + 2, x(to));
    canvas.append(svg("rect", { x: begin, y: 2, width: end - begin, height: base - 2, class: "gap" }));
    const middle = (begin + end) / 2;
    if (middle > left + 60 && middle < wide - 60) words(middle, HIGH - 2, t("away_gap", age(to - from)), "middle");
  });
  let drawn = 0;
  for (const [field, tone] of chart.lines) {
    const runs = segments(points, field, now, Math.floor(wide - left));
    const d = runs.map((run) => run.map((point, i) => `${i ? "L" : "M"}${x(point.at).toFixed(1)} ${y(point.value).toFixed(1)}`).join("") + (run.length === 1 ? "h1" : "")).join("");
    drawn += runs.length;
    if (chart.linear) canvas.append(svg("path", { d: runs.map((run) => `M${x(run[0].at).toFixed(1)} ${base}` + run.map((point) => `L${x(point.at).toFixed(1)} ${y(point.value).toFixed(1)}`).join("") + `V${base}Z`).join(""), class: "area" }));
    canvas.append(svg("path", { d, class: `line ${tone}` }));
  }
  if (deadlock_at && deadlock_at > now - SPAN_MS) canvas.append(svg("path", { d: `M${x(deadlock_at).toFixed(1)} 2V${base}`, class: "moment" }));
  if (drawn === 0) words(left + (wide - left) / 2, (base + 12) / 2 + 4, t("no_data"), "middle");
  return canvas;
}

export function gaps(points, now) {
  const found = [];
  let from = null;
  for (const point of points) {
    if (point.away && from === null) from = point.at;
    if (!point.away && from !== null) {
      found.push([from, point.at]);
      from = null;
    }
  }
  if (from !== null) found.push([from, Math.max(now, from)]);
  return found;
}

// Runs of points that may be joined; at most one point for each pixel, the largest of those that share one.
export function segments(points, field, now, pixels) {
  const step = SPAN_MS / Math.max(1, pixels);
  const runs = [];
  let run = null;
  let before = null;
  for (const point of points) {
    const value = point.away ? null : point[field];
    if (point.at < now - SPAN_MS) continue;
    if (value === null || (before !== null && point.at - before > GAP_MS)) run = null;
    if (value === null) continue;
    before = point.at;
    if (!run) runs.push((run = []));
    const last = run[run.length - 1];
    if (last && Math.floor(last.at / step) === Math.floor(point.at / step)) last.value = Math.max(last.value, value);
    else run.push({ at: point.at, value });
  }
  return runs;
}

function linear(points) {
  const most = Math.max(1, ...points.map((point) => point.handovers ?? 0));
  const power = 10 ** Math.floor(Math.log10(most));
  const high = [1, 2, 5, 10].map((step) => step * power).find((step) => step >= most);
  return { low: 0, high, part: (value) => value / high, text: rate };
}

function logarithmic(points, lines) {
  const all = points.flatMap((point) => lines.map(([field]) => point[field])).filter((value) => value !== null && value > 0);
  const low = 10 ** Math.floor(Math.log10(all.length ? Math.min(...all) : 1));
  const high = Math.max(10 * low, 10 ** Math.ceil(Math.log10(all.length ? Math.max(...all) : 1000)));
  const span = Math.log10(high / low);
  return { low, high, part: (value) => Math.max(0, Math.min(1, Math.log10(Math.max(value, low) / low) / span)), text: (value) => percentile(value) };
}
