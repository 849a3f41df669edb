//! Owns the names of the cookies of challenges, by which other stages tell them from those of the site.

use http::header::COOKIE;
use sluicegate_base::received::ReceivedFields;

/// The beginning of the cookie that the script of a page writes.
pub(super) const WORK: &str = "sluicegate-work-";
/// The beginning of the cookie that comes with a page.
pub(super) const WAIT: &str = "sluicegate-wait-";

/// Returns whether a request with these fields carries cookies of the site: others than those of challenges, which no origin reads.
#[must_use]
pub fn has_site_cookies(headers: &ReceivedFields) -> bool {
    let lines = headers.get_all(COOKIE);
    let mut pairs = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b';'));
    pairs.any(|pair| {
        let pair = pair.trim_ascii();
        !pair.is_empty() && !pair.starts_with(WORK.as_bytes()) && !pair.starts_with(WAIT.as_bytes())
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    /// Goal: whoever solved a challenge shares stored answers as before, and a session of the site does not. Method: lines of cookies.
    #[test]
    fn cookies_of_challenges_are_not_the_sites() {
        for (line, has) in [
            ("sluicegate-work-pages-a=x.1", false),
            (
                "sluicegate-work-pages-a=x.1; sluicegate-wait-pages-a=x",
                false,
            ),
            ("", false),
            ("sid=1", true),
            ("sluicegate-work-pages-a=x.1; sid=1", true),
            ("sluicegate-server=1", true),
        ] {
            let mut headers = ReceivedFields::new();
            headers.append(COOKIE, HeaderValue::from_static(line));
            assert_eq!(has_site_cookies(&headers), has, "{line}");
        }
        assert!(!has_site_cookies(&ReceivedFields::new()));
    }
}
