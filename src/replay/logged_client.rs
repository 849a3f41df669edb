//! Finds client and route of a logged request, with the crawler that the gateway found when it logged the request.
//!
//! A log has what was proved then, also by what no log has. A crawler that was verified and is still configured stays that crawler. Where
//! nothing was proved, address and user agent are judged by the configuration of the replay, which may know more crawlers.

use sluicegate_access_log::{FieldKind, LoggedRequest, LoggedTreatment};
use sluicegate_base::crawler::{
    CrawlerProof, CrawlerRequest, CrawlerStatus, UNVERIFIED, UnverifiedReason,
};
use sluicegate_decide::response::GatewayProblem;
use sluicegate_limiter::Timestamp;

use super::logged_head::LoggedHead;
use crate::gateway::{KnownClient, Located, RequestHead, locate_known};
use crate::snapshot::Snapshot;
use sluicegate_decide::client::{ConnectionPeer, ListMatch};

/// Finds client and route of `request`, whose head is `head`.
///
/// # Errors
/// The problem by which a gateway would answer.
pub(super) fn locate_logged<'a>(
    snapshot: &'a Snapshot,
    request: &LoggedRequest<'_>,
    logged: &LoggedHead<'_>,
    head: &RequestHead<'a>,
) -> Result<Located<'a>, GatewayProblem> {
    let known = KnownClient {
        crawler: recorded(snapshot, request, head),
        ..KnownClient::default()
    };
    let peer = ConnectionPeer::plain(logged.peer);
    let now = Timestamp::from_nanos(request.time);
    locate_known(snapshot, peer, head, now, known)
}

/// Returns whether the limits decide about a logged request: no list blocks its client, and it is no preflight, which a gateway answers
/// itself. A proxy that asked about a preflight forwarded it, so it counted.
pub(super) fn is_judged(located: &Located<'_>, request: &LoggedRequest<'_>) -> bool {
    let is_blocked = matches!(located.list_match, ListMatch::Blocked(_));
    let is_forwarded = request.treatment == LoggedTreatment::Allowed;
    !is_blocked && (located.preflight.is_none() || is_forwarded)
}

/// Returns the crawler that the line has; `None` where address and user agent decide.
fn recorded(
    snapshot: &Snapshot,
    request: &LoggedRequest<'_>,
    head: &RequestHead<'_>,
) -> Option<CrawlerStatus> {
    let text = |name: &str| {
        let mut fields = request.fields.iter();
        let field = fields
            .find(|field| field.kind == FieldKind::Crawler && field.name == name.as_bytes())?;
        std::str::from_utf8(field.value).ok()
    };
    let name = text("crawler")?;
    let proof = text("crawler_proof");
    let mut proofs = CrawlerProof::all().into_iter();
    if let Some(proof) = proofs.find(|known| proof == Some(known.as_str()))
        && let Some(crawler) = snapshot.crawlers.named(name)
    {
        return Some(CrawlerStatus::Verified(crawler.clone(), proof));
    }
    if name != UNVERIFIED {
        return None;
    }
    let asked = CrawlerRequest::without_target(request.client, head.headers);
    match snapshot.crawlers.identify(&asked) {
        CrawlerStatus::None => Some(CrawlerStatus::Unverified(None, UnverifiedReason::NoProof)),
        found => Some(found),
    }
}
