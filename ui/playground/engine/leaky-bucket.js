// The leaky bucket as a queue: admitted requests leave one by one at the drain rate, in order of admission.
//
// Port of crates/limiter/src/algorithm/leaky_bucket.rs. `maxWait` is in milliseconds.

import { drain } from './drain.js';

const MOST_WAIT = 2 ** 32 - 1;

export const leakyBucket = (rate, { queue = 0, maxWait = MOST_WAIT } = {}) =>
  drain(rate, { burst: queue + 1, mostWait: Math.min(maxWait, MOST_WAIT) });
