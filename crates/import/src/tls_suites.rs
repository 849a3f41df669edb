//! Names the cipher suites and curves of the gateway, with which those of another proxy are compared.

/// The suites for TLS 1.2, as OpenSSL names them. Those of TLS 1.3 are the same three everywhere.
pub(crate) const SUITES: [&str; 6] = [
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-RSA-CHACHA20-POLY1305",
];

/// The curves, each with its further names in OpenSSL.
const CURVES: [&[&str]; 3] = [
    &["X25519"],
    &["PRIME256V1", "P-256", "SECP256R1"],
    &["SECP384R1", "P-384"],
];

/// Returns true if a list of OpenSSL permits each curve of the gateway. Others that it permits are refused by the gateway.
pub(crate) fn permits_all_curves(list: &str) -> bool {
    let words = list.split([':', '/']);
    let words: Vec<String> = words.map(str::to_ascii_uppercase).collect();
    let is_named = |names: &&[&str]| words.iter().any(|word| names.contains(&word.as_str()));
    words == ["AUTO"] || CURVES.iter().all(is_named)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: lists that permit fewer curves are found. Method: the list of Mozilla's generator, OpenSSL's own words, and narrower lists.
    #[test]
    fn lists_are_compared_with_the_curves_of_the_gateway() {
        for list in [
            "auto",
            "X25519:prime256v1:secp384r1",
            "X25519MLKEM768:X25519:P-256:P-384:P-521",
        ] {
            assert!(permits_all_curves(list), "{list}");
        }
        for list in ["", "secp384r1", "X25519:prime256v1", "P-256:P-384"] {
            assert!(!permits_all_curves(list), "{list}");
        }
    }
}
