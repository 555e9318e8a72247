// SPDX-License-Identifier: MIT
/**
 * Holdfast for Node: distributed locks with fencing tokens. The C library does the work; every call is asynchronous, and one
 * descriptor for each store is polled by Node's own event loop.
 *
 * Durations are numbers of milliseconds, and `Infinity` is for ever. Names are text (UTF-8) or bytes. Tokens are numbers, because
 * they are below 2^53; versions and counters have 64 bits and are BigInts.
 *
 * @packageDocumentation
 */

/// <reference types="node" />

/** The name of a lock, a cell, ...: 1 to 512 bytes. */
export type Name = string | Uint8Array;
/** What a cell holds: a string is written as UTF-8. */
export type Bytes = string | Uint8Array;

export type Kind = 'mutex' | 'shared' | 'exclusive' | 'semaphore' | 'upgradeable';
export type LeaseState = 'held' | 'atRisk' | 'lost';
export type TokenStrength = 'none' | 'whileDurable' | 'strict';
/** What an engine can do: `HF_CAP_*` of the C library. */
export type Capability =
  | 'shared' | 'semaphore' | 'wait' | 'fifo' | 'ttl' | 'process' | 'detached' | 'token' | 'pass' | 'barge' | 'lockDelay'
  | 'inspect' | 'waiters' | 'break' | 'watch' | 'cells' | 'cellTtl' | 'cellWatch' | 'clock' | 'scripts' | 'wanted' | 'linger'
  | 'commit' | 'convert' | 'numbered' | 'resize';

/** How long a call waits, and what ends it early. */
export interface WaitOptions {
  /** At most this long, in ms; 0: try once. Default: `Infinity`. */
  wait?: number | undefined;
  /** Ends the wait: the promise is rejected with a {@link CancelledError}, and nothing stays held. */
  signal?: AbortSignal | undefined;
}

/** What a request for a lock may say beside its name and kind. */
export interface LeaseOptions {
  /** The lease ends after this unless it is renewed, which happens by itself. Default: the engine's. */
  ttl?: number | undefined;
  /** The lease ends after this, whatever happens. */
  maxHold?: number | undefined;
  /** A grant with less validity left is given back (status TOO_SHORT). */
  minValid?: number | undefined;
  /** The name stays held for this long, even if it is released before. */
  minHold?: number | undefined;
  /** After an unclean loss the name stays closed this long. */
  lockDelay?: number | undefined;
  /** How long the released lease may stay with this process; false: not at all, whatever the URL says. */
  linger?: number | false | undefined;
  /** For people: who we are. Default: the store's label. */
  label?: string | undefined;
  /** Identity for `reentrant` and for deadlock detection: {@link newScope}. */
  scope?: bigint | number | undefined;
  /** {@link Lease.session} of the process that we work for. */
  session?: string | undefined;
  /** May overtake waiters. */
  barge?: boolean | undefined;
  /** The same `scope` may take it again; it gets the same {@link Lease}, and each needs its own release. */
  reentrant?: boolean | undefined;
  /** The lease is not renewed by itself. */
  noRenew?: boolean | undefined;
  /** The lease outlives this process: {@link Lease.export}. */
  detached?: boolean | undefined;
  /** First come, first served across all processes. */
  strict?: boolean | undefined;
  noDeadlockCheck?: boolean | undefined;
  /** The holder is told that others wait: events `wanted`, `unwanted`, `asked`. */
  watch?: boolean | undefined;
  /** Semaphores: each permit has a number, {@link LeaseInfo.slots}. */
  numbered?: boolean | undefined;
}

export interface LockOptions extends LeaseOptions, WaitOptions {}
export interface TryOptions extends LeaseOptions {
  signal?: AbortSignal | undefined;
}
export interface SemaphoreOptions extends LockOptions {
  /** How many are taken. Default: 1. */
  permits?: number | undefined;
}
export interface TrySemaphoreOptions extends TryOptions {
  permits?: number | undefined;
}

/** One of several requests. */
export interface LeaseRequest extends LeaseOptions {
  name: Name;
  /** Default: `mutex`. */
  kind?: Kind | undefined;
  capacity?: number | undefined;
  permits?: number | undefined;
}

export interface OpenOptions {
  /** For people: who we are. Default: host, pid, user, program. */
  label?: string | undefined;
  /** Give up after this, in ms. Default: 5000. */
  wait?: number | undefined;
  /** Use only what exists. */
  existing?: boolean | undefined;
  /** Try each address once. */
  once?: boolean | undefined;
  /** Do not wait for the server. */
  noWait?: boolean | undefined;
  signal?: AbortSignal | undefined;
}

