//! Drives the parser with whole files: those that ship, those that must be read, and those that must be refused, the last
//! with the exact text an operator sees.
//!
//! `BLESS=1 cargo test --test config` writes the texts anew; read the difference before it is committed.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    missing_docs,
    reason = "in a test a panic is the report"
)]

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use sluicegate::config::rules::{Rules, Segment};
use sluicegate::config::{
    Environment, Loaded, PathKind, Problems, Severity, known_keys, load, parse_in,
};
use sluicegate_decide::route::review;

#[path = "config/reference.rs"]
mod reference;
#[path = "config/watched.rs"]
mod watched;

use self::reference::{reference, whole_reference};

/// The public key of Ed25519 of RFC 9421 appendix B.1.4.
const CRAWLER_KEYS: &str =
    r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"}]}"#;

/// A certificate, that of its issuer, and that of the issuer's.
const LEAF: &str = include_str!("tls/leaf.pem");
const INTERMEDIATE: &str = include_str!("tls/intermediate.pem");
const ROOT: &str = include_str!("tls/root.pem");

/// A machine that knows two names and one token.
struct Still;

impl Environment for Still {
    fn resolve(&self, server: &str) -> io::Result<Vec<SocketAddr>> {
        if let Some(port) = server.strip_prefix("localhost:") {
            let port: u16 = port.parse().unwrap();
            let v6 = ([0, 0, 0, 0, 0, 0, 0, 1], port);
            return Ok(vec![v6.into(), ([127, 0, 0, 1], port).into()]);
        }
        match server.strip_prefix("app.internal:") {
            Some(port) => {
                let port: u16 = port.parse().unwrap();
                Ok(vec![
                    ([10, 0, 0, 1], port).into(),
                    ([10, 0, 0, 2], port).into(),
                ])
            }
            None => Err(io::Error::other("no such name")),
        }
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        match path.to_str().unwrap() {
            "admin-token" => Ok("0123456789abcdef\n".to_owned()),
            "bad.txt" => Ok("# from a feed\r\n192.0.2.0/24 ; SBL1\n2001:db8::1\n\n".to_owned()),
            "googlebot.json" => {
                Ok(include_str!("../conf/examples/crawlers/googlebot.json").to_owned())
            }
            "crawler.jwks.json" => Ok(CRAWLER_KEYS.to_owned()),
            "broken.jwks.json" => Ok(CRAWLER_KEYS[..40].to_owned()),
            "broken-ranges.json" => {
                Ok("{\"prefixes\":[{\"ipv4Prefix\":\"192.0.2.0/24\"}".to_owned())
            }
            "broken.txt" => {
                Ok("10.0.0.0/8\n10.0.0.1/8\n# x\nhost.test\n10.0.0.0/33\n1\n2\n3\n4\n".to_owned())
            }
            "tiers.csv" => {
                Ok("client.ip,path,rates\n192.0.2.7,/a,50 per 10s; 200 per hour\n".to_owned())
            }
            "good-tiers.toml" => Ok(include_str!("config/included/good-tiers.toml").to_owned()),
            "bad-tiers.csv" => Ok(include_str!("config/included/bad-tiers.csv").to_owned()),
            "bad-tiers.toml" => Ok(include_str!("config/included/bad-tiers.toml").to_owned()),
            "broken.toml" => Ok("[[override]]\nkey = \n".to_owned()),
            "jwks.json" => Ok(include_str!("tokens/jwks.json").to_owned()),
            "rsa.pem" => Ok(include_str!("tokens/rsa.pub.pem").to_owned()),
            "short-secret" => Ok("0123456789abcdef\n".to_owned()),
            "challenge.key" => Ok("0123456789abcdef0123456789abcdef\n".repeat(2)),
            "weak.key" => Ok("0123456789abcdef0123456789abcdef\nsecret\n".to_owned()),
            "store-password" => Ok("hunter2\n".to_owned()),
            "sentinel-password" => Ok("sesame\n".to_owned()),
            "store-secret" => Ok("00112233445566778899aabbccddeeff\n".to_owned()),
            "acme-ca.pem" => Ok(include_str!("tls/ca.pem").to_owned()),
            "collector-ca.pem" => Ok(include_str!("tls/ca.pem").to_owned()),
            "otlp-token" => Ok("Bearer 0123456789abcdef\n".to_owned()),
            "acme-eab" => Ok("MDEyMzQ1Njc4OWFiY2RlZg==\n".to_owned()),
            "site.pem" => Ok(include_str!("tls/node.pem").to_owned()),
            "site.key" | "open.key" => Ok(include_str!("tls/node.key").to_owned()),
            "clients.pem" => Ok(include_str!("tls/ca.pem").to_owned()),
            "old.pem" => Ok(include_str!("tls/old.pem").to_owned()),
            "old.key" => Ok(include_str!("tls/old.key").to_owned()),
            "version-1.pem" => Ok(include_str!("tls/version-1.pem").to_owned()),
            "version-1.key" => Ok(include_str!("tls/version-1.key").to_owned()),
            "critical.pem" => Ok(include_str!("tls/critical.pem").to_owned()),
            "short.pem" => Ok(include_str!("tls/short.pem").to_owned()),
            "short.key" => Ok(include_str!("tls/short.key").to_owned()),
            "leaf.pem" => Ok(LEAF.to_owned()),
            "leaf.key" => Ok(include_str!("tls/leaf.key").to_owned()),
            "chain.pem" => Ok([LEAF, INTERMEDIATE].concat()),
            "disordered.pem" => Ok([LEAF, ROOT, INTERMEDIATE].concat()),
            "5xx.html" | "502.html" => Ok("<p>{status}".to_owned()),
            "store-ca.pem" | "origin-ca.pem" => Ok(include_str!("tls/ca.pem").to_owned()),
            "store.pem" | "origin.pem" => Ok(include_str!("tls/node.pem").to_owned()),
            "store.key" | "origin.key" => Ok(include_str!("tls/node.key").to_owned()),
            "broken/otp.toml" => Ok(include_str!("config/included/otp.toml").to_owned()),
            "empty-token" => Ok(" \n".to_owned()),
            _ => Err(io::Error::other("no such file")),
        }
    }

