// A count and the moment when it began: the state of fixed windows, and of buckets that are refilled at intervals.
//
// Port of crates/limiter/src/algorithm/begun_window.rs.

import { modulo } from './time.js';

// The engine keeps 39 bits of the start, and takes one up to a day ahead for a clock that stepped back.
const ROUND = 2 ** 39;
const DAY = 24 * 60 * 60 * 1000;

/** The state `{ start, count }` as seen at `millis`; a start too far ahead is one from the round before. */
export function begunAt(state, millis) {
  const ahead = modulo(state.start - millis, ROUND);
  return { start: millis + (ahead <= DAY ? ahead : ahead - ROUND), count: state.count };
}