/**
 * Open the store at `url`: `file:/path`, `redis://host`, ..., or the name of a profile. Without a URL it is the store that the
 * command `holdfast` uses without -S: the variable HOLDFAST_STORE, else the `default` of the configuration file, else the user's
 * own embedded store. An empty text is an error.
 */
export function open(url?: string | null, options?: OpenOptions): Promise<Store>;
/** All engines, whether they are available, and what they promise. */
export function engines(): EngineInfo[];
/** An identity for `scope` that nobody else in this process has. */
export function newScope(): bigint;
/** The version of the C library. */
export const version: string;
/** `Symbol.asyncDispose`, also where Node does not have it yet. */
export const asyncDispose: typeof Symbol.asyncDispose;

export interface Lack {
  caps: Capability[];
  why: string;
}

export interface EngineMode {
  name: string;
  schemes: string[];
  available: boolean;
  /** Why it is not available. */
  whyNot?: string | undefined;
  /** What a URL says to have these promises; empty: nothing. */
  choice: string;
  caps?: Capability[] | undefined;
  tokens?: TokenStrength | undefined;
  onCrash?: string;
  onPause?: string;
  onClockJump?: string;
  onServerLoss?: string;
  onPartition?: string;
  fairness?: string;
  wakeup?: string;
  lacks?: Lack[] | undefined;
}

export interface EngineInfo extends EngineMode {
  /** The sets of promises among which its URL chooses; the first is the default. */
  modes: EngineMode[];
}

export interface StoreInfo {
  engine: string;
  /** The URL or path in use, without secrets. */
  location: string;
  caps: Capability[];
  tokens: TokenStrength;
  /** In ms; 0: leases have no ttl unless asked for. */
  defaultTtl: number;
  minTtl: number;
  /** 0: no limit. */
  maxTtl: number;
  /** What it cannot do, and why. */
  lacks: Lack[];
  /** What chose it: "the caller", "HOLDFAST_STORE", "profile NAME in FILE" or "the built-in default". */
  source: string;
}

/** Durations in ms, counted by their length. */
export class Histogram {
  private constructor();
  readonly count: number;
  /** In ms. */
  readonly sum: number;
  /** Not cumulative: `buckets[i]` counts durations below `Histogram.bounds[i]`, and not below the bound before. */
  readonly buckets: readonly number[];
  /** The upper bounds of the buckets in ms: 1, 2, 4, ...; `Infinity` for the last one. */
  static readonly bounds: readonly number[];
  /** The bound in ms below which this share of the durations lies (0.5: the median). 0: there are none. */
  quantile(share: number): number;
}

/** What this process has done with a store since it was opened. Every number but `held` only grows. */
export interface StoreStats {
  /** Acquisitions by their outcome; this one and the six behind it. */
  granted: number;
  busy: number;
  timeouts: number;
  cancelled: number;
  deadlocks: number;
  /** Settled in the background. */
  unknown: number;
  /** With any other status. */
  failed: number;
  /** One hold more of what was held; not in `granted`. */
  reentries: number;
  /** Granted by the store, after a wait there. */
  handovers: number;
  /** Granted by a call of this process that released it. */
  passes: number;
  /** It had stayed with the process: `linger`. */
  lingered: number;
  /** Of granted acquisitions. */
  waits: Histogram;
  /** Held now. */
  held: number;
  /** Of holds that have ended, lost ones too. */
  holds: Histogram;
  renewals: number;
  /** Refused, or not confirmed. */
  renewalsFailed: number;
  /** By reason. */
  losses: { expired: number; maxHold: number; broken: number; forgotten: number; closed: number } & Record<string, number>;
  /** Settled in the background. */
  releasesUnknown: number;
  /** Connections that were made again. */
  reconnects: number;
  /** Requests that were sent to servers. */
  commands: number;
}

export interface Finding {
  level: 'ok' | 'warning' | 'bad';
  topic: string;
  text: string;
  /** A fact to know, which is no fault: "no replicas". The level is 'ok'. */
  note: boolean;
}

export interface Holder {
  token: number;
  first: number;
  permits: number;
  detached: boolean;
  age: number;
  /** Left, in ms; -1: none. */
  ttl: number;
  /** 0: unknown. */
  pid: number;
  tid: number;
  label: string;
  session: bigint;
  lingers: boolean;
  idle: boolean;
  watched: boolean;
  slots: number[];
}

