// SPDX-License-Identifier: MIT
// What is known of all stores, as the server told it: rows by key, history, graph, findings. apply() takes one event of the stream and says
// what has changed; nothing here touches the document. Times are the server's; now() is the server's clock as well as we know it.

const HISTORY_MS = 15 * 60 * 1000;

// Numbers of 64 bits come as strings. Counts and times fit a double; tokens are never made numbers.
const number = (value) => (value === null || value === undefined ? null : Number(value));

function newStore(told) {
  return {
    id: String(told.id), name: told.name, location: told.location, engine: told.engine,
    waiters_tracked: told.waiters_tracked !== false, tokens: told.tokens !== false,
    opened: told.opened !== false, known: false, looked: true, absent: false, up: true, since: null, next_try: null, text: null, latency_us: null,
    rows: new Map(), staged: null, total: null,
    graph: { nodes: [], edges: [], circles: [], folded: 0 }, history: [], doctor: null, detail: null,
  };
}

// Orders names with numbers in them as people do: "job-9" before "job-10". The length of a number stands before its digits.
export function naturalKey(name) {
  return name.replace(/\d+/g, (digits) => {
    const number = digits.replace(/^0+/, "");
    return "9".repeat(Math.floor(number.length / 9)) + (number.length % 9) + number;
  });
}

function readRow(row) {
  for (const field of ["since", "until", "lost_at", "p50", "p99", "closed_until"]) row[field] = number(row[field]);
  for (const field of ["capacity", "taken", "waiters", "more_holders"]) row[field] = number(row[field]) ?? 0;
  row.token = String(row.token ?? "");
  row.natural = naturalKey(row.name);
  row.hay = `${row.name}\n${row.holder?.label ?? ""}\n${row.holder?.pid ?? ""}\n${row.token}`.toLowerCase();
  return row;
}

export class World {
  constructor() {
    this.stores = [];
    this.rights = { break: false, lease: false };
    this.version = "";
    this.live = false;
    this.stopped_at = null; // the server's time when the stream ended: ages stop there
    this.base = Date.now() - performance.now();
    this.on_deadlock = () => {};
    this.on_loss = () => {};
  }

  clock() {
    return this.base + performance.now();
  }

  // The time by which ages of `store` are counted: it stands still while the store, or the server, is away.
  now(store) {
    if (this.stopped_at !== null) return Math.min(this.stopped_at, store && !store.up ? store.since ?? Infinity : Infinity);
    return store && !store.up && store.since !== null ? store.since : this.clock();
  }

  stop() {
    if (this.live) this.stopped_at = this.clock();
    this.live = false;
  }

  store(id) {
    return this.stores.find((store) => store.id === String(id)) ?? null;
  }

  // Returns the kind of what has changed, or null for events that we do not know.
  apply(event, data) {
    if (event === "hello") return this.hello(data);
    const store = this.store(data.store);
    if (!store) return null;
    if (event !== "names") this.unstage(store);
    switch (event) {
      case "state": return this.state(store, data);
      case "names": return this.names(store, data);
      case "detail": return this.detail(store, data);
      case "graph": return this.graph(store, data);
      case "history": return this.history(store, data);
      case "doctor":
        store.doctor = { at: number(data.at), findings: data.findings ?? [] };
        return "doctor";
      default: return null;
    }
  }

  hello(data) {
    this.base = number(data.now) - performance.now();
    this.live = true;
    this.stopped_at = null;
    this.rights = { break: data.rights?.break === true, lease: data.rights?.lease === true };
    this.version = data.version ?? "";
    // A store that we know already keeps its rows: the first "names" replaces them in one step.
    this.stores = (data.stores ?? []).map((told) => {
      const known = this.store(told.id);
      if (!known || known.location !== told.location || known.name !== told.name) return newStore(told);
      known.opened = told.opened !== false;
      known.staged = null;
      known.waiters_tracked = told.waiters_tracked !== false;
      known.tokens = told.tokens !== false;
      return known;
    });
    return "hello";
  }

  state(store, data) {
    store.up = data.up === true;
    store.looked = data.looked !== false;
    store.absent = data.absent === true;
    store.since = number(data.since);
    store.next_try = number(data.next_try);
    store.text = data.text ?? null;
    store.latency_us = number(data.latency_us);
    return "state";
  }

