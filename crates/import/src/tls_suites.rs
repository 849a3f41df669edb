//! Names the cipher suites of the gateway, with which those of another proxy are compared.

/// The suites for TLS 1.2, as OpenSSL names them. Those of TLS 1.3 are the same three everywhere.
pub(crate) const SUITES: [&str; 6] = [
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-RSA-CHACHA20-POLY1305",
];
