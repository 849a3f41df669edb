//! `[log]`: the access log.

use http::HeaderName;

use crate::bounds;
use crate::config::field::{Field, quoted};
use crate::config::line_filter::line_filter;
use crate::config::problem::Mistake;
use crate::config::report::{Place, Report};
use crate::config::rules::{
    AccessLogTarget, LogFormat, LogNames, LogRules, LoggedKeys, RefusedLines,
};
use crate::config::section::Section;
use crate::config::suggest;

use super::route::Route;

/// The table, with the place of what is judged once the routes are known.
pub(in crate::config) struct Log {
    pub(in crate::config) rules: LogRules,
    place_of_only: Option<Place>,
}

/// Reads the table.
pub(in crate::config) fn read(section: Section<'_>) -> Option<Log> {
    let access = section.or("access", "\"stdout\"", AccessLogTarget::Stdout, |field| {
        match field.text()? {
            "stdout" => Some(AccessLogTarget::Stdout),
            "off" => Some(AccessLogTarget::Off),
            path if path.is_empty() || path.ends_with('/') || path.contains('\0') => field.refuse(
                "this is not the path of a file",
                "write \"stdout\", \"off\" or \"/var/log/sluicegate/access.log\"",
            ),
            // A word without a slash or dot is more likely a slip than a file in the working directory.
            word if !word.contains(['/', '.']) => field.refuse(
                format!("{word:?} is neither \"stdout\" nor \"off\""),
                format!("write one of them, or \"./{word}\" if a file is meant"),
            ),
            path => Some(AccessLogTarget::File(field.report.path(path))),
        }
    });
    let keys = section.or("keys", "\"hash\"", LoggedKeys::Hash, |field| {
        match field.text()? {
            "hash" => Some(LoggedKeys::Hash),
            "masked" => Some(LoggedKeys::Masked),
            "plain" => Some(LoggedKeys::Plain),
            other => field.refuse(
                format!("{other:?} is no way to log keys"),
                "write \"hash\", \"masked\" or \"plain\"",
            ),
        }
    });
    let format = section.or("format", "\"json\"", LogFormat::Json, |field| {
        let words = [("json", LogFormat::Json), ("combined", LogFormat::Combined)];
        field.word(&words, |other| {
            format!("{other} is no format of access lines")
        })
    });
    let fields = section.or("fields", "[\"user-agent\", \"referer\"]", Vec::new(), |field| {
        let names = fields(field)?;
        if format == Some(LogFormat::Combined) && !names.is_empty() {
            return field.refuse(
                "lines in the combined format have no place for more fields than Referer and User-Agent, which they have anyway",
                "leave `fields` out, or write format = \"json\"",
            );
        }
        Some(names)
    });
    let mut place_of_only = None;
    let only = section.optional("only", "\"status >= 400\"", |field| {
        place_of_only = Some(field.place.clone());
        line_filter(field)
    });
    let refused = section.or("refused", "\"1%\"", RefusedLines::All, refused_lines);
    let names = section.or("old_names", "false", LogNames::Present, |field| {
        if !field.boolean()? {
            return Some(LogNames::Present);
        }
        field.warn(
            "lines have the former names of fields, which the next version no longer writes",
            "let programs read origin_addr, attempts, origin_ttfb_ms, missing_reason, refunded and outcome rate-limited, then \
             leave it out",
        );
        Some(LogNames::Former)
    });
    section.finish();
    let rules = LogRules {
        access: access?,
        keys: keys?,
        format: format?,
        fields: fields?,
        only: only?,
        refused: refused?,
        names: names?,
    };
    Some(Log {
        rules,
        place_of_only,
    })
}

/// Warns of routes that `only` names and the file has not: `==` keeps none of their lines, and `!=` drops none.
pub(in crate::config) fn check_routes(log: &Log, routes: &[Route], report: &Report<'_>) {
    let (Some(only), Some(place)) = (&log.rules.only, &log.place_of_only) else {
        return;
    };
    let rules = routes.iter().filter_map(|route| route.rules.as_ref());
    let known: Vec<&str> = rules.map(|rules| &*rules.name).collect();
    for name in only.routes().filter(|name| !known.contains(name)) {
        let advice = match suggest::nearest(name, known.iter().copied()) {
            Some(meant) => format!("did you mean {}?", quoted(meant)),
            None => "write the name of a route; one without `name` is called by its match, as in \"POST /auth/sendOTP\"".to_owned(),
        };
        report.warning(
            place,
            format!("no route is called {}", quoted(name)),
            advice,
        );
    }
}

/// Fields that prove who somebody is. A log is read by more people than may act for every client, and kept for longer than a password.
const CREDENTIALS: [&str; 10] = [
    "api-key",
    "authorization",
    "cookie",
    "proxy-authorization",
    "x-access-token",
    "x-amz-security-token",
    "x-api-key",
    "x-auth-token",
    "x-csrf-token",
    "x-xsrf-token",
];

/// `fields = ["user-agent", "referer"]`
fn fields(field: &Field<'_>) -> Option<Vec<HeaderName>> {
    let elements = field.elements()?;
    if elements.len() > bounds::LOGGED_FIELDS {
        return field.refuse(
            format!("there are more than {} fields", bounds::LOGGED_FIELDS),
            "name those that somebody reads",
        );
    }
    let mut names = Vec::with_capacity(elements.len());
    let mut sound = true;
    for element in elements {
        match element.parsed(field_name) {
            Some(name) if names.contains(&name) => {
                let message = format!("{:?} stands here already", name.as_str());
                element.refuse::<()>(message, "write it once");
                sound = false;
            }
            Some(name) => names.push(name),
            None => sound = false,
        }
    }
    sound.then_some(names)
}

fn field_name(text: &str) -> Result<HeaderName, Mistake> {
    let name = HeaderName::from_bytes(text.as_bytes()).map_err(|_| {
        Mistake::with_advice(
            format!("{} is not the name of a request field", quoted(text)),
            "write one such as \"user-agent\"",
        )
    })?;
    if CREDENTIALS.contains(&name.as_str()) {
        return Err(Mistake::with_advice(
            format!(
                "{} carries a credential, and whoever reads the log could act for the client",
                quoted(text)
            ),
            "leave it out; to tell clients apart by it, key a limit on it, and `key` in the log is its hash",
        ));
    }
    Ok(name)
}

/// `refused = "1%"`, `"one per key and second"` or `"all"`
fn refused_lines(field: &Field<'_>) -> Option<RefusedLines> {
    field.parsed(|text| match text {
        "all" => Ok(RefusedLines::All),
        "one per key and second" => Ok(RefusedLines::OnePerKeyAndSecond),
        _ => match text.strip_suffix('%').map(|share| share.trim().parse::<f64>()) {
            Some(Ok(share)) if (0.000_1..=100.0).contains(&share) => {
                // Between 1 and 1,000,000.
                Ok(RefusedLines::PerMillion((share * 10_000.0).round() as u32))
            }
            Some(Ok(0.0)) => Err(Mistake::with_advice(
                "with \"0%\" no line says that anybody is refused",
                "write only = \"outcome not in [rate-limited, banned, refused-concurrency, blocked]\" if that is meant",
            )),
            Some(Ok(_)) => Err(Mistake::with_advice(
                format!("{} is not between 0.0001% and 100%", quoted(text)),
                "write \"1%\"",
            )),
            _ => Err(Mistake::with_advice(
                format!("{} does not say which lines of refused requests are written", quoted(text)),
                "write \"all\", \"1%\" or \"one per key and second\"",
            )),
        },
    })
}
