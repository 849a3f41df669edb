// GCRA, and the token bucket whose tokens come back one by one: the same algorithm seen from two sides.
//
// Port of crates/limiter/src/algorithm/gcra.rs.

import { drain } from './drain.js';

export const gcra = (rate, { burst = rate.count } = {}) => drain(rate, { burst });
