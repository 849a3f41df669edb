//! Serves the files of the operator's page at `/ui/`.
//!
//! The files hold nothing of the running gateway, so they need no token: the page asks for it and sends it with each request for data.
//! Every path in them is relative, so the page works behind any prefix. They are validated by their hash at each load (`no-cache` with
//! `ETag`), so a reload after an upgrade shows the page of the new binary, whole.

mod assets;

use std::hash::Hasher;

use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, ETAG, IF_NONE_MATCH, LOCATION, REFERRER_POLICY,
};
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use siphasher::sip128::{Hasher128, SipHasher13};

use super::page::{AdminPage, TEXT, is_reading, only_reading};
use assets::{ASSETS, UiAsset};

/// No script, style or request but those of this listener; nobody may frame the page; no form leaves it, as scripts send what is typed; and
/// text never becomes markup.
const POLICY: &str = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

/// Returns whether the path is one of the page's files, which need no token.
pub(super) fn is_asset(path: &str) -> bool {
    path == "/ui" || path.starts_with("/ui/")
}

/// Returns the file that the path names; `None` where the path is not below `/ui`.
pub(super) fn page(request: &Parts) -> Option<AdminPage> {
    let path = request.uri.path();
    if !is_asset(path) {
        return None;
    }
    if !is_reading(&request.method) {
        return Some(only_reading());
    }
    let Some(name) = path.strip_prefix("/ui/") else {
        // Relative, since a proxy in front may add a prefix.
        let page = AdminPage::new(StatusCode::PERMANENT_REDIRECT, TEXT, &b"see ui/"[..]);
        return Some(page.with(LOCATION, "ui/"));
    };
    Some(match ASSETS.iter().find(|asset| asset.path == name) {
        Some(asset) => asset.page(request),
        None => AdminPage::error(StatusCode::NOT_FOUND, "the page at /ui/ has no such file"),
    })
}

impl UiAsset {
    fn page(&self, request: &Parts) -> AdminPage {
        let tag = self.tag();
        // RFC 9110 §13.1.2: the comparison is weak.
        let known = request.headers.get_all(IF_NONE_MATCH).iter();
        let is_known = known
            .filter_map(|field| field.to_str().ok())
            .flat_map(|field| field.split(','))
            .any(|known| known.trim().trim_start_matches("W/") == tag);
        let page = if is_known {
            AdminPage::new(StatusCode::NOT_MODIFIED, self.content_type, &b""[..])
        } else {
            AdminPage::new(StatusCode::OK, self.content_type, self.bytes)
        };
        let page = page
            .with(CACHE_CONTROL, "no-cache")
            .with(CONTENT_SECURITY_POLICY, POLICY)
            .with(REFERRER_POLICY, "no-referrer");
        match HeaderValue::from_str(&tag) {
            Ok(tag) => page.with_value(ETAG, tag),
            Err(_) => page,
        }
    }

    /// Returns the entity tag, a hash of the content; the hash is of no secret, so its key is none either.
    fn tag(&self) -> String {
        let mut hasher = SipHasher13::new();
        hasher.write(self.bytes);
        format!("\"{:032x}\"", hasher.finish128().as_u128())
    }
}

#[cfg(test)]
mod tests {
    use http::header::ALLOW;

    use super::*;

    /// Bytes of a whole load of the page.
    const MOST: usize = 132 * 1024;

    fn asked(path: &str, tag: Option<&str>) -> Option<AdminPage> {
        let mut request = http::Request::get(path);
        if let Some(tag) = tag {
            request = request.header(IF_NONE_MATCH, tag);
        }
        let (parts, ()) = request.body(()).expect("a request").into_parts();
        page(&parts)
    }

    fn field<'a>(page: &'a AdminPage, name: &http::HeaderName) -> &'a str {
        let found = page.fields.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value.to_str().unwrap_or_default())
    }

    /// Goal: a browser loads an unchanged file once, and a changed one at the next load. Method: each file, with its tag and with another.
    #[test]
    fn each_file_is_validated_by_its_hash() {
        for asset in ASSETS {
            let path = format!("/ui/{}", asset.path);
            let page = asked(&path, None).expect("a file");
            assert_eq!((page.status, &*page.body), (StatusCode::OK, asset.bytes));
            assert_eq!(field(&page, &CACHE_CONTROL), "no-cache");
            assert!(field(&page, &CONTENT_SECURITY_POLICY).starts_with("default-src 'self';"));
            let tag = asset.tag();
            assert_eq!(field(&page, &ETAG), tag);
            for known in [tag.clone(), format!("W/{tag}"), format!("\"x\", {tag}")] {
                let page = asked(&path, Some(&known)).expect("a file");
                assert_eq!(page.status, StatusCode::NOT_MODIFIED, "{known}");
                assert_eq!(page.body.len(), 0);
            }
            let other = asked(&path, Some("\"x\"")).expect("a file");
            assert_eq!(other.status, StatusCode::OK);
        }
    }

    /// Goal: the page works behind any prefix, needs no foreign host, and loads fast. Method: the texts of all files, and their sizes.
    #[test]
    fn files_name_no_host_no_absolute_path_and_no_inline_script() {
        let index = ASSETS.iter().find(|asset| asset.path.is_empty());
        let index = std::str::from_utf8(index.expect("the page").bytes).expect("files are text");
        // Other pages have a load of their own.
        let is_loaded = |asset: &&UiAsset| {
            !asset.path.is_empty() && index.contains(&format!("\"{}\"", asset.path))
        };
        let loaded = ASSETS.iter().filter(is_loaded);
        let total = index.len() + loaded.map(|asset| asset.bytes.len()).sum::<usize>();
        assert!(
            (MOST / 2..MOST).contains(&total),
            "{total} bytes of at most {MOST}"
        );
        for asset in ASSETS {
            let text = std::str::from_utf8(asset.bytes).expect("files are text");
            for wrong in [
                "src=\"/",
                "href=\"/",
                "from '/",
                "from \"/",
                "<style",
                " style=\"",
                "onclick=",
                "innerHTML",
            ] {
                assert!(!text.contains(wrong), "{}: {wrong}", asset.path);
            }
            let foreign = text.match_indices("://").filter(|(at, _)| {
                let before = &text[..*at];
                (before.ends_with("http") || before.ends_with("https"))
                    && !text[*at..].starts_with("://www.w3.org/")
                    && !text[*at..].starts_with("://api.example.com")
            });
            assert_eq!(foreign.count(), 0, "{}", asset.path);
        }
    }

    /// Goal: other paths are told apart. Method: the folder without its slash, a file that is not there, and other paths.
    #[test]
    fn paths_around_the_page_lead_to_it_or_nowhere() {
        let redirect = asked("/ui", None).expect("below /ui");
        assert_eq!(
            (redirect.status.as_u16(), field(&redirect, &LOCATION)),
            (308, "ui/")
        );
        assert_eq!(
            asked("/ui/absent.js", None).expect("below /ui").status,
            StatusCode::NOT_FOUND
        );
        assert_eq!(
            asked("/ui/../status", None).expect("below /ui").status,
            StatusCode::NOT_FOUND
        );
        for path in ["/", "/uix", "/status"] {
            assert!(asked(path, None).is_none(), "{path}");
        }
        let (parts, ()) = http::Request::post("/ui/")
            .body(())
            .expect("a request")
            .into_parts();
        let refused = page(&parts).expect("below /ui");
        assert_eq!(
            (refused.status.as_u16(), field(&refused, &ALLOW)),
            (405, "GET, HEAD")
        );
    }
}
