//! Reads escapes and slashes of a path, for all that spell or compare it.

/// Returns the text with runs of slashes merged into one.
pub(super) fn merged(text: &str) -> String {
    let mut merged = String::with_capacity(text.len());
    for character in text.chars() {
        if character != '/' || !merged.ends_with('/') {
            merged.push(character);
        }
    }
    merged
}

/// Returns the byte that the two digits behind a percent sign stand for.
pub(super) fn unescape(digits: &[u8]) -> Option<u8> {
    let &[high, low, ..] = digits else {
        return None;
    };
    let digit = |digit: u8| char::from(digit).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}