export interface Waiter {
  /** 1 is next. */
  position: number;
  permits: number;
  kind: Kind;
  age: number;
  pid: number;
  label: string;
  session: bigint;
}

export interface Entry {
  name: string;
  nameBytes: Buffer;
  kind: Kind;
  capacity: number;
  taken: number;
  /** What is left of a lock delay, in ms. */
  closed: number;
  resized: boolean;
  holders: Holder[];
  waiters: Waiter[];
}

export interface View {
  entries: Entry[];
  /** false: this engine cannot list waiters. */
  waitersTracked: boolean;
}

export interface DeadlockWaiter {
  name: string;
  nameBytes: Buffer;
  token: number;
  session: bigint;
  age: number;
  pid: number;
  label: string;
}

/** A store. `await using store = await open(url)` closes it, and releases what is held. */
export class Store {
  private constructor();
  /** Acquire a lock; wait for ever unless `wait` says otherwise. */
  lock(name: Name, options?: LockOptions): Promise<Lease>;
  /** Try once; null: somebody else holds it. */
  tryLock(name: Name, options?: TryOptions): Promise<Lease | null>;
  /** A reader of a read-write lock. */
  shared(name: Name, options?: LockOptions): Promise<Lease>;
  tryShared(name: Name, options?: TryOptions): Promise<Lease | null>;
  /** The writer of a read-write lock. */
  exclusive(name: Name, options?: LockOptions): Promise<Lease>;
  tryExclusive(name: Name, options?: TryOptions): Promise<Lease | null>;
  /** The one reader that may become the writer: {@link Lease.convert}. */
  upgradeable(name: Name, options?: LockOptions): Promise<Lease>;
  tryUpgradeable(name: Name, options?: TryOptions): Promise<Lease | null>;
  /** Some permits of a semaphore with `capacity` of them. */
  semaphore(name: Name, capacity: number, options?: SemaphoreOptions): Promise<Lease>;
  trySemaphore(name: Name, capacity: number, options?: TrySemaphoreOptions): Promise<Lease | null>;
  /** Run `work` under the lock, and release it whatever happens. A lease that was lost meanwhile makes it fail. */
  withLock<T>(name: Name, work: (lease: Lease) => T | PromiseLike<T>): Promise<T>;
  withLock<T>(name: Name, options: LockOptions | undefined, work: (lease: Lease) => T | PromiseLike<T>): Promise<T>;
  /** All of them or nothing; `options` are for all. The leases come in the order of the requests. */
  acquireAll(requests: readonly (Name | LeaseRequest)[], options?: LockOptions): Promise<Lease[]>;
  tryAcquireAll(requests: readonly (Name | LeaseRequest)[], options?: TryOptions): Promise<Lease[] | null>;
  /** One of them, whichever comes free first. */
  acquireAny(requests: readonly (Name | LeaseRequest)[], options?: LockOptions): Promise<{ index: number; lease: Lease }>;
  tryAcquireAny(requests: readonly (Name | LeaseRequest)[], options?: TryOptions): Promise<{ index: number; lease: Lease } | null>;
  /** Release them all, whatever happens; fails as the first that failed. */
  releaseAll(leases: readonly Lease[]): Promise<void>;
  /** Take over a detached lease: `text` is what {@link Lease.export} returned. */
  adopt(name: Name, text: string, options?: { ttl?: number | undefined; renew?: boolean | undefined }): Promise<Lease>;

  /** Set the size of a semaphore; 0: as requests say. */
  resize(name: Name, capacity: number): Promise<void>;
  /** Ask the holders (those with `watch`) to give it away. */
  ask(name: Name, text?: string): Promise<void>;
  /** End exactly the lease that holds `name` with `token`, whoever owns it. */
  breakLease(name: Name, token: number): Promise<void>;
  /** Holders and waiters: of one name, of names that match a pattern, or of all. */
  inspect(what?: Name | { pattern?: string | undefined }): Promise<View>;
  /** Wait until something has changed since `since`, a result of this call; without it: since now. */
  wait(since?: bigint, options?: WaitOptions): Promise<bigint>;
  /** The cycles of requests that wait for each other now. */
  deadlocks(): Promise<DeadlockWaiter[][]>;
  /** Is this store safe for what it promises? */
  check(): Promise<Finding[]>;
  info(): StoreInfo;
  /** What this process has done with this store, as numbers: for metrics. */
  stats(): StoreStats;

