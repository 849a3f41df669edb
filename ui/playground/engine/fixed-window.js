// The fixed window: a count that starts again when the next window begins.
//
// Windows are aligned to the clock, to a calendar, or to a key's first request. Port of crates/limiter/src/algorithm/fixed_window.rs.

import { begunAt } from './begun-window.js';
import { NEVER, until, wholeMillis } from './time.js';

/** `align` is absent for windows at multiples of the period, "first-request", or a function from milliseconds to `{ start, length }`. */
export function fixedWindow({ count, period }, { align } = {}) {
  const fromFirst = align === 'first-request';
  function gridAt(millis) {
    if (typeof align === 'function') return align(millis);
    const length = period * 1000;
    return { start: fromFirst ? millis : millis - (millis % length), length };
  }

  // The part of the state that counts now.
  function begun(state, now) {
    const millis = wholeMillis(now);
    const grid = gridAt(millis);
    if (state) {
      const seen = begunAt(state, millis);
      const counts = fromFirst ? millis < seen.start + grid.length : seen.start >= grid.start;
      if (counts) return { ...seen, length: grid.length };
    }
    return { ...grid, count: 0 };
  }

  return {
    fits: (state, now, cost) => begun(state, now).count + cost <= count,
    charge(state, now, cost) {
      const seen = begun(state, now);
      return { start: seen.start, count: seen.count + cost };
    },
    status(state, now, refused) {
      const seen = begun(state, now);
      const end = seen.count === 0 ? 0n : until(seen.start + seen.length, now);
      return {
        remaining: Math.max(0, count - seen.count),
        nextFree: refused !== null && refused > count ? NEVER : end,
        reset: end,
      };
    },
    used: (state, now) => begun(state, now).count,
    view: begun,
  };
}
