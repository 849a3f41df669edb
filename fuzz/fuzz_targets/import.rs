//! Fuzzes the configurations of other proxies that `import` reads.
//!
//! A case is a letter for the format (`n`, `h`, `i`, `t`), the input, and the files that it may include. The check is that of the crate's
//! property test: no text panics, what comes out is TOML, and each directive that is left out stands in it.
#![no_main]

#[path = "../../crates/import/tests/hostile/mod.rs"]
mod hostile;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|case: &str| hostile::check(case));
