// A limit that marks, with a fallback limit: what the first has no room for is decided by the second, and only that can refuse.
//
// The state is that of both limits, `{ fast, slow }`. docs/actions.md, "Mark, and two buckets".

import { decide } from './limit.js';

/** Decides a cost; `exceeded` is the decision of the first limit where it had no room. */
export function decideMarked({ fast, slow }, state, now, cost) {
  const first = decide(fast, state.fast, now, cost);
  if (first.decision.admitted) {
    return { decision: first.decision, exceeded: null, state: { ...state, fast: first.state } };
  }
  const second = decide(slow, state.slow, now, cost);
  return { decision: second.decision, exceeded: first.decision, state: { ...state, slow: second.state } };
}
