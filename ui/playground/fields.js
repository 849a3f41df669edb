// The fields of a response about its limit, as the gateway writes them:
// crates/decide/src/policy_items.rs and crates/decide/src/response/refusal.rs.

import { NEVER } from './engine/time.js';

const NANOS_PER_SECOND = 1_000_000_000n;

/** Seconds, rounded up, so that a client that obeys is never early. */
export const wholeSeconds = (wait) => Number((wait + NANOS_PER_SECOND - 1n) / NANOS_PER_SECOND);

const itemName = (name, { period }, rates) => (rates === 1 ? name : `${name}-${period}s`);
const policy = (name, statuses) =>
  statuses.map((rate) => `"${itemName(name, rate, statuses.length)}";q=${rate.count};w=${rate.period}`).join(', ');

/** The value of `RateLimit`, and of the field for the origin where a limit marks. */
export const rateStatus = (name, { statuses }) =>
  statuses
    .map((rate) => {
      const wait = Math.min(wholeSeconds(rate.nextFree), rate.period);
      return `"${itemName(name, rate, statuses.length)}";r=${rate.remaining};t=${wait}`;
    })
    .join(', ');

/** Names and values, in the order of the response. */
export function responseFields(name, decision) {
  const fields = [
    ['RateLimit-Policy', policy(name, decision.statuses)],
    ['RateLimit', rateStatus(name, decision)],
  ];
  if (decision.admitted) return fields;
  fields.push(['Content-Type', 'application/problem+json']);
  // No waiting helps a cost above all that the limit ever admits.
  if (decision.retryAfter >= NEVER) return fields;
  return [['Retry-After', String(Math.max(1, wholeSeconds(decision.retryAfter)))], ...fields];
}
