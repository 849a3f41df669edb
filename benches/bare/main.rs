//! The baseline of `edge.sh`: Pingora and nothing else. No limit, no log, no metrics, no routes.
//!
//! It has every advantage that the gateway gives itself (the same allocator, profile and runtime flavour, a large pool of
//! origin connections, no compression module), so that the difference between the two is what the gateway adds.
//!
//! `bare LISTEN ORIGIN`, both as `ADDRESS:PORT`.

use std::env;
use std::net::SocketAddr;

use async_trait::async_trait;
use mimalloc::MiMalloc;
use pingora::modules::http::HttpModules;
use pingora::server::Server;
use pingora::server::configuration::ServerConf;
use pingora::upstreams::peer::HttpPeer;
use pingora_proxy::{ProxyHttp, Session, http_proxy_service};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Forwards everything to one address.
struct Bare {
    origin: SocketAddr,
}

#[async_trait]
impl ProxyHttp for Bare {
    type CTX = ();

    fn new_ctx(&self) -> Self::CTX {}

    /// Left empty: the default adds a compression module that costs about 2,000 instructions a request.
    fn init_downstream_modules(&self, _: &mut HttpModules) {}

    async fn upstream_peer(
        &self,
        _: &mut Session,
        (): &mut Self::CTX,
    ) -> pingora::Result<Box<HttpPeer>> {
        Ok(Box::new(HttpPeer::new(self.origin, false, String::new())))
    }
}

fn main() {
    let mut arguments = env::args().skip(1);
    let (Some(listen), Some(origin)) = (arguments.next(), arguments.next()) else {
        std::process::exit(64);
    };
    let Ok(origin) = origin.parse() else {
        std::process::exit(64);
    };
    let conf = ServerConf {
        threads: 1,
        work_stealing: false,
        upstream_keepalive_pool_size: 1024,
        ..ServerConf::default()
    };
    let mut server = Server::new_with_opt_and_conf(None, conf);
    server.bootstrap();
    let mut service = http_proxy_service(&server.configuration, Bare { origin });
    service.add_tcp(&listen);
    server.add_service(service);
    server.run_forever();
}
