// The exact log: the latest admissions of a key, one by one, for all rates of a limit.
//
// A cost fits if the entry with `count − cost` later ones is a period old. The state is the list of admissions, the latest first, in
// milliseconds: rounded up when they are made, while now is rounded down. A wait for what was made just now is the period.
// Port of crates/limiter/src/exact/.

import { NANOS_PER_MILLI, NEVER, until, wholeMillis } from './time.js';

// An entry has 32 bits in the engine, which reach back 37 days from the 12-day era of the latest one.
const ERA = 2 ** 30;
const LAP = 2 ** 32;
const JUST_NOW = 10n * NANOS_PER_MILLI;

export function exactLog(rates) {
  const size = Math.max(...rates.map((rate) => rate.count));
  const isExpired = (entry, { period }, now) => entry <= wholeMillis(now) - period * 1000;
  const used = (log, rate, now) => {
    const first = log.findIndex((entry) => isExpired(entry, rate, now));
    return first < 0 ? log.length : first;
  };
  const fitsRate = (log, rate, now, cost) => {
    const room = rate.count - cost;
    return room >= 0 && (log.length <= room || isExpired(log[room], rate, now));
  };
  const frees = (entry, rate, now) => {
    const wait = until(entry + rate.period * 1000, now);
    const whole = BigInt(rate.period) * 1000n * NANOS_PER_MILLI;
    if (wait >= whole && wait <= whole + JUST_NOW) return whole;
    return wait < NEVER ? wait : NEVER;
  };

  return {
    unused: [],
    refusing: (log, now, cost) => rates.map((rate) => !fitsRate(log, rate, now, cost)),
    charge(log, now, cost) {
      const at = Math.max(log[0] ?? 0, Number((now + NANOS_PER_MILLI - 1n) / NANOS_PER_MILLI));
      const era = Math.floor(at / ERA);
      const kept = log.slice(0, size - cost);
      const isNewEra = kept.length > 0 && era > Math.floor(kept[0] / ERA);
      const told = isNewEra ? kept.filter((entry) => entry >= (era + 1) * ERA - LAP) : kept;
      return [...Array(cost).fill(at), ...told];
    },
    status(log, now, refused) {
      return rates.map((rate, index) => {
        const counted = used(log, rate, now);
        const waited = Math.min(counted, rate.count) - 1;
        let nextFree = waited < 0 ? 0n : frees(log[waited], rate, now);
        if (refused?.rates[index]) {
          const room = rate.count - refused.cost;
          nextFree = room < 0 ? NEVER : frees(log[room], rate, now);
        }
        return {
          remaining: Math.max(0, rate.count - counted),
          nextFree,
          reset: counted === 0 ? 0n : frees(log[0], rate, now),
        };
      });
    },
    delay: () => 0n,
    used: (log, now) => rates.map((rate) => used(log, rate, now)),
    view: (log, now) => ({ used: used(log, rates[0], now) }),
  };
}
