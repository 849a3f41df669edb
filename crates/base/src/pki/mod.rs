//! Parses certificates, keys and trust anchors from PEM texts: for listeners, and for connections that the gateway opens.

mod certificate;
mod client_trust;
mod outbound;
mod provider;

pub use self::certificate::validity;
pub use self::certificate::{
    CertificateError, CertificateTexts, ChainDefect, ServerCertificate, Validity, served,
};
pub use self::client_trust::{ClientAuth, ClientTrust};
pub use self::outbound::{Tls, TlsError, TlsTexts};
pub use self::provider::{crypto_provider, install_crypto_provider, session_tickets};
