// The lanes: each algorithm of the gateway as one limit, and the two limits that throttle a burst.
//
// A lane says how it decides a request of a key, how full it is for the picture, and what its state is in words.

import { keyPhase, phaseMillis } from './engine/key-phase.js';
import { decide, makeLimit, unusedState } from './engine/limit.js';
import { decideMarked } from './engine/mark.js';

const MOST_SYMBOLS = 40;
const seconds = (millis) => `${(millis / 1000).toFixed(2)} s`;
const symbols = (...parts) => {
  const length = parts.reduce((sum, [, count]) => sum + count, 0);
  return length > MOST_SYMBOLS ? '' : parts.map(([symbol, count]) => symbol.repeat(Math.max(0, count))).join('');
};
const bar = (used, cap, full = '█', empty = '·') => {
  const taken = Math.min(cap, Math.ceil(used));
  return symbols([full, taken], [empty, cap - taken]);
};
const nanosAsMillis = (wait) => Number(wait) / 1e6;

/** The rates, the shortest first: that one is drawn. A count of 0 ends them. */
export function ratesOf({ count, period, count2, period2, count3, period3 }) {
  const all = [{ count, period }, { count: count2, period: period2 }, { count: count3, period: period3 }];
  const end = all.findIndex((rate) => rate.count === 0);
  return end < 0 ? all : all.slice(0, end);
}

export const rateText = ({ count, period }) => `${count} per ${period} s`;

// What is used of the rates that are not drawn.
const usedFurther = (limit) => (state, now) => {
  const used = limit.judge.used(state, now);
  return limit.rates.map((rate, index) => (index ? `; ${Math.ceil(used[index])} used of ${rateText(rate)}` : '')).join('');
};

const queueOf = ({ queue, maxWait }) => ({ queue, maxWait: maxWait * 1000 });

// A lane of one limit. `level` returns the parts of the filled area, the lower first; a queue is drawn above the level `queueAbove`.
function oneLimit(settings, { cap, level, stored, windows = null }) {
  const rates = ratesOf(settings);
  // A burst belongs to one rate; of several each has its count.
  const limit = makeLimit({ ...settings, rates, burst: rates.length > 1 ? undefined : settings.burst });
  return {
    further: usedFurther(limit),
    cap,
    level,
    stored,
    windows,
    unused: unusedState(limit),
    view: (state, now) => limit.judge.view(state, now),
    decide(state, now, cost) {
      const { decision, state: next } = decide(limit, state, now, cost);
      return { decision, exceeded: null, state: next, limit: 'demo' };
    },
  };
}

const used = (view) => [0, view.used];

function slidingWindow(settings) {
  return oneLimit({ ...settings, algorithm: 'sliding-window' }, {
    cap: settings.count,
    windows: 'clock',
    level: (view) => [view.weighted, view.current],
    stored({ previous, current, weight, weighted }) {
      const faded = Math.floor(weighted + 1e-9);
      const free = settings.count - faded - current;
      return [
        symbols(['▒', faded], ['█', current], ['·', free]),
        `previous ${previous} × ${Math.round(weight * 100)} % = ${faded}, current ${current}`,
      ];
    },
  });
}

function fixedWindow(settings, align) {
  return oneLimit({ ...settings, align, algorithm: 'fixed-window' }, {
    cap: settings.count,
    windows: align ?? 'clock',
    level: (view) => [0, view.count],
    stored: ({ count, start, length }, at) => [
      bar(count, settings.count),
      count === 0 ? 'count 0' : `count ${count}, starts again in ${seconds(start + length - at)}`,
    ],
  });
}

// A hash of a key, FNV-1a. That of a gateway depends on a secret; for a picture any will do.
function hashOf(key) {
  let hash = 0xcbf29ce484222325n;
  for (const letter of `c:${key}`) hash = BigInt.asUintN(64, (hash ^ BigInt(letter.codePointAt(0))) * 0x100000001b3n);
  return hash;
}

// Windows that begin by key: each key has a limit of its own, which differs from the others in where windows begin.
function windowsByKey(settings) {
  const lanes = new Map();
  const laneOf = (key) => {
    if (!lanes.has(key)) lanes.set(key, fixedWindow(settings, { phase: keyPhase(hashOf(key)) }));
    return lanes.get(key);
  };
  return {
    // A state has the start of its window, so what it counts does not depend on the key.
    ...fixedWindow(settings, 'first-request'),
    decide: (state, now, cost, key) => laneOf(key).decide(state, now, cost),
    windows: (key) => phaseMillis(keyPhase(hashOf(key)), settings.period),
  };
}

function exact(settings) {
  return oneLimit({ ...settings, algorithm: 'exact' }, {
    cap: settings.count,
    level: used,
    stored: (view, at, start, state) => {
      const times = state.slice(0, view.used).reverse().map((entry) => ((entry - start) / 1000).toFixed(2));
      const shown = times.length > 4 ? [...times.slice(0, 3), '…', times.at(-1)] : times;
      const when = times.length ? `, at ${shown.join(' ')}` : '';
      return [bar(view.used, settings.count), `${view.used} of ${settings.count} admissions${when}`];
    },
  });
}