    fn read_bytes(&self, path: &Path, _: usize) -> io::Result<Vec<u8>> {
        match path.to_str().unwrap() {
            "country.mmdb" => Ok(include_bytes!("geo/GeoLite2-Country-Test.mmdb").to_vec()),
            "asn.mmdb" => Ok(include_bytes!("geo/GeoLite2-ASN-Test.mmdb").to_vec()),
            "city.mmdb" => Ok(include_bytes!("geo/GeoLite2-City-Test.mmdb").to_vec()),
            "domain.mmdb" => Ok(include_bytes!("geo/GeoIP2-Domain-Test.mmdb").to_vec()),
            "half.mmdb" => Ok(include_bytes!("geo/GeoLite2-ASN-Test.mmdb")[..9_000].to_vec()),
            _ => Err(io::Error::other("no such file")),
        }
    }

    fn kind_of(&self, path: &Path) -> PathKind {
        match path.to_str().unwrap() {
            "/var/log" | "/var/lib" | "/run" | "run" | "." => PathKind::Folder,
            "/shared" => PathKind::SharedFolder,
            "/dev/log" => PathKind::Socket,
            "/etc/hosts" => PathKind::File,
            _ => PathKind::Absent,
        }
    }

    fn try_writing(&self, path: &Path) -> io::Result<()> {
        match path.to_str().unwrap().starts_with("/run/closed") {
            true => Err(io::ErrorKind::PermissionDenied.into()),
            false => Ok(()),
        }
    }

    fn try_binding(&self, address: SocketAddr) -> io::Result<()> {
        match address.to_string().as_str() {
            "203.0.113.5:80" | "[2001:db8::5]:9180" => Err(io::ErrorKind::AddrNotAvailable.into()),
            "0.0.0.0:81" => Err(io::ErrorKind::PermissionDenied.into()),
            _ => Ok(()),
        }
    }

    fn matching(&self, pattern: &Path) -> io::Result<Vec<PathBuf>> {
        let is_known = pattern == Path::new("broken/*.toml");
        Ok(is_known
            .then(|| "broken/otp.toml".into())
            .into_iter()
            .collect())
    }

    fn variable(&self, name: &str) -> Option<String> {
        (name == "STORE_PASSWORD").then(|| "hunter2".to_owned())
    }

    fn is_open_to_all(&self, path: &Path) -> bool {
        path == Path::new("open.key")
    }

    fn cores(&self) -> usize {
        2
    }

    fn exports_spans(&self) -> bool {
        true
    }
}

fn read(text: &str) -> Result<Loaded, Problems> {
    parse_in("gateway.toml", text, &Still, review)
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(directory: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join(directory)).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "toml")
    });
    files.sort();
    assert!(!files.is_empty(), "nothing in {directory}");
    files
}

/// Goal: what ships works as it is. Method: read it from disk, without a problem of any kind.
#[test]
fn the_files_that_ship_have_no_problems() {
    let directories = ["conf", "conf/examples", "conf/examples/beside"];
    for path in directories.iter().flat_map(|directory| files(directory)) {
        let loaded = load(&path, review).unwrap_or_else(|problems| panic!("{problems}"));
        assert!(loaded.warnings.is_empty(), "{}", loaded.warnings);
    }
}

