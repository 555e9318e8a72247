// SPDX-License-Identifier: MIT
// The server-sent events, by fetch: so the bearer token can be a header, and the time until the next try is known and shown. A stream that
// opens another name replaces the one before only when it has begun to speak: nothing on the page is ever without a source.

const WAITS_MS = [1000, 2000, 4000, 8000, 15000];

// Splits text that arrives in pieces into events {event, data}.
export class Parser {
  constructor(take) {
    this.take = take;
    this.rest = "";
    this.seen = 0;
  }

  feed(text) {
    this.rest += text;
    let begin = 0;
    for (;;) {
      const end = this.rest.indexOf("\n\n", Math.max(begin, this.seen - 1));
      if (end < 0) break;
      this.block(this.rest.slice(begin, end));
      begin = end + 2;
      this.seen = begin;
    }
    this.rest = this.rest.slice(begin);
    this.seen = this.rest.length;
  }

  block(text) {
    let event = "message";
    const data = [];
    for (const line of text.split("\n")) {
      if (line.startsWith("event:")) event = line.slice(6).trim();
      else if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
    }
    if (data.length) this.take(event, data.join("\n"));
  }
}

// A key is a name in percent-encoding already; whatever else should be in one cannot leave its place in an address.
export function keyPath(key) {
  return key.replace(/[^A-Za-z0-9_.~%-]/g, encodeURIComponent);
}

// on.event(name, object), on.status({state: "connecting" | "live" | "waiting" | "refused", until, since}).
export class Stream {
  constructor(on) {
    this.on = on;
    this.token = "";
    this.open = null;
    this.tries = 0;
    this.current = null; // the run that may speak
    this.next = null; // one that has not spoken yet
    this.timer = 0;
    this.since = 0;
  }

  start() {
    this.run();
  }

  // The name whose detail we want, or null.
  setOpen(id, key) {
    const open = key === null ? null : `${encodeURIComponent(id)}/${keyPath(key)}`;
    if (open === this.open) return;
    this.open = open;
    this.run();
  }

  setToken(token) {
    this.token = token;
    this.run();
  }

  headers() {
    return this.token ? { Authorization: `Bearer ${this.token}` } : {};
  }

  address() {
    return this.open ? `/api/v1/watch?open=${this.open}` : "/api/v1/watch";
  }

  async run() {
    clearTimeout(this.timer);
    this.next?.abort();
    const run = new AbortController();
    this.next = run;
    if (!this.current) this.on.status({ state: "connecting", since: this.since });
    try {
      const answer = await fetch(this.address(), { headers: { ...this.headers(), Accept: "text/event-stream" }, signal: run.signal, cache: "no-store", credentials: "omit" });
      if (answer.status === 401 || answer.status === 403) return this.refused(run);
      if (!answer.ok || !answer.body) throw new Error(String(answer.status));
      await this.read(answer.body.getReader(), run);
    } catch (error) {
      // Ended, below; or replaced by another run, which has its own.
    }
    if (!run.signal.aborted) this.ended(run);
  }

  async read(reader, run) {
    const decoder = new TextDecoder();
    const parser = new Parser((event, data) => this.spoke(run, event, data));
    for (;;) {
      const { done, value } = await reader.read();
      if (done || run.signal.aborted) return;
      parser.feed(decoder.decode(value, { stream: true }));
    }
  }

  spoke(run, event, data) {
    if (run.signal.aborted) return;
    if (this.next === run) {
      this.current?.abort();
      this.current = run;
      this.next = null;
      this.tries = 0;
      this.since = 0;
      this.on.status({ state: "live" });
    }
    let object;
    try {
      object = JSON.parse(data);
    } catch (error) {
      return; // not ours
    }
    this.on.event(event, object);
  }

  refused(run) {
    if (this.next === run) this.next = null;
    this.current?.abort();
    this.current = null;
    this.on.status({ state: "refused" });
  }

  ended(run) {
    if (this.next !== run && this.current !== run) return;
    if (this.current === run) this.current = null;
    if (this.next && this.next !== run) return; // it takes over
    this.current?.abort();
    this.current = this.next = null;
    this.since ||= Date.now();
    const wait = WAITS_MS[Math.min(this.tries++, WAITS_MS.length - 1)];
    this.on.status({ state: "waiting", until: Date.now() + wait, since: this.since });
    this.timer = setTimeout(() => this.run(), wait);
  }

  retryNow() {
    if (!this.current && !this.next) this.run();
  }
}
