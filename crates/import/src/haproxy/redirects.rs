//! Reads where a redirect leads, and writes it for the route of a path.

use crate::cells::{self, PathTerm};
use crate::paths;
use crate::slots;

/// Statuses that a redirect of the gateway has.
const STATUSES: [u16; 5] = [301, 302, 303, 307, 308];

/// The status of HAProxy without `code`.
const USUAL_STATUS: u16 = 302;

/// Samples at the end of a location that are the path with or without the query.
const WHOLE_PATHS: [&str; 5] = ["%[capture.req.uri]", "%[path]", "%[pathq]", "%[url]", "%HU"];

/// Samples that are the host.
const HOSTS: [&str; 4] = [
    "%[hdr(host)]",
    "%[req.hdr(host)]",
    "%[req.hdr(Host)]",
    "%[hdr(Host)]",
];

/// A redirect to a URL, or to a URL with the path of the request behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RedirectTarget {
    url: String,
    keeps_path: bool,
    pub(super) status: u16,
}

impl RedirectTarget {
    /// Reads `location URL` or `prefix URL` with a code.
    ///
    /// # Errors
    ///
    /// The reason for which it has no counterpart.
    pub(super) fn read(words: &[String]) -> Result<Self, String> {
        let unsayable = || Err(format!("no redirect is {:?}", words.join(" ")));
        let mut found: Option<(String, bool)> = None;
        let mut status = USUAL_STATUS;
        let mut rest = words.iter().map(String::as_str);
        while let Some(word) = rest.next() {
            let mut value = || rest.next().unwrap_or_default();
            match word {
                "location" => {
                    let text = value();
                    let path = WHOLE_PATHS.iter().find_map(|it| text.strip_suffix(it));
                    found = Some((path.unwrap_or(text).to_owned(), path.is_some()));
                }
                "prefix" => found = Some((value().to_owned(), true)),
                "code" => status = value().parse().unwrap_or(0),
                "drop-query" | "keep-query" => {}
                _ => return unsayable(),
            }
        }
        let Some((text, keeps_path)) = found else {
            return unsayable();
        };
        let text = slots::escaped(&text);
        let url = HOSTS
            .iter()
            .fold(text, |text, it| text.replace(it, "{host}"));
        if url.contains('%') || !STATUSES.contains(&status) {
            return unsayable();
        }
        Ok(Self {
            url,
            keeps_path,
            status,
        })
    }

    /// Returns the URL for the route of a path.
    ///
    /// # Errors
    ///
    /// The route has no name for the rest of its path.
    pub(super) fn url(
        &self,
        path: Option<&PathTerm>,
        open_prefixes: &[String],
    ) -> Result<String, String> {
        if !self.keeps_path {
            return Ok(self.url.clone());
        }
        let encoded = |text: &str| paths::encoded(text).map_err(|c| format!("no path has {c:?}"));
        let path = match path {
            None => "/{rest}".to_owned(),
            Some(PathTerm::Exact(text)) => encoded(text)?,
            Some(PathTerm::Beginning(text)) if cells::is_expression(path, open_prefixes) => {
                encoded(text)? + "{path.1}"
            }
            Some(PathTerm::Beginning(text)) => encoded(text)? + "{rest}",
            Some(other) => {
                return Err(format!(
                    "a redirect has no name for a path with `{}`",
                    other.text()
                ));
            }
        };
        Ok(format!("{}{path}", self.url.trim_end_matches('/')))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<RedirectTarget, String> {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        RedirectTarget::read(&words)
    }

    /// Goal: the path stays where HAProxy keeps it. Method: both kinds, over paths of each kind, and what has no counterpart.
    #[test]
    fn a_redirect_keeps_the_path_where_it_is_kept() {
        let beginning = |text: &str| PathTerm::Beginning(text.to_owned());
        let prefix = read("prefix https://a.test code 301").unwrap();
        assert_eq!(prefix.status, 301);
        assert_eq!(prefix.url(None, &[]).unwrap(), "https://a.test/{rest}");
        assert_eq!(
            prefix.url(Some(&beginning("/x/")), &[]).unwrap(),
            "https://a.test/x/{rest}"
        );
        assert_eq!(
            prefix
                .url(Some(&beginning("/x")), &["/x".to_owned()])
                .unwrap(),
            "https://a.test/x{path.1}"
        );
        let location = read("location https://www.%[hdr(host)]%[capture.req.uri]").unwrap();
        assert_eq!(
            location.url(None, &[]).unwrap(),
            "https://www.{host}/{rest}"
        );
        let fixed = read("location /login").unwrap();
        assert_eq!(
            (fixed.url(None, &[]).unwrap().as_str(), fixed.status),
            ("/login", 302)
        );
        assert!(
            prefix
                .url(Some(&PathTerm::Ending(".php".to_owned())), &[])
                .is_err()
        );
        assert!(read("location /%[rand(9)]").is_err());
        assert!(read("prefix / set-cookie a=b").is_err());
    }
}
