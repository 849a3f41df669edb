//! Reads certificates, keys and trust anchors out of PEM texts: those that a listener shows or asks for, and those of connections that the
//! gateway opens.

mod certificate;
mod client_trust;
mod outbound;

pub(crate) use self::certificate::validity;
pub use self::certificate::{
    CertificateError, CertificateTexts, ServerCertificate, Validity, served,
};
pub use self::client_trust::{ClientAuth, ClientTrust};
pub use self::outbound::{Tls, TlsError, TlsTexts};
