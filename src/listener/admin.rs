//! Serves the operator's endpoints on a listener of their own; what they say is [`crate::admin`]'s concern.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use http::Response;
use pingora::apps::http_app::ServeHttp;
use pingora::protocols::http::ServerSession;
use pingora::services::listening::Service;

use crate::admin::answer;
use crate::live::Live;

/// The application of the admin listener.
pub struct AdminDesk(Arc<Live>);

impl AdminDesk {
    /// The service that listens on `address`, with one thread so that a scrape never takes one from requests.
    #[must_use]
    pub fn service(live: &Arc<Live>, address: SocketAddr) -> Service<Self> {
        let mut service = Service::new("admin".to_owned(), Self(Arc::clone(live)));
        service.add_tcp(&address.to_string());
        service.threads = Some(1);
        service
    }
}

#[async_trait]
impl ServeHttp for AdminDesk {
    async fn response(&self, session: &mut ServerSession) -> Response<Vec<u8>> {
        answer(session.req_header(), &*self.0)
    }
}
