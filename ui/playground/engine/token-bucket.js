// The token bucket that is refilled at intervals: `count` tokens come back at once at each multiple of the period, up to `burst`.
//
// The state is the start of the latest charge's period and the tokens missing then. A bucket whose tokens come back one by one is `gcra`
// from the other side and is judged there. Port of crates/limiter/src/algorithm/token_bucket.rs.

import { begunAt } from './begun-window.js';
import { NEVER, quotient, quotientUp, until, wholeMillis } from './time.js';

export function intervalBucket({ count, period }, { burst = count } = {}) {
  const length = period * 1000;

  // The tokens that are missing now, in the period of now.
  function begun(state, now) {
    const millis = wholeMillis(now);
    const start = millis - (millis % length);
    if (!state) return { start, count: 0 };
    const seen = begunAt(state, millis);
    const refills = quotient(Math.max(0, start - seen.start), length);
    return { start: Math.max(start, seen.start), count: Math.max(0, seen.count - refills * count) };
  }

  return {
    fits: (state, now, cost) => begun(state, now).count + cost <= burst,
    charge(state, now, cost) {
      const seen = begun(state, now);
      return { start: seen.start, count: seen.count + cost };
    },
    status(state, now, refused) {
      const { start, count: missing } = begun(state, now);
      const remaining = Math.max(0, burst - missing);
      // The wait until no more than `left` are missing.
      const wait = (left) => {
        const tokens = Math.max(0, missing - left);
        return tokens === 0 ? 0n : until(start + quotientUp(tokens, count) * length, now);
      };
      const wanted = refused ?? remaining + 1;
      const isFree = refused === null && missing === 0;
      return {
        remaining,
        nextFree: isFree ? 0n : refused !== null && refused > burst ? NEVER : wait(Math.max(0, burst - wanted)),
        reset: wait(0),
      };
    },
    used: (state, now) => begun(state, now).count,
    view: (state, now) => ({ used: begun(state, now).count }),
  };
}
