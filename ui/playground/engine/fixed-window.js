// The fixed window: a count that starts again when the next window begins.
//
// Windows are aligned to the clock, to a calendar, to a key's first request, or to an offset from the clock that belongs to a key. Port
// of crates/limiter/src/algorithm/fixed_window.rs.

import { begunAt } from './begun-window.js';
import { phaseMillis } from './key-phase.js';
import { NEVER, modulo, until, wholeMillis } from './time.js';

/**
 * `align` is absent for windows at multiples of the period, "first-request", `{ phase }` for the windows of a key (`keyPhase`), or a
 * function from milliseconds to `{ start, length }`.
 */
export function fixedWindow({ count, period }, { align } = {}) {
  const fromFirst = align === 'first-request';
  const offset = align?.phase === undefined ? 0 : phaseMillis(align.phase, period);
  function gridAt(millis) {
    if (typeof align === 'function') return align(millis);
    const length = period * 1000;
    return { start: fromFirst ? millis : millis - modulo(millis - offset, length), length };
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
