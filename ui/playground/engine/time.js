// Time as the engine counts it: moments and waits are BigInt nanoseconds, as in the limiter crate. Milliseconds and seconds are Numbers,
// which are exact up to 2^53.

export const NANOS_PER_MILLI = 1_000_000n;
/** The wait for a cost that no amount of waiting admits. */
export const NEVER = 4_294_967_295n * 1_000_000_000n;

/** Whole milliseconds since the Unix epoch, rounded down. */
export const wholeMillis = (now) => Number(now / NANOS_PER_MILLI);

/** The wait from `now` to a millisecond, zero if that is past. */
export const until = (millis, now) => {
  const wait = BigInt(millis) * NANOS_PER_MILLI - now;
  return wait > 0n ? wait : 0n;
};

/** The remainder that is never negative. */
export const modulo = (value, by) => ((value % by) + by) % by;

/** Quotient of two integers below 2^53, rounded down; `value` is not negative. */
export const quotient = (value, by) => (value - (value % by)) / by;

/** Quotient of two integers below 2^53, rounded up; `value` is not negative. */
export const quotientUp = (value, by) => quotient(value, by) + (value % by > 0 ? 1 : 0);
