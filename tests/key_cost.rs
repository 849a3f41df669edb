//! What finding a key costs, in instructions: no message costs more than a few times a plain one of its length.
//!
//! Valgrind counts the instructions of this program, which is started again under it and reads every message once. A count hardly
//! differs between two runs and machines, unlike a time.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    missing_docs,
    reason = "in a test a panic is the report"
)]

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU32;
use std::process::Command;

use http::header::{CONTENT_TYPE, COOKIE};
use http::{HeaderValue, Method};
use sluicegate::config::rules::{KeyPart, Rules, ValuePart};
use sluicegate::config::{no_review, parse};
use sluicegate_base::bounds;
use sluicegate_base::crawler::{ClientCrawler, CrawlerRegistry, CrawlerRequest};
use sluicegate_base::geo::{ClientPlace, GeoDatabases};
use sluicegate_base::jwt::PresentedToken;
use sluicegate_base::path::NormalPath;
use sluicegate_base::received::ReceivedFields;
use sluicegate_decide::admission::{KnownBody, RequestFacts, normal_value};
use sluicegate_decide::client::PeerTrust;
use sluicegate_decide::route::{RequestFields, RequestListener, RouteTable};
use sluicegate_limiter::Timestamp;

/// The most that a message may cost, as a multiple of a plain one of its length.
const MOST: u64 = 4;

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// A place in which a key is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Form,
    Multipart,
    Json,
    Query,
    Cookie,
    Condition,
}

impl Place {
    const ALL: [Self; 6] = [
        Self::Form,
        Self::Multipart,
        Self::Json,
        Self::Query,
        Self::Cookie,
        Self::Condition,
    ];

    /// The bytes of its messages: of a body that is read, of a long target, of a large field.
    const fn bytes(self) -> usize {
        match self {
            Self::Form => 32_000,
            Self::Json | Self::Multipart => 16_000,
            Self::Query | Self::Condition => 7_800,
            Self::Cookie => 24_000,
        }
    }

    /// What stands between two parameters.
    const fn separator(self) -> &'static str {
        match self {
            Self::Cookie => "; ",
            Self::Json => ",",
            Self::Multipart => "--b\r\n",
            Self::Form | Self::Query | Self::Condition => "&",
        }
    }
}

/// A message, and the form of the key that reads it.
struct Case {
    place: Place,
    form: &'static str,
    shown: String,
    text: String,
}

/// Forms of values beside none.
const FORMS: [&str; 9] = [
    "",
    "lower",
    "fold",
    "email",
    "integer",
    "uuid",
    "e164 DE",
    "first 3",
    "before '@'",
];

/// The most names that are read.
const NAMES: usize = bounds::PARAMETER_NAMES;

/// Texts that fill names, values and what is neither.
const FILLINGS: [&str; 23] = [
    "\u{fdfa}",
    "%EF%B7%BA",
    "%uFDFA",
    "%",
    "%u",
    "+",
    "[",
    "]",
    "a[",
    ".",
    "a=",
    "=",
    "phone",
    "phon",
    "phone[",
    "_",
    ":",
    "!",
    "a\u{ad}",
    "\"",
    ",",
    "%00",
    "[%=",
];

/// Fillings of single parameters, as many as there is room for.
const PARAMETERS: [&str; 9] = [
    "a", "a=1", "", "phone=1", "phone", "phon=1", "%70hon=1", "a;b", "a?b=;",
];

/// Members of JSON, as many as there is room for.
const MEMBERS: [&str; 10] = [
    r#""phone":"1""#,
    r#""phon\u00e9":0"#,
    "\"phon\u{e9}\":0",
    "\"phon\u{17f}\":0",
    "\"\u{fb03}\":0",
    r#""ph_o-n_":0"#,
    r#""":{}"#,
    r#""a":1e-300"#,
    r#""a":[[[[0]]]]"#,
    r#""\u0070hon":"\u0070""#,
];

/// Parts of a form, `*` for what fills them.
const PARTS: [&str; 8] = [
    "Content-Disposition: form-data; name=\"*\"\r\n\r\n1\r\n",
    "Content-Disposition: form-data; name=\"x\"\r\n\r\n*\r\n",
    "Content-Disposition: form-data; name=\"x\"; filename=\"*\"\r\n\r\n1\r\n",
    "Content-Disposition: form-data; filename=\"*\"; name=\"x\"\r\n\r\n1\r\n",
    "Content-Disposition: form-data; name=\"x\"; filename*=utf-8''*\r\n\r\n1\r\n",
    "Content-Disposition: form-data; name=\"x\"\r\nContent-Type: text/plain; profile=\"*\"\r\n\r\n1\r\n",
    "Content-Disposition: form-data; name=\"x\"\r\nContent-Type: *\r\n\r\n1\r\n",
    "*\r\n",
];

/// Numbers of parts of a form.
const PART_COUNTS: [usize; 3] = [1, 28, 150];

/// Texts that fill parts beside the other ones.
const PART_FILLINGS: [&str; 6] = ["name", "nam", "b", "--", "\r\n", "\\\""];

