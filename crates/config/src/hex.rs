//! Reads bytes that are written as hexadecimal digits.

/// Returns the `N` bytes of `2 * N` digits in either letter case.
pub(super) fn hex_bytes<const N: usize>(digits: &str) -> Option<[u8; N]> {
    // `from_str_radix` takes a sign, which is no digit.
    if digits.len() != 2 * N || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; N];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(bytes)
}
