//! Makes of a client's request the one that the origin gets: a GET for the whole response, with the validators of the stored one.

use http::Method;
use http::header::{ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED};
use sluicegate_base::received::ReceivedHead;

use super::transaction::OriginQuestion;
use crate::gateway::cache::CONDITIONS;
use crate::gateway::forwarded::ForwardedRequest;
use sluicegate_origin::FieldEdit;

/// Returns the method with which the origin gets the request.
pub(in super::super) fn sent_method<'a>(
    head: &'a ReceivedHead,
    forwarded: &ForwardedRequest,
) -> &'a Method {
    const GET: &Method = &Method::GET;
    if asks_for_whole(forwarded) {
        GET
    } else {
        &head.method
    }
}

/// Removes conditions and ranges of the client, where the whole response is stored, and adds the validators of the stored one.
pub(in super::super) fn ask_for_whole(fields: &mut dyn FieldEdit, forwarded: &ForwardedRequest) {
    if !asks_for_whole(forwarded) {
        return;
    }
    for name in &CONDITIONS {
        fields.remove(name);
    }
    let stored = forwarded
        .cached
        .as_ref()
        .and_then(|transaction| transaction.revalidated());
    let Some(stored) = stored.map(|stored| stored.head.fields()) else {
        return;
    };
    for (validator, condition) in [(LAST_MODIFIED, IF_MODIFIED_SINCE), (ETAG, IF_NONE_MATCH)] {
        if let Some(value) = stored.get(&validator) {
            fields.insert(condition, value.clone());
        }
    }
}

fn asks_for_whole(forwarded: &ForwardedRequest) -> bool {
    let question = forwarded
        .cached
        .as_ref()
        .map(|transaction| transaction.question);
    question == Some(OriginQuestion::Whole)
}
