//! A certificate authority of the test's own, and nginx with its certificates.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use tempfile::TempDir;

use crate::harness::{Nginx, eventually, free_port};

/// Authorities with one name would be taken for each other.
static NUMBER: AtomicUsize = AtomicUsize::new(0);

/// Signs certificates; nobody else trusts it.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, as PEM.
pub struct Certified {
    pub certificate: String,
    pub key: String,
}

/// When a certificate is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Good {
    Now,
    InThePast,
}

impl Authority {
    /// A new one, unlike all others.
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(
            DnType::CommonName,
            format!("authority {}", NUMBER.fetch_add(1, Ordering::Relaxed)),
        );
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Its own certificate, as PEM.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for this name or address, which is its common name too.
    pub fn certify(&self, name: &str, good: Good) -> Certified {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = match good {
            Good::Now => date_time_ymd(2100, 1, 1),
            Good::InThePast => date_time_ymd(2001, 1, 1),
        };
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Certified {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }
}

/// nginx that listens with TLS beside its cleartext listener, and the directory of its certificates.
pub struct TlsOrigin {
    pub nginx: Nginx,
    pub address: SocketAddr,
    _files: TempDir,
}

/// What it answers: who it takes the other end for, and what was spoken.
pub const TELL: &str = r#"location / {
    return 200 "$ssl_client_verify|$ssl_client_s_dn|$server_protocol|$ssl_server_name|$http_host|$connection|";
}"#;

impl TlsOrigin {
    /// Starts it with what stands behind the address in `listen`, such as `ssl http2`, and further lines of its `server`.
    ///
    /// `{ca}` stands for the file of the authority's certificate.
    pub async fn start(
        authority: &Authority,
        certified: &Certified,
        listen: &str,
        lines: &str,
    ) -> Self {
        let files = TempDir::new().unwrap();
        let write = |name: &str, text: &str| {
            let path = files.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let ca = write("ca.pem", &authority.pem());
        let certificate = write("origin.pem", &certified.certificate);
        let key = write("origin.key", &certified.key);
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let lines = lines.replace("{ca}", &ca);
        let nginx = Nginx::start(&format!(
            "listen {address} {listen};\nssl_certificate {certificate};\nssl_certificate_key {key};\n{lines}"
        ))
        .await;
        eventually("nginx accepts with TLS", async || {
            TcpStream::connect(address).ok()
        })
        .await;
        Self {
            nginx,
            address,
            _files: files,
        }
    }

    /// One with a certificate for this name, which tells what it sees.
    pub async fn telling(authority: &Authority, name: &str, listen: &str) -> Self {
        let certified = authority.certify(name, Good::Now);
        Self::start(authority, &certified, listen, TELL).await
    }
}
