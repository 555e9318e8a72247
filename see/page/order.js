// SPDX-License-Identifier: MIT
// Which rows are shown, and in what order. Pure. 10,000 rows are ordered in a few milliseconds, since what is compared is made once
// for each row and the list is nearly in order already.

export const ORDERS = ["trouble", "name", "age", "waiters"];

const RANK = { deadlock: 0, at_risk: 1, lost: 2 };

// Past what 99 of 100 holds of this very name took. A leader is meant to stay.
export function overdue(row, now) {
  if (row.kind === "leader" || row.p99 === null || row.since === null || !row.taken || row.state === "idle") return false;
  return now - row.since > row.p99;
}

// How an age is shown: "grey" below the median, "ink" below p99, "amber" above, "red" in a deadlock.
export function judge(row, now) {
  if (row.state === "deadlock") return "red";
  if (overdue(row, now)) return "amber";
  return row.p50 !== null && row.since !== null && now - row.since > row.p50 && row.kind !== "leader" ? "ink" : "grey";
}

function trouble(row, now) {
  return RANK[row.state] ?? (overdue(row, now) ? 3 : 4);
}

export function matches(row, state, words) {
  return (!state || row.state === state) && words.every((word) => row.hay.includes(word));
}

export function words(search) {
  return search.toLowerCase().split(/\s+/).filter(Boolean);
}

// Keys in order. `before` is the order of last time: sorting what is nearly sorted is cheap.
export function order(store, { state = null, search = "", by = "trouble", now, before = [] }) {
  const wanted = words(search);
  const list = [];
  const seen = new Set();
  const take = (row) => {
    if (!row || seen.has(row.key) || !matches(row, state, wanted)) return;
    seen.add(row.key);
    row.rank = trouble(row, now);
    list.push(row);
  };
  for (const key of before) take(store.rows.get(key));
  for (const row of store.rows.values()) take(row);
  return list.sort(comparisons[by] ?? comparisons.trouble).map((row) => row.key);
}

const byName = (a, b) => (a.natural < b.natural ? -1 : a.natural > b.natural ? 1 : a.key < b.key ? -1 : a.key > b.key ? 1 : 0);
const comparisons = {
  trouble: (a, b) => a.rank - b.rank || b.waiters - a.waiters || byName(a, b),
  name: byName,
  age: (a, b) => (a.since ?? Infinity) - (b.since ?? Infinity) || byName(a, b),
  waiters: (a, b) => b.waiters - a.waiters || byName(a, b),
};

// How many rows would appear, vanish or go elsewhere: what waits behind "3 changes". `places` maps a key to what decided its place.
export function changes(places, store, fresh) {
  let count = 0;
  const there = new Set(fresh);
  for (const key of places.keys()) if (!there.has(key)) count++;
  for (const key of fresh) if (places.get(key) !== place(store.rows.get(key))) count++;
  return count;
}

export function place(row) {
  return row ? row.rank * 1e6 + row.waiters : -1;
}
