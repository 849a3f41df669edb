//! Makes the specimen of a configuration, which has every key, of the reference.

use std::ops::Range;

const REFERENCE: &str = include_str!("../../../conf/reference.toml");

/// The reference with every key that is commented out in it, `#key = …`, where comments for people begin with `# `; and
/// where those keys are.
pub(super) fn specimen() -> (String, Vec<Range<usize>>) {
    let mut specimen = String::with_capacity(REFERENCE.len());
    let mut optional = Vec::new();
    for line in REFERENCE.lines() {
        let begin = specimen.len();
        match line.strip_prefix('#') {
            Some(key) if key.starts_with(|c: char| c.is_ascii_lowercase()) => {
                specimen.push_str(key);
                optional.push(begin..specimen.len());
            }
            Some(header) if header.starts_with('[') => specimen.push_str(header),
            _ => specimen.push_str(line),
        }
        specimen.push('\n');
    }
    (specimen, optional)
}