  cell(name: Name): Cell;
  /** Write several cells in one step, if all have the versions that are expected; else a {@link ChangedError}. */
  commit(items: readonly CommitItem[]): Promise<bigint[]>;
  /** A cell that ends with a lease ({@link Lease.setCell}); null: there is none. */
  leaseCell(name: Name): Promise<{ bytes: Buffer; version: bigint } | null>;
  counter(name: Name): Counter;
  guard(name: Name): Guard;
  limit(name: Name, rule?: LimitRule): Limit;
  latch(name: Name): Latch;
  barrier(name: Name, parties: number): Barrier;
  election(name: Name): Election;
  group(name: Name): Group;
  once(name: Name): Once;

  readonly closed: boolean;
  /** Close it. While it is in use: an {@link InUseError}, unless `release`: then waits end, and leases are lost and released. */
  close(options?: { release?: boolean | undefined }): Promise<void>;
  /** `close({ release: true })` */
  [Symbol.asyncDispose](): Promise<void>;
}

export interface LeaseInfo {
  name: string;
  nameBytes: Buffer;
  token: number;
  state: LeaseState;
  kind: Kind;
  holds: number;
  /** In ms; `Infinity`: no limit. */
  remaining: number;
  age: number;
  ttl: number;
  wanted: boolean;
  asks: number;
  /** The numbers of its permits (`numbered`). */
  slots: number[];
}

export type LeaseEventType = 'atRisk' | 'held' | 'lost' | 'wanted' | 'unwanted' | 'asked';

export interface LeaseEvent {
  type: LeaseEventType;
  /** `lost`, `atRisk`: why. `asked`: what the asker says; it is a stranger's text. */
  text: string | undefined;
}

/**
 * A lease. `await using lease = await store.lock(name)` releases it at the end of the block. A lease that is forgotten is reported by
 * `process.emitWarning()` and stays held until its store is closed.
 */
export class Lease {
  protected constructor();
  readonly name: string;
  /** The fencing token. It changes with {@link yield} and {@link convert}. */
  readonly token: number;
  readonly state: LeaseState;
  /** Validity left, in ms; `Infinity`: no limit; 0 when lost or released. */
  readonly remaining: number;
  /** `remaining > 0` */
  readonly valid: boolean;
  /** Others wait for it (`watch`). */
  readonly wanted: boolean;
  readonly released: boolean;
  /** Aborted when the lease is lost, with a {@link LostError}: for `fetch()` and others that do its work. */
  readonly signal: AbortSignal;
  /** Give it back. A {@link LostError}: it was lost before. Whatever happens, the lease has ended. */
  release(): Promise<void>;
  /** Renew it now. */
  renew(ttl?: number): Promise<void>;
  info(): LeaseInfo;
  /** The token as a fence. An {@link UnsupportedError}: it is none, for several leases may overlap. */
  fence(): number;
  /**
   * Give it to those that wait, and take it again behind them. true: it was given away, what it protects may have changed. An error with the
   * status INVALID: it was released meanwhile, and what came back was given back.
   */
  yield(options?: WaitOptions): Promise<boolean>;
  /** Make a lease of a read-write lock one of another kind, without a gap. */
  convert(kind: Kind, options?: WaitOptions): Promise<void>;
  /** A detached lease as a text for {@link Store.adopt}. It is a secret. */
  export(): string;
  /** The session that holds it, for a process that works for us. */
  session(around?: string): string;
  /** Write a cell that ends with this lease: {@link Store.leaseCell}. */
  setCell(name: Name, bytes: Bytes): Promise<void>;
  /** What happens to it, until it is lost or released. A loop that waits keeps the program running. */
  events(options?: { signal?: AbortSignal | undefined }): AsyncIterableIterator<LeaseEvent>;
  /** Listeners do not keep the program running. */
  on(type: LeaseEventType, listener: (event: LeaseEvent) => void): this;
  once(type: LeaseEventType, listener: (event: LeaseEvent) => void): this;
  off(type: LeaseEventType, listener: (event: LeaseEvent) => void): this;
  addListener(type: LeaseEventType, listener: (event: LeaseEvent) => void): this;
  removeListener(type: LeaseEventType, listener: (event: LeaseEvent) => void): this;
  /** `release()`, unless it was released before. */
  [Symbol.asyncDispose](): Promise<void>;
}

export interface CellState {
  bytes: Buffer;
  version: bigint;
  /** Left, in ms; undefined: it stays. */
  ttl: number | undefined;
}

