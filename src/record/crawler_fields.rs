//! Writes the crawler that a client is or claims to be into the line of its request.

use sluicegate_base::crawler::CrawlerStatus;

use super::line::text;

/// Writes the fields `crawler` and `crawler_…`, each with the comma before it.
pub(super) fn write(into: &mut Vec<u8>, status: &CrawlerStatus) {
    match status {
        CrawlerStatus::Verified(crawler, proof) => {
            text(into, b",\"crawler\":\"", crawler.name.as_bytes());
            text(into, b",\"crawler_proof\":\"", proof.as_str().as_bytes());
        }
        CrawlerStatus::None | CrawlerStatus::Unverified(..) => {
            text(into, b",\"crawler\":\"", status.value().as_bytes());
            if let Some(claimed) = status.crawler() {
                text(into, b",\"crawler_claim\":\"", claimed.name.as_bytes());
            }
            if let CrawlerStatus::Unverified(_, reason) = status {
                let reason = reason.as_str().as_bytes();
                text(into, b",\"crawler_reason\":\"", reason);
            }
        }
    }
}
