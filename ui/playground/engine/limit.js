// A limit: an algorithm and its rates, and the decision over all of them. Either every rate is charged or none is.
//
// `decide` is pure: a limit, a state, a moment and a cost in, a decision and the next state out.

import { exactLog } from './exact.js';
import { fixedWindow } from './fixed-window.js';
import { gcra } from './gcra.js';
import { leakyBucket } from './leaky-bucket.js';
import { slidingWindow } from './sliding-window.js';
import { intervalBucket } from './token-bucket.js';

const ALGORITHMS = {
  'sliding-window': slidingWindow,
  'fixed-window': fixedWindow,
  'token-bucket': (rate, settings) => (settings.refill === 'interval' ? intervalBucket : gcra)(rate, settings),
  gcra,
  'leaky-bucket': leakyBucket,
};

// Several rates, each with a state of its own.
function jointRates(judges) {
  return {
    unused: judges.map(() => null),
    refusing: (states, now, cost) => judges.map((judge, index) => !judge.fits(states[index], now, cost)),
    charge: (states, now, cost) => judges.map((judge, index) => judge.charge(states[index], now, cost)),
    status: (states, now, refused) =>
      judges.map((judge, index) => judge.status(states[index], now, refused?.rates[index] ? refused.cost : null)),
    delay: (states, now, cost) =>
      judges
        .map((judge, index) => judge.delay?.(states[index], now, cost) ?? 0n)
        .reduce((longest, delay) => (delay > longest ? delay : longest)),
    used: (states, now) => judges.map((judge, index) => judge.used(states[index], now)),
    view: (states, now) => judges[0].view(states[0], now),
  };
}

/** A limit of `settings`: `algorithm`, `rates` as `{ count, period }` with the period in seconds, and the algorithm's own numbers. */
export function makeLimit(settings) {
  const rates = [...settings.rates].sort((one, other) => one.period - other.period);
  const judge =
    settings.algorithm === 'exact'
      ? exactLog(rates)
      : jointRates(rates.map((rate) => ALGORITHMS[settings.algorithm](rate, settings)));
  return { ...settings, rates, judge };
}

/** The state of a key that was never charged. */
export const unusedState = (limit) => limit.judge.unused;

/** Decides a cost; the state changes only if it is admitted. */
export function decide(limit, state, now, cost) {
  const refusing = limit.judge.refusing(state, now, cost);
  const admitted = !refusing.includes(true);
  const next = admitted ? limit.judge.charge(state, now, cost) : state;
  const delay = admitted ? limit.judge.delay(next, now, cost) : 0n;
  return { decision: { ...answer(limit, next, now, cost, refusing), delay }, state: next };
}

/** The decision that a cost would get; charges nothing. */
export const peek = (limit, state, now, cost) =>
  answer(limit, state, now, cost, limit.judge.refusing(state, now, cost));

function answer(limit, state, now, cost, refusing) {
  const admitted = !refusing.includes(true);
  const statuses = limit.judge
    .status(state, now, admitted ? null : { cost, rates: refusing })
    .map((status, index) => ({ ...limit.rates[index], ...status }));
  // The rate that refuses with the longest wait, of equal ones the first.
  let refusingRate = null;
  statuses.forEach(({ nextFree }, index) => {
    const isLonger = refusingRate === null || nextFree > statuses[refusingRate].nextFree;
    if (refusing[index] && isLonger) refusingRate = index;
  });
  return { admitted, statuses, refusingRate, retryAfter: admitted ? null : statuses[refusingRate].nextFree };
}
