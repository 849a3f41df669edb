//! Lets only requests that passed admission pick a server.

use std::ops::Deref;
use std::sync::Arc;

use sluicegate_base::address::AddressPrefix;

use super::pending_queue::AttemptWait;
use super::pick_request::PickRequest;
use super::pick_result::PickResult;
use super::pool::ServerPool;
use super::server::ServerPermit;
use sluicegate_decide::admission::Admitted;

/// The pool of an admitted request. Nothing else picks a server.
pub struct AdmittedPool(Arc<ServerPool>);

impl AdmittedPool {
    /// Returns the pool for the request whose evidence of admission this is.
    #[must_use]
    pub fn new(pool: Arc<ServerPool>, _: &Admitted) -> Self {
        Self(pool)
    }

    /// Picks a server for a new attempt, and takes a permit there.
    #[must_use]
    pub fn choose(&self, request: &PickRequest) -> PickResult<ServerPermit> {
        self.0.choose(request)
    }

    /// Picks a server as [`choose`](Self::choose) does, for a request that has waited already.
    #[must_use]
    pub fn find(&self, request: &PickRequest) -> PickResult<ServerPermit> {
        self.0.find(request)
    }

    /// Waits for a permit at a server for a request of `client`; [`PickResult::Full`] where there is none at the end of the wait.
    /// `request` makes a new pick request for each try.
    pub async fn wait(
        &self,
        wait: &mut AttemptWait,
        client: AddressPrefix,
        request: impl Fn() -> PickRequest,
    ) -> PickResult<ServerPermit> {
        self.0.wait(wait, client, request).await
    }
}

impl Deref for AdmittedPool {
    type Target = Arc<ServerPool>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
