//! Runs one call on the server of its key, and follows the answers that say that nothing ran.

use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::time::timeout_at;

use crate::bounds::REDIRECTIONS;
use crate::call::{Call, Reply};
use crate::connection::{Connection, ScriptForm};
use crate::error::{ErrorReply, RefusalReason, StoreError};
use crate::link_state::LinkState;
use crate::observer::LinkEvent;
use crate::settings::{HostPort, LinkSettings};
use crate::time::deadline;
use crate::topology::ServerMap;

/// The pause before a call is sent again to a slot that is being moved.
const MOVING: Duration = Duration::from_millis(1);

/// Runs one call, of the link's script or of `other`, within the timeout, and follows redirections.
pub(crate) async fn follow(
    map: &ArcSwap<ServerMap>,
    settings: &LinkSettings,
    shared: &LinkState,
    call: &Call,
    other: Option<&'static str>,
) -> Result<Reply, StoreError> {
    let map = map.load_full();
    let deadline = deadline(settings.timeout);
    let whole = other.unwrap_or(shared.script);
    let mut manner = other.map_or(ScriptForm::Hash, ScriptForm::Text);
    let mut line = map.line_of(call).ok_or(StoreError::Unavailable)?;
    for _ in 0..REDIRECTIONS {
        let permit = line.permit().ok_or(StoreError::Unavailable)?;
        let asked = timeout_at(deadline, line.ask(call, manner)).await;
        let fault = match asked {
            Err(_) => ErrorReply::Failed(StoreError::TimedOut),
            Ok(Err(fault)) => fault,
            Ok(Ok(reply)) => {
                line.succeeded(permit);
                return Ok(reply);
            }
        };
        if let ErrorReply::Failed(failure) = fault {
            line.failed(permit, &failure);
            return Err(failure);
        }
        line.succeeded(permit);
        match fault {
            ErrorReply::NoScript => {
                shared.observer.count_event(LinkEvent::ScriptLoaded);
                manner = ScriptForm::Text(whole);
            }
            ErrorReply::Moved(place) => {
                shared.look_again();
                line = elsewhere(&map, place).ok_or(StoreError::Refused(RefusalReason::Moved))?;
            }
            ErrorReply::Ask(place) => {
                line = elsewhere(&map, place).ok_or(StoreError::Refused(RefusalReason::Moved))?;
                manner = ScriptForm::TextAfterAsking(whole);
            }
            ErrorReply::TryAgain | ErrorReply::Failed(_) => {
                let pause = tokio::time::sleep(MOVING);
                if timeout_at(deadline, pause).await.is_err() {
                    return Err(StoreError::Refused(RefusalReason::TryAgain));
                }
            }
        }
    }
    Err(StoreError::Refused(RefusalReason::TryAgain))
}

/// Returns the connection to the server that an answer names.
fn elsewhere(map: &ServerMap, place: Option<HostPort>) -> Option<&Connection> {
    map.line_to(&place?)
}
