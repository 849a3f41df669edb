//! Measures what a full TLS 1.3 handshake takes of the server's processor, by library of cryptography and key exchange.
//!
//! `cargo run --release -p sluicegate-base --example handshakes [HANDSHAKES]`. Both sides are in memory; the time is that of the server's
//! side. The certificate has a key on P-256, as those that the gateway gets by ACME. Ratios are formed inside a round.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a program for the terminal"
)]

use std::env;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs, ring};
use rustls::pki_types::{PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

/// Rounds, of which the median counts.
const ROUNDS: usize = 7;

/// A library with one key exchange.
struct Variant {
    name: &'static str,
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

impl Variant {
    fn new(
        name: &'static str,
        library: CryptoProvider,
        group: &'static dyn SupportedKxGroup,
    ) -> Self {
        let server_provider = CryptoProvider {
            kx_groups: vec![group],
            ..library
        };
        // The client is the same for all, since its time does not count.
        let client_provider = CryptoProvider {
            kx_groups: vec![match group.name() {
                name if name == aws_lc_rs::kx_group::X25519.name() => aws_lc_rs::kx_group::X25519,
                _ => aws_lc_rs::kx_group::X25519MLKEM768,
            }],
            ..aws_lc_rs::default_provider()
        };
        let made = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let server = ServerConfig::builder_with_provider(server_provider.into())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key.into())
            .unwrap();
        let mut client = ClientConfig::builder_with_provider(client_provider.into())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.resumption = Resumption::disabled();
        Self {
            name,
            server: server.into(),
            client: client.into(),
        }
    }

    /// Returns the server's time for one handshake.
    fn shake_hands(&self) -> Duration {
        let name = ServerName::try_from("a.test").unwrap();
        let mut client = ClientConnection::new(Arc::clone(&self.client), name).unwrap();
        let begun = cpu_time();
        let mut server = ServerConnection::new(Arc::clone(&self.server)).unwrap();
        let mut time = cpu_time() - begun;
        while client.is_handshaking() || server.is_handshaking() {
            let mut to_server = Vec::new();
            client.write_tls(&mut to_server).unwrap();
            let begun = cpu_time();
            let mut to_client = Vec::new();
            let mut unread = &to_server[..];
            while !unread.is_empty() {
                server
                    .read_tls(&mut (&mut unread as &mut dyn Read))
                    .unwrap();
                server.process_new_packets().unwrap();
            }
            while server.wants_write() {
                server.write_tls(&mut to_client).unwrap();
            }
            time += cpu_time() - begun;
            let mut unread = &to_client[..];
            while !unread.is_empty() {
                client
                    .read_tls(&mut (&mut unread as &mut dyn Read))
                    .unwrap();
                client.process_new_packets().unwrap();
            }
        }
        time
    }
}

fn main() {
    let handshakes: u32 = env::args()
        .nth(1)
        .map_or(2000, |number| number.parse().unwrap());
    let variants = [
        Variant::new(
            "ring, X25519",
            ring::default_provider(),
            ring::kx_group::X25519,
        ),
        Variant::new(
            "aws-lc-rs, X25519",
            aws_lc_rs::default_provider(),
            aws_lc_rs::kx_group::X25519,
        ),
        Variant::new(
            "aws-lc-rs, X25519MLKEM768",
            aws_lc_rs::default_provider(),
            aws_lc_rs::kx_group::X25519MLKEM768,
        ),
        Variant::new(
            "ring, X25519MLKEM768 of aws-lc-rs",
            ring::default_provider(),
            aws_lc_rs::kx_group::X25519MLKEM768,
        ),
    ];
    let rounds: Vec<Vec<f64>> = (0..ROUNDS)
        .map(|_| {
            let of_variant = |variant: &Variant| {
                let all: Duration = (0..handshakes).map(|_| variant.shake_hands()).sum();
                all.as_secs_f64() * 1e6 / f64::from(handshakes)
            };
            variants.iter().map(of_variant).collect()
        })
        .collect();
    println!("| library and key exchange | CPU us a handshake | to ring, X25519 |");
    println!("|---|---|---|");
    for (at, variant) in variants.iter().enumerate() {
        let times = sorted(rounds.iter().map(|round| round[at]));
        let ratios = sorted(rounds.iter().map(|round| round[at] / round[0]));
        println!(
            "| {} | {:.1} | {:.2} ({:.2}-{:.2}) |",
            variant.name,
            times[ROUNDS / 2],
            ratios[ROUNDS / 2],
            ratios[0],
            ratios[ROUNDS - 1]
        );
    }
}

/// Returns what this thread has taken of a processor.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap()
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}
