// A run: the requests of one page, decided by one lane in virtual time. No clock is read; the same requests give the same run.

import { NANOS_PER_MILLI } from './engine/time.js';
import { delayOf } from './lanes.js';

/** Virtual time begins where a window of every period that divides ten hours does. */
export const START_MILLIS = 1_800_000_000_000;
const moment = (at) => BigInt(START_MILLIS) * NANOS_PER_MILLI + BigInt(Math.round(at * 1000)) * 1000n;

/** A run of `lane`, with nothing decided yet. `keys` is "own" for a key of each client, or "shared". */
export const makeRun = (lane, keys, period) => ({ lane, keys, period: period * 1000, outcomes: [], states: new Map() });

const keyOf = (run, client) => (run.keys === 'own' ? client : 'all');
const latest = (run, key) => run.states.get(key) ?? run.lane.unused;

/** Decides the requests up to a time in milliseconds; requests are sorted by time. */
export function decideUntil(run, requests, at) {
  while (run.outcomes.length < requests.length && requests[run.outcomes.length].at <= at) {
    const request = requests[run.outcomes.length];
    const key = keyOf(run, request.client);
    const made = run.lane.decide(latest(run, key), moment(request.at), request.cost, key);
    run.states.set(key, made.state);
    const { admitted } = made.decision;
    const leaves = admitted ? request.at + delayOf(made.decision) : null;
    run.outcomes.push({ ...request, ...made, key, admitted, leaves });
  }
}

/** What a request of a client would get at a time after all outcomes; charges nothing. */
export function nextOutcome(run, client, at, cost) {
  const key = keyOf(run, client);
  return run.lane.decide(latest(run, key), moment(at), cost, key);
}

/** The state of a client's key at a time, as its lane views it, and how many of its requests wait. */
export function stateAt(run, client, at) {
  const key = keyOf(run, client);
  const state = latest(run, key);
  const waiting = run.outcomes.filter((one) => one.key === key && one.leaves > at).length;
  return { state, view: run.lane.view(state, moment(at)), further: run.lane.further(state, moment(at)), waiting };
}

/** The level at a time between outcomes, from the state after the outcome before it. */
export const levelAt = (run, state, at) => run.lane.level(run.lane.view(state ?? run.lane.unused, moment(at)));

/** The times at which units of a key left for the origin up to a time, sorted. */
export function departures(run, key, at) {
  const left = run.outcomes.filter((one) => one.key === key && one.admitted && one.leaves <= at);
  return left.flatMap((one) => Array(one.cost).fill(one.leaves)).sort((one, other) => one - other);
}

/** The most units of a key that left in any span of a period, and that span: what an exact log would have counted. */
export function mostInAnyPeriod(run, at, period = run.period) {
  let worst = { most: 0, from: 0, to: 0 };
  for (const key of new Set(run.outcomes.map((one) => one.key))) {
    const times = departures(run, key, at);
    let first = 0;
    times.forEach((time, last) => {
      while (times[first] <= time - period) first += 1;
      if (last - first + 1 > worst.most) worst = { most: last - first + 1, from: times[first], to: time };
    });
  }
  return worst;
}

/** The starts of the windows that a lane counts in, between two times. */
export function windowStarts(run, from, to) {
  const { windows } = run.lane;
  if (!windows) return [];
  const first = run.outcomes[0]?.key;
  if (windows === 'first-request') {
    const own = run.outcomes.filter((one) => one.admitted && one.key === first);
    const starts = own.map((one) => one.state[0].start - START_MILLIS);
    return [...new Set(starts)].filter((start) => start >= from && start <= to);
  }
  const starts = [];
  const offset = typeof windows === 'function' && first !== undefined ? windows(first) : 0;
  for (let start = windowEnd(from - 1 - offset, run.period) + offset; start <= to; start += run.period) starts.push(start);
  return starts;
}

/** The time at which the clock-aligned window of a time ends. */
export const windowEnd = (at, period) => at - ((START_MILLIS + at) % period) + period;
