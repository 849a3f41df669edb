//! Runs one call on the server of its key, and follows the answers that say that nothing ran.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::time::timeout_at;

use crate::address::HostPort;
use crate::bounds::REDIRECTIONS;
use crate::call::{Call, CallUrgency, Reply};
use crate::connection::{Connection, ScriptForm};
use crate::error::{ErrorReply, RefusalReason, StoreError};
use crate::link_state::LinkState;
use crate::observer::LinkEvent;
use crate::settings::LinkSettings;
use crate::time::deadline;
use crate::topology::ServerMap;

/// The pause before a call is sent again to a slot that is being moved.
const TRY_AGAIN_PAUSE: Duration = Duration::from_millis(1);

/// Runs one call, of the link's script or of `other`, within the timeout of its urgency, and follows redirections.
pub(crate) async fn follow(
    map: &ArcSwap<ServerMap>,
    settings: &LinkSettings,
    shared: &LinkState,
    call: &Arc<Call>,
    other: Option<&'static str>,
    urgency: CallUrgency,
) -> Result<Reply, StoreError> {
    let map = map.load_full();
    let deadline = deadline(settings.timeout_of(urgency));
    let script = other.unwrap_or(shared.script.text);
    let mut form = other.map_or(ScriptForm::Hash, ScriptForm::HashOf);
    let mut connection = map.connection_for(call).ok_or(StoreError::Unavailable)?;
    for _ in 0..REDIRECTIONS {
        let permit = connection.permit(urgency).ok_or(StoreError::Unavailable)?;
        let sent = timeout_at(deadline, connection.send(call, form)).await;
        let error = match sent {
            Err(_) => ErrorReply::Failed(StoreError::TimedOut),
            Ok(Err(error)) => error,
            Ok(Ok(reply)) => {
                connection.succeeded(permit);
                return Ok(reply);
            }
        };
        if let ErrorReply::Failed(error) = error {
            connection.failed(permit, &error);
            return Err(error);
        }
        connection.succeeded(permit);
        match error {
            ErrorReply::NoScript => {
                shared.observer.count_event(LinkEvent::ScriptLoaded);
                form = ScriptForm::Text(script);
            }
            ErrorReply::Moved(address) => {
                shared.refresh_topology();
                connection =
                    target_of(&map, address).ok_or(StoreError::Refused(RefusalReason::Moved))?;
            }
            ErrorReply::Ask(address) => {
                connection =
                    target_of(&map, address).ok_or(StoreError::Refused(RefusalReason::Moved))?;
                form = ScriptForm::TextAfterAsking(script);
            }
            ErrorReply::TryAgain | ErrorReply::Failed(_) => {
                let pause = tokio::time::sleep(TRY_AGAIN_PAUSE);
                if timeout_at(deadline, pause).await.is_err() {
                    return Err(StoreError::Refused(RefusalReason::TryAgain));
                }
            }
        }
    }
    Err(StoreError::Refused(RefusalReason::TryAgain))
}

/// Returns the connection to the server that an answer names.
fn target_of(map: &ServerMap, address: Option<HostPort>) -> Option<&Connection> {
    map.connection_to(&address?)
}