export interface CommitItem {
  name: Name;
  /** The version that it must have; 0n: there must be none; undefined: whatever is there. */
  version?: bigint | number | undefined;
  /** Default: `write` if there are bytes, else `leave`, which only asserts the version. */
  action?: 'write' | 'delete' | 'leave' | undefined;
  bytes?: Bytes | undefined;
  ttl?: number | undefined;
}

/** Bytes with a version. */
export interface Cell {
  readonly name: Name;
  get(): Promise<CellState | null>;
  /** Write it, whatever is there. */
  set(bytes: Bytes, options?: { ttl?: number | undefined }): Promise<bigint>;
  /** Write it if it still has `version` (0n: if there is none); null: it has not. */
  swap(version: bigint | number, bytes: Bytes, options?: { ttl?: number | undefined }): Promise<bigint | null>;
  /** false: it has another version. */
  delete(version: bigint | number): Promise<boolean>;
  /**
   * Let `decide` say what becomes of it: bytes, null (delete) or undefined (leave). It may be called several times, and must be
   * synchronous and without side effects. What it throws, the call throws.
   */
  update(
    decide: (bytes: Buffer | null, version: bigint) => Bytes | { bytes: Bytes; ttl?: number } | null | undefined,
    options?: WaitOptions,
  ): Promise<bigint>;
  /** Wait until its version is not `version`. 0n: there is none. */
  wait(version: bigint | number, options?: WaitOptions): Promise<bigint>;
  /** The present state, and then each change; states in between may be left out. */
  changes(options?: { signal?: AbortSignal | undefined }): AsyncGenerator<CellState | null, never, void>;
}

/** A number of 64 bits. One that does not exist is 0n. */
export interface Counter {
  readonly name: Name;
  add(delta?: bigint | number): Promise<bigint>;
  get(): Promise<bigint>;
  set(value: bigint | number): Promise<void>;
  swap(expected: bigint | number, value: bigint | number): Promise<{ swapped: boolean; value: bigint }>;
  delete(): Promise<void>;
}

/** Bytes that refuse every token that is older than the newest one seen: a {@link FencedError}. */
export interface Guard {
  readonly name: Name;
  /** Present the token, and read. null: nothing was written yet. */
  claim(by: Lease | number): Promise<Buffer | null>;
  set(by: Lease | number, bytes: Bytes): Promise<void>;
}

export interface LimitRule {
  /** Default: `bucket`. */
  algorithm?: 'fixed' | 'sliding' | 'bucket' | undefined;
  /** Permits in `per`. */
  rate?: number | undefined;
  /** In ms. Default: 1000. */
  per?: number | undefined;
  /** Bucket only: the most at once. */
  burst?: number | undefined;
}

export interface LimitState {
  left: number;
  refill: number;
  waited: number;
  /** Refused: the `wait` that would have been enough. */
  retry: number;
  /** Granted: when, by the store's clock, in ms since 1970. */
  at: number;
  per: number;
  rate: number;
  burst: number;
  algorithm: 'fixed' | 'sliding' | 'bucket';
  /** The rule was set by {@link Limit.set}. */
  isSet: boolean;
}

/** A rate limit. */
export interface Limit {
  readonly name: Name;
  /** A {@link TimeoutError} or {@link BusyError} has the state in its property `limit`. */
  take(options?: WaitOptions & { permits?: number | undefined }): Promise<LimitState>;
  /** null: it would have to wait. */
  tryTake(options?: { permits?: number | undefined }): Promise<LimitState | null>;
  /** null: nothing of it was used, and no rule was set. */
  get(): Promise<LimitState | null>;
  /** Set its rule for all; rate 0: as requests say. */
  set(): Promise<LimitState>;
}

/** Of a participant of a latch or barrier. */
export interface PartyOptions {
  /** The ttl of its lease, in ms: the others notice its death after that time. Default: that of the store. */
  ttl?: number | undefined;
}

/** It opens when each of its participants has counted down. */
export interface Latch {
  readonly name: Name;
  create(count: number): Promise<void>;
  /** How many are missing then. */
  countDown(who: string): Promise<number>;
  /** A participant that joins and ends before it has counted down breaks the latch. */
  join(who: string, options?: WaitOptions & PartyOptions): Promise<Lease>;
  wait(options?: WaitOptions): Promise<void>;
  get(): Promise<{ count: number; left: number }>;
  delete(): Promise<void>;
}

/** All go on together. */
export interface Barrier {
  readonly name: Name;
  readonly parties: number;
  wait(options?: WaitOptions & PartyOptions & { who?: string | undefined }): Promise<void>;
  /** A double barrier: enter together, leave together. */
  enter(options?: WaitOptions & PartyOptions & { who?: string | undefined }): Promise<Party>;
}