function bucket(settings, refill) {
  const cap = settings.burst;
  return oneLimit({ ...settings, refill, algorithm: 'token-bucket' }, {
    cap,
    level: used,
    windows: refill === 'interval' ? 'refill' : null,
    stored: (view) => {
      const tokens = Math.max(0, cap - view.used);
      return [bar(Math.floor(tokens + 1e-9), cap, '●', '○'), `${tokens.toFixed(refill === 'interval' ? 0 : 1)} of ${cap} tokens`];
    },
  });
}

function gcra(settings) {
  return oneLimit({ ...settings, algorithm: 'gcra' }, {
    cap: settings.burst,
    level: used,
    stored: (view) => [
      bar(view.used, settings.burst),
      `theoretical arrival time: ${view.used === 0 ? 'now' : `in ${seconds((view.used * settings.period * 1000) / settings.count)}`}`,
    ],
  });
}

const waitingText = (waiting, queue) => [bar(waiting, queue, '■', '□'), `${waiting} of ${queue} wait`];

function leakyBucket(settings) {
  return {
    ...oneLimit({ ...settings, ...queueOf(settings), algorithm: 'leaky-bucket' }, {}),
    queueAbove: 0,
    stored: (view, at, start, state, waiting) => waitingText(waiting, settings.queue),
  };
}

function throttling(settings) {
  const { count, period, slow } = settings;
  const limits = {
    fast: makeLimit({ algorithm: 'sliding-window', rates: ratesOf(settings) }),
    slow: makeLimit({ algorithm: 'leaky-bucket', rates: [{ count: slow, period }], ...queueOf(settings) }),
  };
  return {
    cap: count,
    queueAbove: count,
    throttles: true,
    further: (state, now) => usedFurther(limits.fast)(state.fast, now),
    unused: { fast: unusedState(limits.fast), slow: unusedState(limits.slow) },
    view: (state, now) => limits.fast.judge.view(state.fast, now),
    level: (view) => [view.weighted, view.current],
    decide: (state, now, cost) => {
      const made = decideMarked(limits, state, now, cost);
      return { ...made, limit: made.exceeded ? 'slow' : 'fast' };
    },
    stored: (view, at, start, state, waiting) => {
      const taken = Math.min(count, Math.floor(view.weighted + 1e-9) + view.current);
      const [queued, text] = waitingText(waiting, settings.queue);
      return [`${bar(taken, count)} ${queued}`, `fast: ${taken} of ${count} used; slow: ${text}`];
    },
  };
}

/** Each lane: its name, the lines of its limit beside `rates`, the numbers that it uses, and what makes it of the settings. */
export const LANES = {
  exact: { title: 'exact', toml: 'algorithm = "exact"', make: exact },
  'sliding-window': { title: 'sliding-window', toml: 'algorithm = "sliding-window"', make: slidingWindow },
  'fixed-window': { title: 'fixed-window', toml: 'algorithm = "fixed-window"', make: fixedWindow },
  'first-request': {
    title: 'fixed-window, from the first request',
    toml: 'algorithm = "fixed-window", align = "first-request"',
    make: (settings) => fixedWindow(settings, 'first-request'),
  },
  'by-key': { title: 'fixed-window, by key', toml: 'algorithm = "fixed-window", align = "key"', make: windowsByKey },
  'token-bucket': {
    title: 'token-bucket',
    toml: 'algorithm = "token-bucket", burst',
    numbers: ['burst'],
    make: (settings) => bucket(settings, 'greedy'),
  },
  'token-bucket-interval': {
    title: 'token-bucket, refilled at intervals',
    toml: 'algorithm = "token-bucket", burst, refill = "interval"',
    numbers: ['burst'],
    make: (settings) => bucket(settings, 'interval'),
  },
  gcra: { title: 'gcra', toml: 'algorithm = "gcra", burst', numbers: ['burst'], make: gcra },
  'leaky-bucket': { title: 'leaky-bucket', toml: 'action = "delay", queue, max_wait', numbers: ['queue', 'maxWait'], make: leakyBucket },
  throttling: {
    title: 'throttled: pass, then slow, then refuse',
    toml: 'action = "mark", fallback_limit',
    numbers: ['queue', 'maxWait', 'slow'],
    make: throttling,
  },
};

/** The lane of this name, as `settings` make it. */
export function makeLane(name, settings) {
  const burst = ratesOf(settings).length > 1 ? settings.count : settings.burst;
  return LANES[name].make({ ...settings, burst });
}

/** The delay of a decision in milliseconds. */
export const delayOf = (decision) => nanosAsMillis(decision.delay);
