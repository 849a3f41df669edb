//! Opens connections to a server whose origin has `max_connections`, each with a permit; without a permit it fails.
//!
//! Pingora's transport calls it in place of its own connector, which this one follows: the same
//! function opens the socket, and the stream gets the same options. `total_connection_timeout` of the peer bounds it;
//! `connection_timeout` does not apply here, and has the same value.

use std::os::fd::AsFd;
use std::sync::Arc;

use async_trait::async_trait;
use pingora::connectors::L4Connect;
use pingora::protocols::l4::ext;
use pingora::protocols::l4::socket::SocketAddr;
use pingora::protocols::l4::stream::Stream;
use pingora::upstreams::peer::{HttpPeer, Tracer};
use pingora::{Error, ErrorType, OrErr, Result};

use super::connections::{ConnectionPermit, Connections, Group};
use super::pending_queue::OriginQueues;

/// The type of the error for a request that is refused a connection, for its way through Pingora's transport.
pub(super) const NO_CONNECTION: &str = "the server has all the connections that it may";

/// The connector of a server with a bound on connections.
#[derive(Debug)]
struct BoundedDialer {
    connections: Arc<Connections>,
    most: u32,
    group: Group,
    queues: Arc<OriginQueues>,
}

/// Makes `peer` open at most `most` connections; a release wakes a request of `queues`.
pub(super) fn bound(
    peer: &mut HttpPeer,
    connections: &Arc<Connections>,
    most: u32,
    queues: &Arc<OriginQueues>,
) {
    peer.options.custom_l4 = Some(Arc::new(BoundedDialer {
        connections: Arc::clone(connections),
        most,
        group: Group(peer.group_key),
        queues: Arc::clone(queues),
    }));
}

#[async_trait]
impl L4Connect for BoundedDialer {
    async fn connect(&self, address: &SocketAddr) -> Result<Stream> {
        // Before the socket, so that it ends after it, also where no request waits for the connection any more.
        let mut permit = self
            .connections
            .permit(self.most, self.group, &self.queues)
            .ok_or_else(|| Error::new(ErrorType::Custom(NO_CONNECTION)))?;
        let mut stream: Stream = match address {
            SocketAddr::Inet(address) => {
                recorded(ext::connect(address, None).await?, &mut permit)?.into()
            }
            SocketAddr::Unix(address) => {
                let Some(path) = address.as_pathname() else {
                    return Error::e_explain(ErrorType::InternalError, "a socket without a path");
                };
                recorded(ext::connect_uds(path).await?, &mut permit)?.into()
            }
        };
        stream.tracer = Some(Tracer(Box::new(permit)));
        Ok(stream)
    }
}

/// Records the socket of a connection in its permit.
fn recorded<S: AsFd>(socket: S, permit: &mut ConnectionPermit) -> Result<S> {
    permit
        .record_established(&socket)
        .or_err(ErrorType::InternalError, "a second handle of a socket")?;
    Ok(socket)
}