/// Repeats `filling` up to so many bytes.
fn filled(filling: &str, bytes: usize) -> String {
    filling.repeat(bytes / filling.len().max(1))
}

/// The messages: for each place and form the plain ones first, with which the others are compared.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for place in Place::ALL {
        let forms = match place {
            Place::Condition | Place::Multipart => &FORMS[..1],
            _ => &FORMS[..],
        };
        for form in forms {
            let mut add = |shown: &str, text: String| {
                let is_query = matches!(place, Place::Query | Place::Condition);
                // A target is ASCII, in which the client of a browser writes escapes.
                if !is_query || text.is_ascii() {
                    let shown = format!("{place:?} | {form}: {shown}");
                    cases.push(Case {
                        place,
                        form,
                        shown,
                        text,
                    });
                }
            };
            let bytes = place.bytes();
            let between = place.separator();
            if place == Place::Json {
                let members = |member: &str| filled(&format!("{member}{between}"), bytes);
                let plain: String = (0..bytes / 10)
                    .map(|n| format!("\"f{n:04}\":{}{between}", n % 10))
                    .collect();
                add("plain names", format!("{{{plain}\"phone\":\"1\"}}"));
                let value = filled("value-", bytes);
                add("plain value", format!("{{\"phone\":\"{value}\"}}"));
                for member in MEMBERS {
                    let text = format!("{{{}\"phone\":\"1\"}}", members(member));
                    add(&format!("many {member}"), text);
                }
                continue;
            }
            if place == Place::Multipart {
                let phone = "--b\r\nContent-Disposition: form-data; name=\"phone\"\r\n\r\n";
                let plain: String = (0..bytes / 90)
                    .map(|n| {
                        format!(
                            "{between}{}",
                            PARTS[0].replace('*', &format!("field_{n:03}"))
                        )
                    })
                    .collect();
                add("plain names", format!("{plain}{phone}1\r\n--b--\r\n"));
                let value = filled("value-", bytes);
                add("plain value", format!("{phone}{value}\r\n--b--\r\n"));
                for (part, count) in PARTS
                    .iter()
                    .flat_map(|part| PART_COUNTS.map(|count| (part, count)))
                {
                    for filling in FILLINGS.iter().chain(&PART_FILLINGS) {
                        let length = (bytes / count).saturating_sub(part.len());
                        let parts =
                            format!("{between}{}", part.replace('*', &filled(filling, length)));
                        let shown =
                            format!("{count} of {part:?} with {}", filling.escape_unicode());
                        add(
                            &shown,
                            format!("{}{phone}1\r\n--b--\r\n", parts.repeat(count)),
                        );
                    }
                }
                continue;
            }
            let plain: String = match place {
                Place::Form | Place::Cookie => (0..bytes / 36)
                    .map(|n| format!("a_field_{n:04}=value-of-field-{n:04}{between}"))
                    .collect(),
                _ => (0..bytes / 16)
                    .map(|n| format!("by_{n:03}=value-{n:03}{between}"))
                    .collect(),
            };
            add("plain names", format!("{plain}phone=1"));
            add("plain value", format!("phone={}", filled("value-", bytes)));
            for filling in FILLINGS {
                let filling_shown = filling.escape_unicode();
                add(
                    &format!("name of {filling_shown}"),
                    format!("{}{between}phone=1", filled(filling, bytes)),
                );
                add(
                    &format!("named value of {filling_shown}"),
                    format!("x={}{between}phone=1", filled(filling, bytes)),
                );
                add(
                    &format!("value of {filling_shown}"),
                    format!("phone={}", filled(filling, bytes)),
                );
                let name = filled(filling, bytes / NAMES);
                add(
                    &format!("names of {filling_shown}"),
                    format!("{name}=1{between}").repeat(NAMES - 1) + "phone=1",
                );
            }
            for parameter in PARAMETERS {
                let many = filled(&format!("{parameter}{between}"), bytes);
                add(&format!("many {parameter:?}"), format!("{many}phone=1"));
            }
        }
    }
    cases
}

fn rules(place: Place, form: &str) -> Rules {
    let source = match place {
        Place::Form | Place::Multipart => "body.form.phone",
        Place::Json => "body.json.phone",
        Place::Query | Place::Condition => "query.phone",
        Place::Cookie => "cookie.phone",
    };
    let form = if form.is_empty() {
        String::new()
    } else {
        format!(" | {form}")
    };
    let text = format!(
        "listener = [{{ address = '127.0.0.1:8080' }}]\n\
         limit.a = {{ key = \"{source}{form}\", on_missing = 'skip', rates = ['1 per 1h'] }}\n\
         route = [{{ path = '/x', query = {{ phone = '*' }}, limits = ['a'], respond = {{ status = 200 }} }}]"
    );
    parse("cost.toml", &text, no_review)
        .unwrap_or_else(|problems| panic!("{problems}"))
        .rules
}

