//! Answers the conditions of a client from a stored response, RFC 9110 §13.

use std::time::SystemTime;

use http::header::{
    ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderName,
    IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED, TRANSFER_ENCODING,
};
use http::{HeaderMap, StatusCode};
use pingora::protocols::http::conditional_filter::weak_validate_etag;
use sluicegate_base::received::{FieldValue, ReceivedFields};

/// Fields that describe content, which a 304 has none of: RFC 9110 §15.4.5.
pub const NOT_IN_304: [HeaderName; 5] = [
    ACCEPT_RANGES,
    CONTENT_ENCODING,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    TRANSFER_ENCODING,
];

/// Returns whether the client of a GET or HEAD has the response already: RFC 9110 §13.2.2, steps 3 and 4. Only a 200 is confirmed.
#[must_use]
pub fn is_unchanged(request: &ReceivedFields, status: StatusCode, response: &HeaderMap) -> bool {
    if status != StatusCode::OK {
        return false;
    }
    if request.contains_key(IF_NONE_MATCH) {
        let Some(tag) = response.get(ETAG) else {
            return false;
        };
        let mut known = request.get_all(IF_NONE_MATCH);
        return known.any(|known| weak_validate_etag(known.as_bytes(), tag.as_bytes()));
    }
    let date = |field: Option<FieldValue<'_>>| -> Option<SystemTime> {
        httpdate::parse_http_date(field?.to_str().ok()?).ok()
    };
    let since = date(request.get(IF_MODIFIED_SINCE));
    let modified = date(response.get(LAST_MODIFIED).map(FieldValue::from));
    since
        .zip(modified)
        .is_some_and(|(since, modified)| since >= modified)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

    fn fields(all: &[(HeaderName, &'static str)]) -> HeaderMap {
        let pairs = all.iter().cloned();
        pairs
            .map(|(name, value)| (name, HeaderValue::from_static(value)))
            .collect()
    }

    /// Goal: `If-None-Match` decides where it is, `If-Modified-Since` otherwise, and only a 200 is confirmed. Method: both against a
    /// response that has both validators.
    #[test]
    fn a_client_that_has_the_response_is_found() {
        let response = fields(&[(ETAG, "\"d\""), (LAST_MODIFIED, DATE)]);
        for (request, unchanged) in [
            (&[(IF_NONE_MATCH, "\"d\"")][..], true),
            (&[(IF_NONE_MATCH, "W/\"d\"")][..], true),
            (&[(IF_NONE_MATCH, "\"a\", \"d\"")][..], true),
            (&[(IF_NONE_MATCH, "*")][..], true),
            (
                &[(IF_NONE_MATCH, "\"e\""), (IF_MODIFIED_SINCE, DATE)][..],
                false,
            ),
            (&[(IF_MODIFIED_SINCE, DATE)][..], true),
            (
                &[(IF_MODIFIED_SINCE, "Sun, 06 Nov 1994 08:49:36 GMT")][..],
                false,
            ),
            (&[(IF_MODIFIED_SINCE, "yesterday")][..], false),
            (&[][..], false),
        ] {
            let request = fields(request).into();
            let found = is_unchanged(&request, StatusCode::OK, &response);
            assert_eq!(found, unchanged, "{request:?}");
            assert!(!is_unchanged(&request, StatusCode::NOT_FOUND, &response));
            assert!(!is_unchanged(&request, StatusCode::OK, &fields(&[])));
        }
    }
}
