//! Decides whether an admin request carries the bearer token (RFC 6750 §2.1).
//!
//! The comparison takes the same time wherever the first difference is, so that no client can guess a token byte by byte. Its
//! length is no secret.

use std::hint::black_box;

use http::HeaderValue;
use http::header::GetAll;

/// The result of the token check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenAccess {
    /// No token is configured.
    Open,
    /// The request has the token.
    Granted,
    /// The request lacks the token.
    Denied,
}

/// Checks the `Authorization` fields of a request. More than one counts as none.
pub(super) fn check(token: Option<&str>, fields: GetAll<'_, HeaderValue>) -> TokenAccess {
    let Some(token) = token else {
        return TokenAccess::Open;
    };
    let mut fields = fields.iter();
    let (Some(field), None) = (fields.next(), fields.next()) else {
        return TokenAccess::Denied;
    };
    match presented(field.as_bytes()) {
        // An empty token is no secret.
        Some(presented) if !token.is_empty() && same(presented, token.as_bytes()) => {
            TokenAccess::Granted
        }
        _ => TokenAccess::Denied,
    }
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

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use http::header::AUTHORIZATION;
    use proptest::prelude::*;

    use super::*;

    fn judged(token: Option<&str>, fields: &[&str]) -> TokenAccess {
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append(
                AUTHORIZATION,
                HeaderValue::from_bytes(field.as_bytes()).expect("a field value"),
            );
        }
        check(token, headers.get_all(AUTHORIZATION))
    }

    /// Goal: only the token opens. Method: near misses.
    #[test]
    fn only_the_whole_token_under_the_bearer_scheme_is_granted() {
        assert_eq!(judged(None, &[]), TokenAccess::Open);
        for granted in ["Bearer s3cret", "bearer s3cret", "BEARER  s3cret "] {
            assert_eq!(
                judged(Some("s3cret"), &[granted]),
                TokenAccess::Granted,
                "{granted}"
            );
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
            assert_eq!(
                judged(Some("s3cret"), &[denied]),
                TokenAccess::Denied,
                "{denied}"
            );
        }
        assert_eq!(judged(Some("s3cret"), &[]), TokenAccess::Denied);
        assert_eq!(
            judged(Some("s3cret"), &["Bearer s3cret", "Bearer s3cret"]),
            TokenAccess::Denied
        );
        assert_eq!(judged(Some(""), &["Bearer "]), TokenAccess::Denied);
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
