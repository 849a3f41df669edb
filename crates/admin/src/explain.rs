//! Serves `/explain`: the treatment of one request by the configuration in force, as `sluicegate explain --request` shows it for a file.
//!
//! Nothing is counted and no origin is asked.

use std::net::{IpAddr, Ipv4Addr};

use http::StatusCode;
use http::request::Parts;

use super::page::{AdminPage, is_reading, only_reading};
use super::query::decoded;
use super::task::AdminTask;
use sluicegate_explain::{BadRequest, EnforcedKeys, RequestExplained, RequestQuestion};
use sluicegate_process::GatewayProcess;

/// The client where none is named: an address for documentation, RFC 5737.
const NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// Returns the task of an explanation; `None` where the path is another one.
pub(super) fn task(request: &Parts, process: &GatewayProcess) -> Option<AdminTask> {
    (request.uri.path() == "/explain").then(|| {
        AdminTask::Show(if is_reading(&request.method) {
            page(request.uri.query().unwrap_or_default(), process)
        } else {
            only_reading()
        })
    })
}

fn page(query: &str, process: &GatewayProcess) -> AdminPage {
    let shared = &process.shared;
    let explained = question(query).and_then(|question| {
        let snapshot = shared.snapshot();
        RequestExplained::new(
            &snapshot.compiled,
            &shared.seed,
            EnforcedKeys::OfThisSeed,
            &question,
        )
    });
    match explained {
        Ok(explained) => AdminPage::json(&explained),
        Err(BadRequest(error)) => AdminPage::error(StatusCode::BAD_REQUEST, &error),
    }
}

/// Parses `method=POST&url=https://api.example.com/x&client=203.0.113.7&listener=public&header=X-Plan: free`, percent-encoded; all but
/// `url` may be left out, and `header` may be repeated.
fn question(query: &str) -> Result<RequestQuestion, BadRequest> {
    const WRITE: &str = "write /explain?url=URL, and if need be method=, client= (an IP address), listener= (its name) and header= \
                         (\"X-Plan: free\", as often as needed), all percent-encoded";
    let wrong = || BadRequest(WRITE.to_owned());
    let mut method = None;
    let mut url = None;
    let mut client = None;
    let mut listener = None;
    let mut headers = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or_else(wrong)?;
        let value = decoded(value).ok_or_else(wrong)?;
        let once = match name {
            "method" => &mut method,
            "url" => &mut url,
            "client" => &mut client,
            "listener" => &mut listener,
            "header" => {
                headers.push(value);
                continue;
            }
            _ => return Err(wrong()),
        };
        if once.replace(value).is_some() {
            return Err(wrong());
        }
    }
    let url = url.ok_or_else(wrong)?;
    let method = method.filter(|method| !method.is_empty());
    let peer = match client.as_deref().map(str::trim) {
        None | Some("") => NOBODY,
        Some(client) => client
            .parse()
            .map_err(|_| BadRequest(format!("{client:?} is not an IP address; {WRITE}")))?,
    };
    let method = method.as_deref().unwrap_or("GET").trim();
    let question = RequestQuestion::parse(&format!("{method} {}", url.trim()), &headers, peer)?;
    let listener = listener.as_deref().map(str::trim);
    Ok(question.by_listener(listener.filter(|name| !name.is_empty())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a question is taken whole or corrected. Method: queries on both sides of each rule.
    #[test]
    fn a_question_is_complete_and_each_part_is_known() {
        let whole = "method=POST&url=https%3A%2F%2Fapi.example.com%2Fx%3Fa%3Db&client=203.0.113.7&header=X-Plan%3A%20free&header=A%3A%20b";
        assert!(question(whole).is_ok());
        for right in [
            "url=/x",
            "url=/x&client=",
            "method=&url=/x",
            "url=/x&client=%3A%3A1",
            "url=/x&listener=public",
            "url=/x&listener=",
        ] {
            assert!(question(right).is_ok(), "{right}");
        }
        for wrong in [
            "",
            "url",
            "url=",
            "url=x",
            "url=%4",
            "url=/x&url=/y",
            "url=/x&client=me",
            "url=/x&listener=a&listener=b",
            "url=/x&header=nothing",
            "url=/x&methods=GET",
            "method=A B&url=/x",
        ] {
            assert!(question(wrong).is_err(), "{wrong}");
        }
    }
}
