//! What a test starts and asks: the gateway, origins, clients, load.

mod acme;
mod browser;
mod chromium;
mod client;
#[cfg(feature = "otlp")]
mod collector;
pub mod dnsmasq;
mod driven_clock;
mod eventually;
mod flood;
pub mod frames;
mod frameworks;
mod gateway;
mod h2c;
mod metrics;
mod mishap;
mod nginx;
mod origin;
mod ports;
mod raw;
mod redis;
mod resources;
mod rules;
mod setup;
mod spoken;
mod terminal;
mod tls;
mod turnstile;
mod wrk;

pub use acme::{AcmeServer, Fault};
pub use browser::{Browser, Page};
pub use client::{Client, Request, Response, Version, delete, get, head, options, post, request};
#[cfg(feature = "otlp")]
pub use collector::{Collector, Told};
pub use dnsmasq::Dnsmasq;
pub use driven_clock::DrivenClock;
pub use eventually::{PATIENCE, at_a_pace, eventually, within};
pub use flood::Flood;
pub use frameworks::{Framework, FrameworkServer, LIMITED, Reading, python};
pub use gateway::{Gateway, Process, read_log};
pub use h2c::EndOfStream;
pub use metrics::Metrics;
pub use mishap::{Mishap, Way};
pub use nginx::Nginx;
pub use origin::{Answer, Origin, Received, Reply};
pub use ports::{free_address, free_port};
pub use raw::RawConnection;
pub use redis::{Cluster, Redis, Sentinels, redis_server};
pub use rules::{ANSWERED, limit, route};
pub use setup::{Setup, Writing};
pub use spoken::SpokenPage;
pub use terminal::TestTerminal;
pub use tls::{Authority, Pair, TlsClients};
pub use turnstile::Turnstile;
pub use wrk::Wrk;
