// The approximated sliding window: two counts, of which the previous one fades out as the current window passes.
//
// used = ⌊previous · (P − e) / P⌋ + current, and a cost fits if used + cost ≤ count. The state is the second of the
// latest charge and both counts as of that second. Port of crates/limiter/src/algorithm/sliding_window.rs.

import { NEVER, modulo, quotient, quotientUp, until, wholeMillis } from './time.js';

const MAX_COUNT = 2 ** 20 - 1;
// The engine keeps 24 bits of the second, and takes one up to a day ahead for a clock that stepped back.
const STAMPS = 2 ** 24 - 1;
const MOST_AHEAD = 24 * 60 * 60;

export function slidingWindow({ count, period }) {
  const length = period * 1000;

  // The counts as the window of `now` sees them; `start` in seconds, `elapsed` in milliseconds.
  function windowAt(state, now) {
    const millis = wholeMillis(now);
    const second = quotient(millis, 1000);
    const seen = { start: second - (second % period), second, previous: 0, current: 0 };
    if (state) {
      const behind = modulo(second - state.second, STAMPS);
      const isAhead = behind !== 0 && STAMPS - behind <= MOST_AHEAD;
      const charged = isAhead ? second + STAMPS - behind : second - behind;
      if (isAhead) seen.second = charged;
      if (charged >= seen.start) {
        ({ previous: seen.previous, current: seen.current } = state);
        if (charged >= seen.start + period) seen.start = charged - (charged % period);
      } else if (charged >= seen.start - period) {
        seen.previous = state.current;
      }
    }
    seen.elapsed = Math.max(0, millis - seen.start * 1000);
    return seen;
  }

  const weighted = (seen) => seen.previous * (length - seen.elapsed);
  const units = (seen) => quotient(weighted(seen) + seen.current * length, length);
  const room = (seen) => Math.max(0, count - units(seen));

  function wait(seen, cost, now) {
    if (cost > count) return NEVER;
    // The first millisecond of a window at which so many of the previous one leave the room.
    const fading = (previous, free) =>
      previous === 0 ? 0 : length + 1 - Math.min(quotientUp((free + 1) * length, previous), length + 1);
    const free = count - cost - seen.current;
    const at = free >= 0 ? fading(seen.previous, free) : length + fading(seen.current, count - cost);
    return at <= seen.elapsed ? 0n : until(seen.start * 1000 + at, now);
  }

  return {
    fits(state, now, cost) {
      const seen = windowAt(state, now);
      const free = count - seen.current - cost;
      return free >= 0 && weighted(seen) < (free + 1) * length;
    },
    charge(state, now, cost) {
      const { second, previous, current } = windowAt(state, now);
      return { second, previous, current: Math.min(current + cost, MAX_COUNT) };
    },
    status(state, now, refused) {
      const seen = windowAt(state, now);
      const remaining = room(seen);
      const isFree = refused === null && remaining >= count;
      return {
        remaining,
        nextFree: isFree ? 0n : wait(seen, refused ?? remaining + 1, now),
        reset: seen.previous + seen.current === 0 ? 0n : wait(seen, count, now),
      };
    },
    used: (state, now) => units(windowAt(state, now)),
    view(state, now) {
      const { previous, current, elapsed } = windowAt(state, now);
      return { previous, current, weight: 1 - elapsed / length, weighted: previous * (1 - elapsed / length) };
    },
  };
}
