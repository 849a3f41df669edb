//! Decides whose bearer token an admin request carries (RFC 6750 §2.1), if any.
//!
//! Every request is compared with all tokens, and each comparison takes the same time wherever the first difference is, so that no client
//! can guess a token byte by byte. The length of a token is no secret.

use std::hint::black_box;

use http::header::{GetAll, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use ring::digest::{SHA256, digest};

use super::operator::TokenHolder;
use super::page::{AdminPage, JSON};
use sluicegate_config::rules::{AdminTokens, TokenSecret};
use sluicegate_process::GatewayProcess;

/// The result of the token check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TokenAccess {
    /// No token is configured.
    Open,
    /// The request has a token.
    Granted(TokenHolder),
    /// The request lacks a token.
    Denied,
}

/// Checks the `Authorization` fields of a request. More than one counts as none.
pub(super) fn check(tokens: Option<&AdminTokens>, fields: GetAll<'_, HeaderValue>) -> TokenAccess {
    let Some(tokens) = tokens else {
        return TokenAccess::Open;
    };
    let mut fields = fields.iter();
    let (Some(field), None) = (fields.next(), fields.next()) else {
        return TokenAccess::Denied;
    };
    let Some(presented) = presented(field.as_bytes()) else {
        return TokenAccess::Denied;
    };
    let hash = digest(&SHA256, presented);
    let mut found = None;
    // No early end: the time would say which token is nearly right.
    for token in tokens.iter() {
        let is_same = match &token.secret {
            TokenSecret::Plain(text) => same(presented, text.as_bytes()),
            TokenSecret::Sha256(known) => same(hash.as_ref(), known),
        };
        if is_same {
            found = Some(token);
        }
    }
    found.map_or(TokenAccess::Denied, |token| {
        TokenAccess::Granted(TokenHolder::new(token))
    })
}

/// Returns the credentials after `Bearer `; the scheme's case does not matter (RFC 9110 §11.1).
fn presented(field: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = field.split_at_checked("Bearer ".len())?;
    scheme
        .eq_ignore_ascii_case(b"Bearer ")
        .then(|| rest.trim_ascii())
}

/// Compares in a time that depends on the lengths alone.
fn same(left: &[u8], right: &[u8]) -> bool {
    let differences = left
        .iter()
        .zip(right)
        .fold(0, |all, (left, right)| black_box(all | (left ^ right)));
    left.len() == right.len() && black_box(differences) == 0
}

/// Returns the tokens of `[admin] token_file`; `None` where none is configured.
pub(super) fn token_of(process: &GatewayProcess) -> Option<AdminTokens> {
    process
        .shared
        .snapshot()
        .compiled
        .rules
        .admin
        .token_file
        .clone()
}

/// Returns the page that refuses a change where no token is configured: no peer can prove there that it may make one.
pub(super) fn change_refusal(process: &GatewayProcess) -> Option<AdminPage> {
    let error = "a change needs a token; set [admin] token_file";
    let is_open = token_of(process).is_none();
    is_open.then(|| AdminPage::error(StatusCode::FORBIDDEN, error))
}

/// Returns the page that asks for a token.
pub(super) fn no_token() -> AdminPage {
    let error = &br#"{"error":"this path needs a token of [admin] token_file"}"#[..];
    let page = AdminPage::new(StatusCode::UNAUTHORIZED, JSON, error);
    page.with(WWW_AUTHENTICATE, "Bearer realm=\"sluicegate\"")
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use http::header::AUTHORIZATION;
    use proptest::prelude::*;

    use super::*;

    /// Returns the name and the role of the token, or the reason for none.
    fn judged(tokens: Option<&str>, fields: &[&str]) -> String {
        let tokens = tokens.map(|text| AdminTokens::parse(text).expect("tokens"));
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append(
                AUTHORIZATION,
                HeaderValue::from_bytes(field.as_bytes()).expect("a field value"),
            );
        }
        match check(tokens.as_ref(), headers.get_all(AUTHORIZATION)) {
            TokenAccess::Open => "open".to_owned(),
            TokenAccess::Granted(holder) => format!("{} {}", holder.name, holder.role),
            TokenAccess::Denied => "denied".to_owned(),
        }
    }

    /// Goal: only the token opens. Method: near misses.
    #[test]
    fn only_the_whole_token_under_the_bearer_scheme_is_granted() {
        assert_eq!(judged(None, &[]), "open");
        for granted in ["Bearer s3cret", "bearer s3cret", "BEARER  s3cret "] {
            assert_eq!(judged(Some("s3cret"), &[granted]), "admin act", "{granted}");
        }
        for denied in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer s3cre",
            "Bearer s3crets",
            "Bearer S3cret",
            "Basic s3cret",
            "s3cret",
        ] {
            assert_eq!(judged(Some("s3cret"), &[denied]), "denied", "{denied}");
        }
        assert_eq!(judged(Some("s3cret"), &[]), "denied");
        let twice = ["Bearer s3cret", "Bearer s3cret"];
        assert_eq!(judged(Some("s3cret"), &twice), "denied");
    }

    /// Goal: each token has its own name and role, and a hash stands for the token alone. Method: two tokens, one of them hashed, and the
    /// hash itself in place of the token.
    #[test]
    fn each_token_has_its_name_and_role() {
        // The SHA-256 of "0123456789abcdef".
        let hash = "9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f";
        let file = format!("monitor read fedcba9876543210\nalice act sha256:{hash}\n");
        for (token, expected) in [
            ("fedcba9876543210", "monitor read"),
            ("0123456789abcdef", "alice act"),
            (hash, "denied"),
            (&format!("sha256:{hash}"), "denied"),
            ("monitor", "denied"),
        ] {
            let field = format!("Bearer {token}");
            assert_eq!(judged(Some(&file), &[&field]), expected, "{token}");
        }
    }

    proptest! {
        /// Goal: the comparison is equality. Method: random strings, half of them equal but for one bit.
        #[test]
        fn the_comparison_is_equality(left: Vec<u8>, right: Vec<u8>, at: usize, bit in 0..8_u32) {
            prop_assert_eq!(same(&left, &right), left == right);
            prop_assert!(same(&left, &left));
            if !left.is_empty() {
                let mut flipped = left.clone();
                flipped[at % left.len()] ^= 1_u8 << bit;
                prop_assert!(!same(&left, &flipped));
            }
        }
    }
}
