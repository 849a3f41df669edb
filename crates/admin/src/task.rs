//! Says how an endpoint answers a request: at once, or by an action that other responses must not wait for.

use std::fmt::Debug;

use super::operator::Operator;
use super::page::AdminPage;
use sluicegate_process::GatewayProcess;

/// The page that is ready, the function or the action that makes one, or the order to stream.
pub(super) enum AdminTask {
    Show(AdminPage),
    Sample(fn(&GatewayProcess) -> AdminPage),
    Walk(Box<dyn AdminAction>),
    Stream,
}

/// A query or an order of an operator, which makes its page on a thread that no other response waits for.
pub(super) trait AdminAction: Debug + Send + Sync {
    /// Runs the action and returns the page about it.
    fn page(&self, operator: &Operator, process: &GatewayProcess) -> AdminPage;

    /// Returns whether the action is refused as a change where no token is configured.
    fn needs_token(&self) -> bool {
        true
    }
}

impl AdminAction for fn(&GatewayProcess) -> AdminPage {
    fn page(&self, _: &Operator, process: &GatewayProcess) -> AdminPage {
        self(process)
    }
}