/// Goal: the reference is complete. Method: every key that the parser asks for must be written in it.
#[test]
fn every_key_occurs_in_the_reference() {
    let text = whole_reference();
    read(&text).unwrap_or_else(|problems| panic!("{problems}"));
    let all = [
        "key_file",
        "password_env",
        "sentinel",
        "cluster",
        "proxy_protocol_from",
        "rejection_status",
        "advertise_http3",
        "html_file",
        "hash_key",
        "stream_window",
        "max_connections",
        "max_tls_handshakes",
        "max_origin_requests",
        "max_http2_streams",
        "max_unread_bytes",
        "max_key_bodies_bytes",
        "max_replay_bytes",
        "max_received_bytes",
    ];
    let all = all.iter().fold(text.clone(), |text, key| {
        text.replace(&format!("\n#{key}"), &format!("\n{key}"))
    });
    let written = written_keys(&all);
    let known = known_keys(&text, &Still);
    let missing: Vec<&String> = known.difference(&written).collect();
    assert!(
        missing.is_empty(),
        "not in conf/reference.toml: {missing:?}"
    );
    assert!(known.len() > 50, "{known:?}");
}

/// Goal: the values of the reference are the defaults it claims. Method: compare with a file that says almost nothing.
#[test]
fn the_reference_writes_the_defaults() {
    let said = read(&reference()).unwrap().rules;
    let bare = read(
        "listener = [{ address = '0.0.0.0:8080' }]\n\
         origin.app = { servers = ['127.0.0.1:3000'], health = {} }\n\
         limit.otp = { key = 'host', rates = ['9 per 1s'] }\n\
         route = [{ path = '/*', origin = 'app', limits = ['otp'] }]",
    );
    let mut bare = bare.unwrap_or_else(|problems| panic!("{problems}")).rules;
    bare.server.threads = 4;
    assert_eq!(said.server, bare.server);
    assert_eq!(said.listeners, bare.listeners);
    assert_eq!(said.client.client_ip_header, bare.client.client_ip_header);
    let of = |rules: &Rules| rules.limits["otp"].clone();
    let (said_limit, bare_limit) = (of(&said), of(&bare));
    assert_eq!(said_limit.capacity, bare_limit.capacity);
    assert_eq!(said_limit.policy.algorithm(), bare_limit.policy.algorithm());
    assert_eq!(said_limit.cost, bare_limit.cost);
    assert_eq!(
        (said_limit.action, said_limit.enforce),
        (bare_limit.action, bare_limit.enforce)
    );
    let sizes = |rules: &Rules| (rules.cache.max_bytes, rules.cache.largest_object());
    assert_eq!(sizes(&said), sizes(&bare));
    let mut log = said.log.clone();
    (log.fields, log.only) = (Vec::new(), None);
    let mut admin = said.admin.clone();
    admin.hosts = Vec::new();
    assert_eq!((admin, log), (bare.admin, bare.log));
    let (said, bare) = (&said.origins["app"], &bare.origins["app"]);
    assert_eq!(
        (&said.balance, said.retries, &said.host, said.header_case),
        (&bare.balance, bare.retries, &bare.host, bare.header_case)
    );
    assert_eq!(said.resolve_every, bare.resolve_every);
    assert_eq!(
        (said.transport.protocol, &said.transport.tls),
        (bare.transport.protocol, &None)
    );
    let mut timeouts = said.timeouts.clone();
    (timeouts.total, timeouts.idle) = (None, None);
    assert_eq!(
        timeouts.longest_tunnel_silence(),
        bare.timeouts.longest_tunnel_silence()
    );
    timeouts.tunnel = None;
    assert_eq!(timeouts, bare.timeouts);
    let (said, bare) = (said.health.clone().unwrap(), bare.health.clone().unwrap());
    assert_eq!((said.interval, said.timeout), (bare.interval, bare.timeout));
    assert_eq!(said.statuses, bare.statuses);
    assert_eq!(
        (said.unhealthy_after, said.healthy_after),
        (bare.unhealthy_after, bare.healthy_after)
    );
}

#[test]
fn good_files_are_read() {
    for path in files("tests/config/good") {
        let text = std::fs::read_to_string(&path).unwrap();
        let loaded =
            read(&text).unwrap_or_else(|problems| panic!("{}\n{problems}", path.display()));
        assert_possible(&loaded.rules);
        let warns = path
            .file_stem()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with("warns-");
        let expected = path.with_extension("expected");
        if warns {
            assert_text(&expected, &format!("{}\n", loaded.warnings));
        } else {
            assert!(
                loaded.warnings.is_empty(),
                "{}\n{}",
                path.display(),
                loaded.warnings
            );
        }
    }
}

