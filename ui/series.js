// Owns what the page knows of the gateway: the latest facts, the last hour, and two minutes of rates by second. Nothing here grows with time.

import { History } from './history.js';

export const SECONDS = 120;
export const TAIL = 200;

/** The counters of a limit whose sum is a kind of answer. */
const REJECTED = ['refused', 'challenged', 'banned', 'concurrency_refused', 'store_unavailable', 'blocked'];
const SHADOW = ['shadow_refused', 'shadow_rates_refused'];
/** The kinds of results of requests, as the gateway counts them. */
const RESULTS = ['all', 'rejected', 'failed_by_gateway', 'failed_by_origins', 'clients_gone'];

const empty = () => ({ admitted: [], rejected: [], shadow: [] });
const NOTHING = { admitted: 0, rejected: 0, shadow: 0 };

export class Series {
  overview = null;
  state = null;
  problems = { problems: [], problems_omitted: 0 };
  /** Rates of results a second, null before two events can be compared; latency of the last ten seconds. */
  now = { inFlight: 0, connections: 0, rates: null, latency: null };
  total = { answered: [], rejected: [], failed: [], shadow: [] };
  latency = { p50: [], p90: [], p99: [] };
  /** By limit: { counts, load, rates }; `history` of rates, and `sums` of requests by second, only while something happened lately. */
  limits = new Map();
  rejections = [];
  /** Rejections seen in events, and events that were lost. */
  tailed = 0;
  dropped = 0;
  history = new History();
  /** The counts of limits when the history came: what was counted since then is not in it. */
  #base = new Map();
  #at = null;
  #requests = null;
  #listeners = new Set();

  listen(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Begins anew with the next event: sums of another process cannot be compared. */
  restart() {
    this.#at = null;
  }

  take(name, value) {
    if (name === 'overview') this.#overview(value);
    else if (name === 'state') this.state = value;
    else if (name === 'problems') this.problems = value;
    else if (name === 'counters') this.#counters(value);
    else if (name === 'history') this.#past(value);
    else if (name === 'rejections') this.#tail(value);
    else if (name === 'dropped') this.dropped += value.events;
    for (const listener of this.#listeners) listener(name);
  }

  limit(name) {
    return this.overview?.limits.find((limit) => limit.name === name);
  }

  /** The sum of counters of a limit, by their names. */
  sum(limit, names) {
    const counts = this.limits.get(limit)?.counts;
    return counts ? names.reduce((sum, name) => sum + (counts[this.overview.counters.indexOf(name)] ?? 0), 0) : 0;
  }

  /** The requests that limits rejected, and would have rejected, within the last hour: { name, rejected, shadow }. */
  lastHour() {
    return [...this.limits].map(([name, limit]) => {
      const since = limit.counts ? this.#grown(this.#base.get(name), limit.counts) : NOTHING;
      const sum = (answer) => this.history.sum(name, answer);
      return { name, rates: limit.rates, rejected: sum('rejected') + since.rejected, shadow: sum('shadow_rejected') + since.shadow };
    });
  }

  #past(value) {
    this.history.take(value);
    this.#base = new Map([...this.limits].map(([name, { counts }]) => [name, counts]));
  }

  #overview(value) {
    this.overview = value;
    const known = new Set(value.limits.map((limit) => limit.name));
    for (const name of this.limits.keys()) if (!known.has(name)) this.limits.delete(name);
    for (const name of known) if (!this.limits.has(name)) this.limits.set(name, { counts: null, load: null, rates: null, history: null, sums: null });
    this.indexes = {
      // A limit in shadow admits in shadow.
      admitted: [value.counters.indexOf('admitted'), value.counters.indexOf('shadow_admitted')],
      rejected: REJECTED.map((name) => value.counters.indexOf(name)),
      shadow: SHADOW.map((name) => value.counters.indexOf(name)),
    };
  }

  #counters(value) {
    const seconds = this.#at === null ? 0 : (value.at - this.#at) / 1000;
    const first = seconds <= 0;
    this.#at = value.at;
    for (const [name, load] of Object.entries(value.loads)) {
      const limit = this.limits.get(name);
      if (limit) limit.load = load;
    }
    let shadow = 0;
    for (const [name, limit] of this.limits) {
      const counts = Object.hasOwn(value.limits, name) ? value.limits[name] : null;
      if (first) limit.rates = null;
      const grown = first || !counts ? null : this.#grown(limit.counts, counts);
      if (counts) limit.counts = counts;
      if (grown || limit.history) record(limit, grown, seconds);
      limit.rates = grown && over(grown, seconds);
      shadow += limit.rates?.shadow ?? 0;
    }
    if (!first && this.#requests) {
      const rates = Object.fromEntries(RESULTS.map((kind) => [kind, Math.max(0, value.requests[kind] - this.#requests[kind]) / seconds]));
      const failed = rates.failed_by_gateway + rates.failed_by_origins + rates.clients_gone;
      this.now.rates = { ...rates, failed };
      push(this.total, { answered: rates.all - rates.rejected - failed, rejected: rates.rejected, failed, shadow });
    }
    this.#requests = value.requests;
    this.now.inFlight = value.in_flight;
    this.now.connections = value.connections;
    this.now.latency = value.latency_ms;
    push(this.latency, value.latency_ms ?? { p50: null, p90: null, p99: null });
  }

  #grown(before, now) {
    const by = (kind) => Math.max(0, sum(now, this.indexes[kind]) - (before ? sum(before, this.indexes[kind]) : 0));
    return { admitted: by('admitted'), rejected: by('rejected'), shadow: by('shadow') };
  }

  #tail(rows) {
    this.tailed += rows.length;
    this.rejections.unshift(...rows.reverse());
    this.rejections.length = Math.min(this.rejections.length, TAIL);
  }
}

const sum = (counts, indexes) => indexes.reduce((all, at) => all + (counts[at] ?? 0), 0);

function push(series, values) {
  for (const [name, points] of Object.entries(series)) {
    points.push(values[name]);
    if (points.length > SECONDS) points.shift();
  }
}

const over = (counts, seconds) => Object.fromEntries(Object.entries(counts).map(([kind, one]) => [kind, one / seconds]));

/** Adds a second to a limit's history, and forgets a history in which nothing happened. */
function record(limit, grown, seconds) {
  limit.history ??= empty();
  limit.sums ??= empty();
  push(limit.sums, grown ?? NOTHING);
  push(limit.history, grown ? over(grown, seconds) : NOTHING);
  limit.idle = grown ? 0 : (limit.idle ?? 0) + 1;
  if (limit.idle > SECONDS) limit.history = limit.sums = null;
}