/// Reads a message as a decision does; its instructions are counted.
#[inline(never)]
fn measured_reading(part: &ValuePart, facts: &RequestFacts<'_>) {
    std::hint::black_box(normal_value(part, facts)).ok();
}

/// Finds the route of a message; its instructions are counted.
#[inline(never)]
fn measured_routing(routes: &RouteTable, path: &NormalPath<'_>, asked: &RequestFields<'_>) {
    std::hint::black_box(routes.find("", path, asked)).ok();
}

/// Reads a message; valgrind writes what has been counted when it returns.
#[inline(never)]
fn counted(case: &Case) {
    read(case);
    // Something behind the call, so that it is one.
    std::hint::black_box(case);
}

fn read(case: &Case) {
    let rules = rules(case.place, case.form);
    let KeyPart::Value(part) = &rules.limits["a"].key.0[0] else {
        panic!("the key is a value");
    };
    let mut headers = ReceivedFields::new();
    let content_type = match case.place {
        Place::Json => "application/json",
        Place::Multipart => "multipart/form-data; boundary=b",
        _ => "application/x-www-form-urlencoded",
    };
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    if case.place == Place::Cookie {
        headers.insert(
            COOKIE,
            HeaderValue::from_bytes(case.text.as_bytes()).unwrap(),
        );
    }
    let is_query = matches!(case.place, Place::Query | Place::Condition);
    let query = if is_query { &*case.text } else { "" };
    let body = match case.place {
        Place::Form | Place::Multipart | Place::Json => KnownBody::Whole(case.text.as_bytes()),
        _ => KnownBody::Unread,
    };
    let databases = GeoDatabases::default();
    let crawlers = CrawlerRegistry::default();
    let facts = RequestFacts {
        segments: "/x",
        secured: None,
        client: CLIENT,
        place: &ClientPlace::new(&databases, CLIENT),
        crawler: &ClientCrawler::new(&crawlers, CrawlerRequest::without_target(CLIENT, &headers)),
        hop: PeerTrust::Stranger,
        host: "",
        path: "/x",
        method: &Method::POST,
        headers: &headers,
        query,
        pattern: None,
        token: &PresentedToken::new(None, &headers),
        body,
        hits: NonZeroU32::MIN,
        now: Timestamp::from_secs(1_800_000_000),
        recorded: &[],
        reserves: &[],
    };
    if case.place != Place::Condition {
        measured_reading(part, &facts);
        return;
    }
    let asked = RequestFields {
        method: &Method::POST,
        headers: &headers,
        query,
        listener: RequestListener::Unknown,
        client: CLIENT,
        place: None,
        crawler: None,
    };
    let path = NormalPath::parse("/x").unwrap();
    let routes = RouteTable::compile(&rules.routes, rules.server.max_body_bytes);
    measured_routing(&routes, &path, &asked);
}

/// The program that is counted.
#[test]
#[ignore = "started by the test below, under valgrind"]
fn every_message_is_read() {
    cases().iter().for_each(counted);
}

/// Goal: nobody buys work with a message: finding a key costs a hostile message at most four times what it costs a plain one of the same
/// length, at every place and in every form. Method: names and values of texts that are dear to fold, to decode and to compare, and as
/// many parameters as there is room for, counted by valgrind beside plain ones.
#[test]
fn a_hostile_message_costs_little_more_than_a_plain_one() {
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new("valgrind")
        .args([
            "--tool=callgrind",
            "--toggle-collect=*measured_rea*",
            "--toggle-collect=*measured_rou*",
            "--dump-after=*key_cost*counted*",
        ])
        .arg(format!(
            "--callgrind-out-file={}/out",
            directory.path().display()
        ))
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "every_message_is_read",
            "--ignored",
            "--test-threads=1",
        ])
        .output()
        .expect("valgrind, which ./dev test installs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let cases = cases();
    let counts: Vec<u64> = (1..=cases.len())
        .map(|n| instructions(&directory.path().join(format!("out.{n}"))))
        .collect();
    let mut dear = Vec::new();
    let mut plain = [0; 2];
    for (at, (case, count)) in cases.iter().zip(&counts).enumerate() {
        if case.shown.ends_with("plain names") {
            plain = [counts[at], counts[at + 1]];
        }
        let by_values = case.shown.contains(": value of") || case.shown.ends_with("plain value");
        let compared = plain[0].max(plain[usize::from(by_values)]);
        if *count > MOST * compared {
            dear.push(format!(
                "{}: {count} instructions, plain {compared}",
                case.shown
            ));
        }
    }
    assert!(
        dear.is_empty(),
        "{} of {}:\n{}",
        dear.len(),
        cases.len(),
        dear.join("\n")
    );
}

/// The instructions in a dump of callgrind.
fn instructions(dump: &std::path::Path) -> u64 {
    let text =
        std::fs::read_to_string(dump).unwrap_or_else(|error| panic!("{}: {error}", dump.display()));
    let line = text.lines().find_map(|line| line.strip_prefix("totals: "));
    line.unwrap().trim().parse().unwrap()
}
