//! Writes the crawler that a client is or claims to be into the line of its request.

use sluicegate_base::crawler::CrawlerStatus;

use super::line_values::{MAX_HOST, text, text_cut};

/// Writes the fields `crawler` and `crawler_…`, each with the comma before it.
pub(super) fn write(into: &mut Vec<u8>, status: &CrawlerStatus) {
    match status {
        CrawlerStatus::Verified(crawler, proof) => {
            text(into, b",\"crawler\":\"", crawler.name.as_bytes());
            text(into, b",\"crawler_proof\":\"", proof.as_str().as_bytes());
            if let Some(name) = proof.hostname() {
                // Who owns the crawler's domain chooses it.
                text_cut(into, b",\"crawler_hostname\":\"", name.as_bytes(), MAX_HOST);
            }
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};
    use sluicegate_base::crawler::{CrawlerIdentity, CrawlerProof, UnverifiedReason};

    use super::*;

    fn google() -> Arc<CrawlerIdentity> {
        Arc::new(CrawlerIdentity {
            name: "goo\"gle".into(),
            group: Some("search".into()),
        })
    }

    /// The fields, each of which has to be in the operator's guide.
    fn fields(status: &CrawlerStatus) -> Value {
        let guide = include_str!("../../../docs/operations/logs.md");
        let mut bytes = b"{\"time\":0".to_vec();
        write(&mut bytes, status);
        bytes.push(b'}');
        let mut fields: Value = serde_json::from_slice(&bytes).expect("a line is JSON");
        let object = fields.as_object_mut().expect("an object");
        object.remove("time");
        for name in object.keys() {
            assert!(guide.contains(&format!("| `{name}` |")), "{name}");
        }
        fields
    }

    /// Goal: a line has what is known of the crawler, and no more. Method: each proof, a claim, and neither.
    #[test]
    fn each_kind_of_client_has_its_fields() {
        let verified = |proof| fields(&CrawlerStatus::Verified(google(), proof));
        let hostname = "crawl-66-249-66-1.googlebot.com";
        for (found, wanted) in [
            (
                verified(CrawlerProof::Ranges),
                json!({"crawler": "goo\"gle", "crawler_proof": "ranges"}),
            ),
            (
                verified(CrawlerProof::Signature),
                json!({"crawler": "goo\"gle", "crawler_proof": "signature"}),
            ),
            (
                verified(CrawlerProof::ReverseDns(Some(hostname.into()))),
                json!({"crawler": "goo\"gle", "crawler_proof": "reverse-dns", "crawler_hostname": hostname}),
            ),
            (
                verified(CrawlerProof::ReverseDns(None)),
                json!({"crawler": "goo\"gle", "crawler_proof": "reverse-dns"}),
            ),
            (
                fields(&CrawlerStatus::Unverified(
                    Some(google()),
                    UnverifiedReason::NoProof,
                )),
                json!({"crawler": "unverified", "crawler_claim": "goo\"gle", "crawler_reason": "no-proof"}),
            ),
            (fields(&CrawlerStatus::None), json!({"crawler": "none"})),
        ] {
            assert_eq!(found, wanted);
        }
    }

    /// Goal: no name breaks a line, or makes it long. Method: a name of bytes that have to be escaped, longer than names of DNS are.
    #[test]
    fn a_hostname_is_escaped_and_bounded() {
        let name = "\"\n\\.".repeat(1000);
        let proof = CrawlerProof::ReverseDns(Some(name.as_str().into()));
        let found = fields(&CrawlerStatus::Verified(google(), proof));
        let written = found["crawler_hostname"].as_str().expect("text");
        assert!(written.ends_with('…') && written.len() <= MAX_HOST + 3);
        assert!(name.starts_with(written.trim_end_matches('…')));
    }
}