/** A place inside a double barrier. */
export class Party extends Lease {
  leave(options?: WaitOptions): Promise<void>;
}

export type LeaderState =
  | { leads: true; token: number; value: Buffer; label: string; version: bigint }
  | { leads: false; version: bigint };

export interface Election {
  readonly name: Name;
  /** Wait until we lead, and publish `value`. */
  campaign(value: Bytes, options?: LockOptions & { kind?: 'mutex' | 'exclusive' | undefined }): Promise<Leader>;
  /** Wait for something else than `last`, a result of this call; without it: at once. */
  wait(last?: LeaderState, options?: WaitOptions): Promise<LeaderState>;
  leaders(options?: { signal?: AbortSignal | undefined }): AsyncGenerator<LeaderState, never, void>;
}

/** The lease of a leader. */
export class Leader extends Lease {
  publish(value: Bytes): Promise<void>;
  resign(): Promise<void>;
}

export interface MemberState {
  token: number;
  value: string;
  age: number;
  /** Left, in ms; -1: none. */
  ttl: number;
  pid: number;
}

/** Those that are alive. */
export interface Group {
  readonly name: Name;
  join(value?: string, options?: LockOptions): Promise<Member>;
  /** Wait for others than `last`, a result of this call; without it: at once. */
  members(last?: MemberState[], options?: WaitOptions): Promise<MemberState[]>;
  changes(options?: { signal?: AbortSignal | undefined }): AsyncGenerator<MemberState[], never, void>;
}

/** The lease of a member. */
export class Member extends Lease {
  leave(): Promise<void>;
}

export interface OnceMark {
  token: number;
  at: Date;
  /** How long it stays, in ms; undefined: for ever. */
  ttl: number | undefined;
  label: string;
}

export interface OnceOptions extends LockOptions {
  /** How long the mark stays. Default: for ever. */
  keep?: number | undefined;
  kind?: 'mutex' | 'exclusive' | undefined;
}

/** Work that is done once. */
export interface Once {
  readonly name: Name;
  /** `task`: it is ours to do; finish() and release() it. `mark`: it was done before. */
  begin(options?: OnceOptions): Promise<{ task: Task; mark?: undefined } | { mark: OnceMark; task?: undefined }>;
  /** Run `work` unless it was done before. true: we did it. */
  run(work: (task: Task) => unknown, options?: OnceOptions): Promise<boolean>;
  get(): Promise<OnceMark | null>;
  /** Begin under a lease that is held. null: it is ours to do. */
  claim(lease: Lease, options?: { keep?: number | undefined }): Promise<OnceMark | null>;
  finish(lease: Lease): Promise<void>;
  /** false: there was no mark. */
  delete(): Promise<boolean>;
}

/** The lease of work that is done once. */
export class Task extends Lease {
  finish(): Promise<void>;
}

/** What all errors of the library are. */
export class HoldfastError extends Error {
  protected constructor();
  /** `BUSY`, `LOST`, ...: the names of the C library. */
  readonly status: string;
  readonly statusNumber: number;
  /** The engine's own code; 0: none. */
  readonly native: number;
  /** The same as `message`. It never holds a password. */
  readonly text: string;
  /** `HF_BUSY`, ...; `ABORT_ERR` if an AbortSignal ended the call. */
  code: string;
  /** A limit that refused. */
  limit?: LimitState;
}
export class BusyError extends HoldfastError {}
export class TimeoutError extends HoldfastError {}
/** Its `name` is `AbortError`, and `cause` the signal's reason. */
export class CancelledError extends HoldfastError {}
export class MismatchError extends HoldfastError {}
export class LostError extends HoldfastError {}
export class NotFoundError extends HoldfastError {}
export class InvalidError extends HoldfastError {}
export class ConfigError extends HoldfastError {}
export class UnsupportedError extends HoldfastError {}
export class UnavailableError extends HoldfastError {}
export class DeniedError extends HoldfastError {}
/** The store may or may not have done it. */
export class UnknownError extends HoldfastError {}
export class InUseError extends HoldfastError {}
/** A newer token has been used: stop. */
export class FencedError extends HoldfastError {}
export class DeadlockError extends HoldfastError {}
/** Of a commit: which item has another version, and which. */
export class ChangedError extends HoldfastError {
  index?: number;
  version?: bigint;
}
export class BrokenError extends HoldfastError {}
