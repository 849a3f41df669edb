//! Serves the operator's endpoints on a listener of their own; what they say is [`crate::admin`]'s concern.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use http::{Method, Response};
use pingora::apps::http_app::ServeHttp;
use pingora::protocols::http::ServerSession;
use pingora::services::listening::Service;
use tokio::sync::Semaphore;

use crate::admin::{Answer, Sender, answer};
use crate::bounds::ADMIN_BODY;
use crate::live::Live;

/// The application of the admin listener.
pub struct AdminDesk {
    live: Arc<Live>,
    /// One walk through a table at a time, so that no number of questions takes more than a core; others are told to ask again.
    walks: Arc<Semaphore>,
}

impl AdminDesk {
    /// The service that listens on `address`, with one thread so that a scrape never takes one from requests.
    #[must_use]
    pub fn service(live: &Arc<Live>, address: SocketAddr) -> Service<Self> {
        let desk = Self {
            live: Arc::clone(live),
            walks: Arc::new(Semaphore::new(1)),
        };
        let mut service = Service::new("admin".to_owned(), desk);
        service.add_tcp(&address.to_string());
        service.threads = Some(1);
        service
    }
}

#[async_trait]
impl ServeHttp for AdminDesk {
    async fn response(&self, session: &mut ServerSession) -> Response<Vec<u8>> {
        let sender = Sender {
            peer: session
                .client_addr()
                .and_then(|address| address.as_inet())
                .copied(),
            body: body_of(session).await,
        };
        let walk = match answer(session.req_header(), &sender, &*self.live) {
            Answer::Ready(response) => return response,
            Answer::Walk(walk) => Arc::new(walk),
        };
        let Ok(turn) = Arc::clone(&self.walks).try_acquire_owned() else {
            return walk.put_off();
        };
        // Not on this service's only thread, on which probes and scrapes wait. The turn goes along: when the client leaves, the walk
        // goes on to its end, and no other begins before that.
        let (live, walking) = (Arc::clone(&self.live), Arc::clone(&walk));
        let response = tokio::task::spawn_blocking(move || {
            let response = walking.run(&*live);
            drop(turn);
            response
        });
        response.await.unwrap_or_else(|_| walk.put_off())
    }
}

/// Reads the body of a request that changes something; what is longer than such a body can be is cut, and is no JSON then.
async fn body_of(session: &mut ServerSession) -> Vec<u8> {
    let mut body = Vec::new();
    if session.req_header().method != Method::PUT {
        return body;
    }
    while let Ok(Some(piece)) = session.read_request_body().await {
        body.extend_from_slice(&piece);
        if body.len() > ADMIN_BODY {
            body.truncate(ADMIN_BODY);
            break;
        }
    }
    body
}
