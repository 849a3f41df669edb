//! Draws the random numbers of jitter and names.

/// Returns a random number; a fixed one where the system has no source of random numbers.
pub fn random() -> u64 {
    getrandom::u64().unwrap_or(500)
}
