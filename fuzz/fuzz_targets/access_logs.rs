//! Fuzzes the logs that `replay` and `suggest` read: several logs of any format, merged and sorted.
//!
//! A case is a letter for the format (`0` and the characters behind it for `LogFormat::NAMES`, `t` for a template, else detected), a letter
//! for the times, and the texts of the logs. The check is that of the crate's property test: no line panics,
//! time does not go back, every line is counted once.
#![no_main]

#[path = "../../crates/access-log/tests/hostile/mod.rs"]
mod hostile;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|case: &[u8]| hostile::check(case));
