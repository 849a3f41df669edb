//! Certificates that the gateway orders by itself, from an ACME server that believes nobody.

mod faults;
mod forward_auth;
mod issuance;
mod renewal;

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::harness::{AcmeServer, Gateway, Setup, eventually, free_address};

/// A gateway with a listener in clear text, the harness' own, and one with TLS beside it.
pub struct Secured {
    pub gateway: Gateway,
    setup: Setup,
    server: AcmeServer,
    tls: SocketAddr,
}

/// The part of a configuration that a test chooses.
pub struct AcmeRules<'a> {
    /// The names that the listener with TLS asks for.
    pub names: &'a [&'a str],
    /// Further lines of `[acme]`.
    pub acme: &'a str,
}

fn setup(server: &AcmeServer, tls: SocketAddr, rules: &AcmeRules<'_>) -> Setup {
    let names = serde_json::to_string(rules.names).unwrap();
    Setup::new().file("ca.pem", &server.ca()).whole(&format!(
        "[server]\nstate_dir = \"{{directory}}/state\"\n\
         [[listener]]\naddress = \"{{listener}}\"\n\
         [[listener]]\naddress = \"{tls}\"\n[listener.tls]\nacme = {names}\n\
         [admin]\naddress = \"{{admin}}\"\n\
         [log]\naccess = \"{{directory}}/access.log\"\n\
         [acme]\naccept_terms = true\ndirectory = \"{directory}\"\nca_file = \"{{directory}}/ca.pem\"\n{acme}\n\
         [[route]]\npath = \"/*\"\nrespond = {{ status = 200, body = \"served\" }}\n",
        directory = server.directory(),
        acme = rules.acme,
    ))
}

impl Secured {
    /// Starts a gateway that orders from `server`, in an empty directory. Where names lead is the test's to say.
    pub async fn start(server: AcmeServer, rules: AcmeRules<'_>) -> Self {
        let ca = server.ca();
        Self::start_with_file(server, rules, ("ca.pem", &ca)).await
    }

    /// As [`Self::start`], with a further file, or another in the place of `ca.pem`.
    pub async fn start_with_file(
        server: AcmeServer,
        rules: AcmeRules<'_>,
        file: (&str, &str),
    ) -> Self {
        let tls = free_address();
        let setup = setup(&server, tls, &rules).file(file.0, file.1);
        let gateway = setup.clone().start().await;
        Self {
            gateway,
            setup,
            server,
            tls,
        }
    }

    pub fn server(&self) -> &AcmeServer {
        &self.server
    }

    /// Lets all names lead to the listener in clear text.
    pub fn names_lead_to_clear_text(&self) {
        self.server.names_lead_to(self.gateway.address());
    }

    /// Lets all names lead to the listener with TLS.
    pub fn names_lead_to_tls(&self) {
        self.server.names_lead_to(self.tls);
    }

    /// Ends the gateway without notice and starts it again, in the same directory.
    pub async fn restart(&mut self) {
        self.gateway.kill();
        self.gateway.start_again().await;
    }

    /// Rewrites the configuration and waits until it serves.
    pub async fn reload(&mut self, rules: AcmeRules<'_>) {
        let before = self.gateway.generation().await;
        self.setup = setup(&self.server, self.tls, &rules);
        self.gateway
            .write_setup(self.setup.clone(), crate::harness::Writing::Rename);
        self.gateway.serves_after(before).await;
    }

    /// A handshake that asks for `name` and believes the ACME server's authority alone.
    pub async fn handshake(&self, name: &str) -> Result<TlsStream<TcpStream>, String> {
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_slice(self.server.ca().as_bytes()).unwrap();
        roots.add(ca).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let stream = TcpStream::connect(self.tls)
            .await
            .map_err(|error| error.to_string())?;
        let shaken = TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await;
        shaken.map_err(|error| error.to_string())
    }

    /// Waits until `name` is served with a certificate that its clients believe; its serial number.
    pub async fn serves(&self, name: &str) -> String {
        eventually(&format!("{name} is served"), async || {
            Some(serial(&self.handshake(name).await.ok()?))
        })
        .await
    }

    /// How `/status` has the certificate of this name, once it is asked for.
    pub async fn status(&self, name: &str) -> Value {
        eventually(&format!("{name} is asked for"), async || {
            let status = self.gateway.status().await;
            let all = status["acme"]["certificates"].as_array().cloned();
            let known = |status: &Value| {
                let names = status["names"].as_array().unwrap();
                names.iter().any(|known| known == name)
            };
            all.unwrap_or_default().into_iter().find(known)
        })
        .await
    }

    /// How many seconds before the end of the certificate of this name the next is ordered.
    pub async fn ahead(&self, name: &str) -> f64 {
        let status = self.status(name).await;
        let moment = |key: &str| {
            let moment: jiff::Timestamp = status[key].as_str().unwrap().parse().unwrap();
            moment.as_millisecond() as f64 / 1_000.0
        };
        moment("not_after") - moment("next_order")
    }

    /// Waits until an order of this name has failed so often; why the last did.
    pub async fn failed(&self, name: &str, times: u64) -> String {
        eventually(&format!("{times} orders of {name} failed"), async || {
            let status = self.status(name).await;
            (status["failures"] == times).then(|| status["error"].as_str().unwrap().to_owned())
        })
        .await
    }
}

/// The serial number of what a handshake has shown.
pub fn serial(stream: &TlsStream<TcpStream>) -> String {
    let shown = stream.get_ref().1.peer_certificates().unwrap();
    let (_, certificate) = X509Certificate::from_der(&shown[0]).unwrap();
    certificate.raw_serial_as_string()
}
