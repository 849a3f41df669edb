//! Reads times of nginx.

/// Returns the milliseconds of a time such as `500ms`, `30s`, `1h 30m` or `30`.
pub(super) fn millis(text: &str) -> Option<u64> {
    let mut total = 0_u64;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(rest.len());
        let factor = match &rest[..letters] {
            "ms" => 1,
            "" | "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(factor)?)?;
        rest = rest[letters..].trim_start();
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: times are those of nginx. Method: each unit, none, several, wrong ones.
    #[test]
    fn times_are_read() {
        assert_eq!(millis("30"), Some(30_000));
        assert_eq!(millis("500ms"), Some(500));
        assert_eq!(millis("1h 30m"), Some(5_400_000));
        assert_eq!(millis("1h30m"), Some(5_400_000));
        assert_eq!(millis(""), None);
        assert_eq!(millis("1w1x"), None);
        assert_eq!(millis("99999999999999999999s"), None);
    }
}
