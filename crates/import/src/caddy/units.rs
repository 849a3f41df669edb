//! Reads sizes and durations as Caddy writes them.

/// Returns a size as the configuration writes it.
///
/// # Errors
///
/// The text is no size.
pub(super) fn size(text: &str) -> Result<String, String> {
    let bytes = bytes(text)?;
    let binary = [(1_u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = binary
        .iter()
        .find(|(unit, _)| bytes > 0 && bytes % unit == 0);
    Ok(match unit {
        Some((unit, name)) => format!("{}{name}", bytes / unit),
        None => format!("{bytes}B"),
    })
}

/// Returns the bytes of a size.
///
/// # Errors
///
/// The text is no size.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let no_size = || format!("{text:?} is no size");
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let number: u64 = text[..end].parse().map_err(|_| no_size())?;
    let factor: u64 = match text[end..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1_000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "ki" | "kib" => 1 << 10,
        "mi" | "mib" => 1 << 20,
        "gi" | "gib" => 1 << 30,
        _ => return Err(no_size()),
    };
    number.checked_mul(factor).ok_or_else(no_size)
}

/// Returns a duration in milliseconds: `1m30s`, `500ms`, `1d`, or nanoseconds without a unit.
///
/// # Errors
///
/// The text is no duration.
pub(super) fn millis(text: &str) -> Result<u64, String> {
    let no_duration = || format!("{text:?} is no duration");
    if let Ok(nanoseconds) = text.parse::<u64>() {
        return Ok(nanoseconds.div_ceil(1_000_000));
    }
    let mut total = 0_f64;
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
        let end = end.ok_or_else(no_duration)?;
        let number: f64 = rest[..end].parse().map_err(|_| no_duration())?;
        rest = &rest[end..];
        let end = rest.find(|c: char| c.is_ascii_digit() || c == '.');
        let unit = match &rest[..end.unwrap_or(rest.len())] {
            "ns" => 0.000_001,
            "us" | "µs" | "μs" => 0.001,
            "ms" => 1.0,
            "s" => 1_000.0,
            "m" => 60_000.0,
            "h" => 3_600_000.0,
            "d" => 86_400_000.0,
            _ => return Err(no_duration()),
        };
        total += number * unit;
        rest = end.map_or("", |end| &rest[end..]);
    }
    let is_sensible = total.is_finite() && (0.0..1e15).contains(&total) && !text.is_empty();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it was compared with the bounds"
    )]
    let millis = is_sensible.then_some(total.ceil() as u64);
    millis.ok_or_else(no_duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: sizes and durations are those of Caddy. Method: each kind of unit, and texts that are none.
    #[test]
    fn units_are_read() {
        assert_eq!(size("10MB").as_deref(), Ok("10000000B"));
        assert_eq!(size("10MiB").as_deref(), Ok("10MiB"));
        assert_eq!(size("1024").as_deref(), Ok("1KiB"));
        assert!(size("x").is_err() && size("1XB").is_err());
        assert_eq!(millis("1m30s"), Ok(90_000));
        assert_eq!(millis("1.5s"), Ok(1_500));
        assert_eq!(millis("1d"), Ok(86_400_000));
        assert_eq!(millis("5000000"), Ok(5));
        assert!(millis("1").is_ok() && millis("x").is_err() && millis("").is_err());
    }
}