#[test]
fn bad_files_are_refused_with_exactly_these_words() {
    let files = files("tests/config/bad");
    assert!(files.len() >= 25);
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        let Err(problems) = parse_in(name, &text, &Still, review) else {
            panic!("{name} was read");
        };
        assert!(problems.count(Severity::Error) > 0);
        assert_text(&path.with_extension("expected"), &format!("{problems}\n"));
    }
}

/// Goal: nobody fixes a file one error at a time. Method: one file with six mistakes of six kinds.
#[test]
fn six_mistakes_are_reported_at_once_in_their_order() {
    let text = std::fs::read_to_string(root().join("tests/config/bad/six-mistakes.toml")).unwrap();
    let problems = read(&text).unwrap_err();
    let places: Vec<(usize, &str)> = problems
        .iter()
        .map(|problem| (problem.line, &*problem.key_path))
        .collect();
    assert_eq!(
        places,
        [
            (3, "listener[0].address"),
            (7, "client.trusted_proxies[1]"),
            (11, "origin.app.retries"),
            (14, "limit.otp.rate"),
            (19, "route[0].methods[0]"),
            (20, "route[0].limits[0]"),
        ]
    );
}

#[test]
fn a_file_that_cannot_be_read_is_a_problem() {
    let directory = tempfile::tempdir().unwrap();
    let missing = load(&directory.path().join("none.toml"), review).unwrap_err();
    assert!(
        missing
            .to_string()
            .contains("none.toml:1:1: the file cannot be read: "),
        "{missing}"
    );

    let path = directory.path().join("latin1.toml");
    std::fs::write(&path, b"[log]\n# caf\xe9\n").unwrap();
    let problems = load(&path, review).unwrap_err();
    let problem = problems.iter().next().unwrap();
    assert_eq!((problem.line, problem.column), (2, 6));

    // A file without an end.
    let endless = load(std::path::Path::new("/dev/zero"), review).unwrap_err();
    let message = "the file has more than 67108864 bytes";
    assert!(endless.to_string().contains(message), "{endless}");
}

/// Goal: a configuration works from wherever the gateway is started. Method: a token and a log beside the file.
#[test]
fn relative_paths_begin_at_the_directory_of_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gateway.toml");
    let text = std::fs::read_to_string(root().join("conf/gateway.toml")).unwrap();
    let text =
        format!("{text}\n[admin]\ntoken_file = 'token'\n[log]\naccess = 'logs/access.log'\n");
    std::fs::write(&path, text).unwrap();
    std::fs::write(directory.path().join("token"), "  secret\n").unwrap();
    std::fs::create_dir(directory.path().join("logs")).unwrap();
    let rules = load(&path, review)
        .unwrap_or_else(|problems| panic!("{problems}"))
        .rules;
    let tokens = rules.admin.token_file.as_ref();
    assert_eq!(tokens.and_then(|tokens| tokens.usable()), Some("secret"));
    let log = format!("{:?}", rules.log.access);
    assert!(
        log.contains(directory.path().join("logs/access.log").to_str().unwrap()),
        "{log}"
    );
}

/// Goal: a mistake in a generated file is told in time. Method: 3,000 routes, each of whose limits is misspelt; the
/// guesses are bounded, since 9,000,000 of them would take many seconds.
#[test]
fn a_large_file_of_mistakes_is_told_about() {
    let mut text = std::fs::read_to_string(root().join("conf/gateway.toml")).unwrap();
    for n in 0..3_000 {
        let limit = format!("[limit.a{n}]\nkey = 'path'\nrates = ['9 per 1s']\n");
        let route = format!("[[route]]\npath = '/{n}'\nlimits = ['b{n}']\norigin = 'app'\n");
        text.push_str(&limit);
        text.push_str(&route);
    }
    let problems = read(&text).unwrap_err();
    assert_eq!(problems.len(), 3_000);
    assert_eq!(problems.to_string().lines().last(), Some("3000 errors"));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_text_never_panics(text in ".*") {
        judge(&text)?;
    }

    /// Goal: near misses are answered, not fallen over. Method: cut, swap and double pieces of files that ship.
    #[test]
    fn mutated_files_never_panic_and_yield_no_impossible_values(
        which in any::<Index>(),
        edits in prop::collection::vec((any::<Index>(), any::<Index>(), 0..7_u8), 1..6),
    ) {
        let mut paths = files("tests/config/good");
        paths.extend(files("conf"));
        let mut text: Vec<char> = std::fs::read_to_string(which.get(&paths)).unwrap().chars().collect();
        for (from, length, edit) in edits {
            if text.is_empty() {
                break;
            }
            let from = from.index(text.len());
            let to = (from + length.index(12)).min(text.len());
            let piece: Vec<char> = text[from..to].to_vec();
            let new: Vec<char> = match edit {
                0 => Vec::new(),
                1 => piece.iter().chain(&piece).copied().collect(),
                2 => piece.iter().rev().copied().collect(),
                3 => "0".chars().collect(),
                4 => "é\u{1b}\t".chars().collect(),
                5 => "\n[".chars().collect(),
                _ => "\"".chars().collect(),
            };
            text.splice(from..to, new);
        }
        judge(&text.into_iter().collect::<String>())?;
    }
}

