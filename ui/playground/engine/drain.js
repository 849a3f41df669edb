// A debt that drains at a constant rate: what GCRA, the greedy token bucket and the leaky bucket have in common.
//
// The state is the moment at which nothing is owed any more (the theoretical arrival time of GCRA), in milliseconds and ticks of 1/count
// ms, so that one unit drains in a whole number of ticks and nothing drifts. Port of crates/limiter/src/algorithm/drain.rs.

import { NANOS_PER_MILLI, NEVER, modulo, wholeMillis } from './time.js';

const ROUND = 2 ** 35;
const BEYOND_MILLIS = 31 * 24 * 60 * 60 * 1000;
const least = (one, other) => (one < other ? one : other);

/** `burst` is the largest debt in units, `mostWait` the longest wait of a queued request in milliseconds, or null without a queue. */
export function drain({ count, period }, { burst, mostWait = null }) {
  const perMilli = BigInt(count);
  const unit = BigInt(period * 1000);
  const most = BigInt(burst) * unit;
  const mostBefore = mostWait === null ? null : BigInt(mostWait) * perMilli;
  const horizon = 2 * Number(most / perMilli) + BEYOND_MILLIS;
  const ticks = (units) => least(BigInt(units) * unit, 4n * most);

  function debtAt(state, now) {
    if (!state) return 0n;
    const ahead = modulo(state.end - wholeMillis(now), ROUND);
    return ahead > horizon ? 0n : BigInt(ahead) * perMilli + BigInt(state.ticks);
  }
  // Most that may be owed before a charge of `cost`; negative if it never fits.
  function allowed(cost) {
    const room = most - ticks(cost);
    return mostBefore === null ? room : least(room, mostBefore);
  }
  function room(debt) {
    if (debt > most || (mostBefore !== null && debt > mostBefore)) return 0;
    return Number((most - debt) / unit);
  }
  function wait(owed, now) {
    if (owed <= 0n) return 0n;
    return ((owed + perMilli - 1n) / perMilli) * NANOS_PER_MILLI - (now % NANOS_PER_MILLI);
  }

  return {
    fits: (state, now, cost) => debtAt(state, now) <= allowed(cost),
    charge(state, now, cost) {
      const debt = debtAt(state, now) + ticks(cost);
      return { end: wholeMillis(now) + Number(debt / perMilli), ticks: Number(debt % perMilli) };
    },
    status(state, now, refused) {
      const debt = debtAt(state, now);
      const remaining = room(debt);
      const before = allowed(refused ?? remaining + 1);
      const isFree = refused === null && debt === 0n;
      return { remaining, nextFree: isFree ? 0n : before < 0n ? NEVER : wait(debt - before, now), reset: wait(debt, now) };
    },
    delay: (state, now, cost) => (mostWait === null ? 0n : wait(debtAt(state, now) - ticks(cost), now)),
    used: (state, now) => Number((debtAt(state, now) + unit - 1n) / unit),
    view: (state, now) => ({ used: Number(debtAt(state, now)) / Number(unit) }),
  };
}
