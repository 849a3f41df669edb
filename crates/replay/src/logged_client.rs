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
use sluicegate_decide::client::ConnectionPeer;
use sluicegate_decide::compiled_rules::CompiledRules;
use sluicegate_decide::locate::{
    EarlyEnd, KnownClient, LocatedRequest, RequestServer, locate_known,
};
use sluicegate_decide::request_head::RequestHead;

/// Finds client and route of `request`, whose head is `head`.
///
/// # Errors
/// The problem by which a gateway would answer.
pub(super) fn locate_logged<'a>(
    compiled: &'a CompiledRules,
    request: &LoggedRequest<'_>,
    logged: &LoggedHead<'_>,
    head: &RequestHead<'a>,
) -> Result<LocatedRequest<'a>, GatewayProblem> {
    let known = KnownClient {
        crawler: recorded(compiled, request, head),
        ..KnownClient::default()
    };
    let peer = ConnectionPeer::plain(logged.peer);
    let now = Timestamp::from_nanos(request.time);
    locate_known(compiled, peer, head, now, known)
}

/// Returns how a logged request ends before its limits; `None` where they decide. No log has the certificate of a client, so every client
/// counts as one that showed it.
pub(super) fn early_end(
    located: &LocatedRequest<'_>,
    request: &LoggedRequest<'_>,
) -> Option<EarlyEnd> {
    let server = match request.treatment {
        LoggedTreatment::Allowed => RequestServer::OtherProxy,
        _ => RequestServer::Gateway,
    };
    let end = located.early_end(server);
    end.filter(|end| *end != EarlyEnd::NoCertificate)
}

/// Returns the crawler that the line has; `None` where address and user agent decide.
fn recorded(
    compiled: &CompiledRules,
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
        && let Some(crawler) = compiled.crawlers.named(name)
    {
        return Some(CrawlerStatus::Verified(crawler.clone(), proof));
    }
    if name != UNVERIFIED {
        return None;
    }
    let asked = CrawlerRequest::without_target(request.client, head.headers);
    match compiled.crawlers.identify(&asked) {
        CrawlerStatus::None => Some(CrawlerStatus::Unverified(None, UnverifiedReason::NoProof)),
        found => Some(found),
    }
}
