// Derives from a key where in each period its windows begin, so that the keys of a limit do not all begin at once.
//
// Port of crates/limiter/src/algorithm/key_phase.rs.

const mask = (bits) => BigInt.asUintN(64, bits);

// The finalizer of SplitMix64: every bit of the result depends on all of them.
function mixed(bits) {
  const once = mask((bits ^ (bits >> 30n)) * 0xbf58476d1ce4e5b9n);
  const twice = mask((once ^ (once >> 27n)) * 0x94d049bb133111ebn);
  return twice ^ (twice >> 31n);
}

/** The place in a period of the key with this hash, a BigInt of 64 bits: so many parts of 2^32. */
export const keyPhase = (hash) => mixed(hash >> 1n) >> 32n;

/** Milliseconds from the beginning of a period, in seconds, to a place in it. */
export const phaseMillis = (phase, period) => Number((phase * BigInt(period) * 1000n) >> 32n);
