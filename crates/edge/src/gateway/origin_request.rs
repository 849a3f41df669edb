//! Makes the head that an origin gets from the head that was received: the fields about the client, the trace, the marks of limits, and the
//! edits of the route.

use sluicegate_base::received::ReceivedHead;
use sluicegate_decide::client::ClientAddress;

use super::context::Context;
use super::forwarded::ForwardedRequest;
use super::{Gateway, labels, max_forwards, shape};
use sluicegate_origin::{CDN_LOOP, ClientHeaders, FieldEdit, set_client_headers};

impl Gateway {
    /// Makes of the received fields the fields that the origin gets.
    pub(super) fn edit_fields_for_origin(
        &self,
        received: &ReceivedHead,
        fields: &mut dyn FieldEdit,
        forwarded: &ForwardedRequest,
        context: &Context,
    ) {
        let (address, source) = context.client_or_unspecified();
        let peer = context.peer_or_unspecified();
        let client_headers = ClientHeaders {
            peer: &peer,
            client: ClientAddress { address, source },
            scheme: context.scheme(),
            request_id: context.request_id,
            rules: &context.snapshot.compiled.rules.client,
            host: &forwarded.pool.rules.host,
            server: forwarded.server.as_ref(),
        };
        set_client_headers(fields, &client_headers);
        labels::trace(fields, &received.headers, context);
        max_forwards::count_down(&received.method, fields);
        shape::edit_request(fields, received, context);
        // After the operator's edits, and from the received fields, so that no edit removes a hop.
        fields.insert(CDN_LOOP, self.0.hop.behind(&received.headers));
        labels::mark(fields, context);
    }
}