  // A new stream tells all rows again, in batches. As long as it has not told all of them, those of the stream before stay: the list
  // must not shrink and grow because a person has opened a name.
  names(store, data) {
    if (data.reset) store.staged = new Map();
    const into = store.staged ?? store.rows;
    for (const told of data.set ?? []) {
      const row = readRow(told);
      const old = store.rows.get(row.key);
      if (row.state === "lost" && old && old.state !== "lost") this.on_loss(store, row);
      into.set(row.key, row);
    }
    for (const key of data.gone ?? []) into.delete(key);
    store.total = data.total ?? store.total;
    if (store.staged && (!store.known || into.size >= namesOf(store))) this.unstage(store);
    store.known = true;
    return "names";
  }

  // Whatever else the server tells of a store comes after all of its rows.
  unstage(store) {
    if (store.staged) store.rows = store.staged;
    store.staged = null;
  }

  detail(store, data) {
    const times = (item) => {
      for (const field of ["since", "until", "ttl_seen"]) if (field in item) item[field] = number(item[field]);
      if ("token" in item) item.token = String(item.token ?? "");
      return item;
    };
    store.detail = { key: data.key, holders: (data.holders ?? []).map(times), waiters: (data.waiters ?? []).map(times), waiters_total: number(data.waiters_total) ?? 0 };
    return "detail";
  }

  graph(store, data) {
    const before = new Set(store.graph.circles.map(circleId));
    store.graph = {
      nodes: (data.nodes ?? []).map((node) => ({ ...node, id: String(node.id), has: node.has ?? [] })),
      edges: (data.edges ?? []).map((edge) => ({ ...edge, from: String(edge.from), to: String(edge.to), since: number(edge.since) })),
      circles: (data.circles ?? []).map((circle) => ({ ...circle, nodes: circle.nodes.map(String), victim: circle.victim === null || circle.victim === undefined ? null : String(circle.victim) })),
      folded: number(data.folded) ?? 0,
    };
    for (const circle of store.graph.circles) if (!before.has(circleId(circle))) this.on_deadlock(store, circle);
    return "graph";
  }

  // A point counts the hand-overs of its interval; the page shows them for a second.
  history(store, data) {
    const seconds = (number(data.interval_ms) ?? 1000) / 1000;
    const points = (data.points ?? []).map((point) => ({
      at: number(point.at), handovers: point.handovers === null ? null : number(point.handovers) / seconds, wait_p50: number(point.wait_p50), wait_p99: number(point.wait_p99),
      hold_p50: number(point.hold_p50), hold_p99: number(point.hold_p99), away: point.away === true,
    }));
    store.history = data.reset ? points : store.history.concat(points);
    const last = store.history[store.history.length - 1];
    if (last) {
      const from = store.history.findIndex((point) => point.at > last.at - HISTORY_MS);
      if (from > 0) store.history.splice(0, from);
    }
    return "history";
  }
}

export function circleId(circle) {
  return [...circle.nodes].sort().join(" ");
}

// When a circle closed: its last wait began.
export function circleSince(graph, circle) {
  const inside = new Set(circle.nodes);
  return graph.edges.reduce((latest, edge) => (inside.has(edge.from) && inside.has(edge.to) ? Math.max(latest, edge.since ?? 0) : latest), 0) || null;
}

// Has the store told anything yet? Else its numbers are not zero: they are not known.
export function isKnown(store) {
  return store.known && (store.looked || store.absent);
}

// The worst that a person should see first of a store: for its mark.
export function health(store) {
  if (!store.up) return store.looked || store.text ? "away" : "unknown";
  if (store.absent) return "absent";
  if ((store.total?.by_state?.deadlock ?? store.total?.deadlock ?? 0) > 0 || store.graph.circles.length > 0) return "deadlock";
  const levels = new Set((store.doctor?.findings ?? []).map((finding) => finding.level));
  if (levels.has("bad")) return "bad";
  return levels.has("warning") || countOf(store, "at_risk") > 0 ? "warning" : "ok";
}

export function countOf(store, state) {
  const total = store.total;
  return total ? number(total.by_state?.[state] ?? total[state]) ?? 0 : 0;
}

export function namesOf(store) {
  return number(store.total?.names) ?? store.rows.size;
}