/// Goal: a problem at the end of a text is on a line that the text has. Method: strings and a key without an end, and no line feed behind.
#[test]
fn problems_at_the_end_are_in_the_text() {
    for text in ["'''", "''''", "a = '''b", "'''\nx = 1", "a"] {
        judge(text).unwrap();
    }
}

/// Whatever is written is read or refused with places inside the file.
fn judge(text: &str) -> Result<(), TestCaseError> {
    let problems = match read(text) {
        Ok(loaded) => {
            assert_possible(&loaded.rules);
            loaded.warnings
        }
        Err(problems) => {
            prop_assert!(problems.count(Severity::Error) > 0);
            problems
        }
    };
    let shown = problems.to_string();
    let drives = |c: char| c.is_control() && c != '\n';
    prop_assert!(!shown.contains(drives), "{:?}", shown);
    for problem in &problems {
        prop_assert!(problem.line >= 1 && problem.line <= text.split('\n').count());
        let line = text.split('\n').nth(problem.line - 1).unwrap();
        prop_assert!(problem.column >= 1 && problem.column <= line.chars().count() + 1);
        prop_assert!(!problem.message.is_empty() && !problem.advice.is_empty());
    }
    Ok(())
}

/// What everything behind the parser relies on.
fn assert_possible(rules: &Rules) {
    assert!(!rules.listeners.is_empty() && !rules.routes.is_empty());
    assert!(rules.server.threads >= 1 && rules.server.max_headers >= 1);
    for limit in rules.limits.values() {
        assert!((1..=8).contains(&limit.key.0.len()));
    }
    for origin in rules.origins.values() {
        assert!(!origin.servers.is_empty() && origin.retries <= 5);
        assert!(origin.timeouts.connect > Duration::ZERO);
    }
    let mut names = BTreeSet::new();
    for route in &rules.routes {
        assert!(names.insert(route.name.clone()), "{} twice", route.name);
        assert!(
            route
                .limits
                .iter()
                .all(|name| rules.limits.contains_key(name))
        );
        let is_regex = route.matches.regex.is_some();
        assert!(
            route
                .matches
                .path
                .text
                .starts_with(if is_regex { '~' } else { '/' })
        );
        for segment in &route.matches.path.segments {
            let (Segment::Literal(text) | Segment::Parameter(text)) = segment;
            assert!(!text.contains('/'));
        }
        if let sluicegate::config::rules::RouteAction::Forward(name) = &route.action {
            assert!(rules.origins.contains_key(name));
        }
    }
}

fn assert_text(path: &Path, got: &str) {
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, got).unwrap();
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        expected == got,
        "{}: expected\n{expected}\ngot\n{got}",
        path.display()
    );
}

/// The keys written in a file, as the parser names those it knows: `limit.NAME.rates`, `route[].path`.
fn written_keys(text: &str) -> BTreeSet<String> {
    let table = toml::de::DeTable::parse(text).unwrap();
    let mut keys = BTreeSet::new();
    collect(table.get_ref(), "", &mut keys);
    keys
}

fn collect(table: &toml::de::DeTable<'_>, path: &str, keys: &mut BTreeSet<String>) {
    for (key, value) in table {
        let key = match path {
            "limit" | "list" | "origin" | "crawler" | "error_pages" | "route[].error_pages" => {
                "NAME"
            }
            _ => key.get_ref(),
        };
        let path = format!("{path}.{key}");
        let path = path.trim_start_matches('.');
        keys.insert(path.to_owned());
        if let Some(table) = value.get_ref().as_table() {
            collect(table, path, keys);
        }
        for element in value.get_ref().as_array().into_iter().flatten() {
            if let Some(table) = element.get_ref().as_table() {
                collect(table, &format!("{path}[]"), keys);
            }
        }
    }
}
