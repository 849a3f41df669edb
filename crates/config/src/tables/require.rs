//! Declares `[route.require]`: what clients must have shown before a route admits their requests.

use sluicegate_config_derive::Table;

use crate::declaration::Flag;

/// The proofs that a client must bring before the route admits its requests. Default: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Table)]
#[table(path = "route[].require")]
pub struct RequireRules {
    /// True answers requests with 403 unless their connection has a client certificate that its listener verified (client_ca_file). A
    /// listener that other proxies ask sees no certificate of their clients. False says that certificates are not needed, where `check`
    /// warns that one listener asks for them and another does not. Default: certificates are not looked at.
    #[key(
        example = "true",
        default = CertificateNeed::Unsaid,
        reader = Flag(CertificateNeed::NotNeeded, CertificateNeed::Required)
    )]
    pub client_certificate: CertificateNeed,
}

/// The need for a certificate of the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CertificateNeed {
    /// Nothing is said.
    #[default]
    Unsaid,
    /// None is needed.
    NotNeeded,
    /// A verified one is.
    Required,
}

impl RequireRules {
    /// Returns whether a request without a verified certificate of its client is rejected.
    #[must_use]
    pub fn needs_certificate(&self) -> bool {
        self.client_certificate == CertificateNeed::Required
    }
}
