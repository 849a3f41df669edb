//! Compares what is imported with files that hold the exact result, and holds what every import promises.
//!
//! `BLESS=1 cargo test -p sluicegate-import --test golden` writes the results anew; read the difference before it is committed.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    missing_docs,
    reason = "in a test a panic is the report"
)]

mod hostile;

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use sluicegate_import::{Format, IncludedFile, IncludedFiles, import};

/// Files of a directory.
struct Beside(PathBuf);

impl IncludedFiles for Beside {
    fn read(&self, pattern: &str) -> Result<Vec<IncludedFile>, String> {
        let text = fs::read_to_string(self.0.join(pattern));
        let text = text.map_err(|_| format!("{pattern} does not exist"))?;
        let name = pattern.to_owned();
        Ok(vec![IncludedFile { name, text }])
    }
}

/// The inputs of a format, in the order of their names.
fn inputs(format: Format) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(format.name());
    let files = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
    let is_input = |path: &PathBuf| {
        let names = ["conf", "cfg", "yaml", "caddyfile", "traefik"];
        path.extension()
            .is_some_and(|it| names.iter().any(|name| it == *name))
    };
    let mut files: Vec<PathBuf> = files.filter(is_input).collect();
    files.sort();
    files
}

#[test]
fn each_input_gives_the_configuration_beside_it() {
    // Goal: every word of an import is looked at once, and stays. Method: the exact file and the account of each directive.
    let bless = std::env::var_os("BLESS").is_some();
    let mut wrong = Vec::new();
    for format in Format::ALL {
        for path in inputs(format) {
            let text = fs::read_to_string(&path).unwrap();
            let name = path.file_name().unwrap().to_str().unwrap();
            assert_eq!(Format::detect(&text), Some(format), "{name}");
            let beside = Beside(path.parent().unwrap().to_owned());
            let imported = import(format, name, &text, &beside).unwrap();
            for (extension, result) in [
                ("toml", imported.toml.clone()),
                ("txt", imported.ledger.to_string()),
            ] {
                let golden = path.with_extension(extension);
                if bless {
                    fs::write(&golden, &result).unwrap();
                } else if fs::read_to_string(&golden).unwrap_or_default() != result {
                    wrong.push(golden);
                }
            }
        }
    }
    assert!(wrong.is_empty(), "differ; see BLESS: {wrong:?}");
}

#[test]
fn each_directive_is_in_the_file_or_in_its_account() {
    // Goal: nothing is dropped silently. Method: each entry of each input is translated, or stands among the omissions of the file.
    for format in Format::ALL {
        for path in inputs(format) {
            let text = fs::read_to_string(&path).unwrap();
            let name = path.file_name().unwrap().to_str().unwrap();
            let beside = Beside(path.parent().unwrap().to_owned());
            let imported = import(format, name, &text, &beside).unwrap();
            assert!(!imported.ledger.entries().is_empty());
            let omissions = imported
                .toml
                .split("# Left out:")
                .nth(1)
                .unwrap_or_default();
            for (entry, reason) in imported.ledger.omissions() {
                assert!(!reason.is_empty());
                let place = format!("# {}: ", entry.position);
                assert!(omissions.contains(&place), "{name}: {place}");
            }
        }
    }
}

/// Texts that are nearly configurations.
fn nearly() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "http",
        "server",
        "location",
        "limit_req",
        "limit_req_zone",
        "limit_conn",
        "map",
        "geo",
        "zone=a:1m",
        "zone=a",
        "rate=1r/s",
        "burst=3",
        "delay=1",
        "nodelay",
        "$binary_remote_addr",
        "$http_a",
        "$a",
        "{",
        "}",
        ";",
        "\n",
        "\"",
        "'",
        "\\",
        "#",
        "include",
        "x",
        "default",
        "\"\"",
        "~",
        "^~",
        "=",
        "/",
        "/a/",
        "(",
        "upstream",
        "proxy_pass",
        "http://a$request_uri",
        "try_files",
        "error_page",
        "rewrite",
        "^/a/(.*)$",
        "/a/$1",
        "last",
        "internal",
        "@a",
        "set",
        "$up",
        "if",
        "(!-f",
        "$uri)",
        "ssl",
        "443",
        "server_name",
        "a.test",
        "http://a/b",
        "listen",
        "80",
        "return",
        "301",
        "https://$host$request_uri",
        "allow",
        "deny",
        "all",
        "10.0.0.0/8",
        "example.com",
        "handle",
        "handle_path",
        "/a/*",
        "@m",
        "path",
        "method",
        "GET",
        "not",
        "header",
        "reverse_proxy",
        "redir",
        "respond",
        "{uri}",
        "uri",
        "strip_prefix",
        "rate_limit",
        "zone",
        "key",
        "{remote_host}",
        "events",
        "window",
        "(a)",
        "{args[0]}",
        "{block}",
        "<<E",
        "E",
        "`",
        "é",
        "\u{0}",
        "\r",
        "\u{2028}",
        "\u{7f}",
        hostile::SEPARATOR,
    ]);
    prop::collection::vec(words, 0..60).prop_map(|words| words.join(" "))
}

proptest! {
    #[test]
    fn no_input_makes_an_import_panic(text in nearly(), random in ".{0,200}") {
        for letter in ["n", "h", "i", "c", "t"] {
            for text in [&text, &random] {
                hostile::check(&format!("{letter}{text}"));
            }
        }
    }
}

#[test]
fn many_addresses_of_nginx_are_imported() {
    // Goal: the time of an import grows with its input, not with the cube of its addresses. Method: server blocks with an address each, and
    // one with more addresses than an import takes, whose names are at all of them.
    let blocks = (1..20_000)
        .map(|port| format!("server {{ listen {port}; server_name a b; return 200; }}\n"));
    let text: String = blocks.collect();
    let imported = import(Format::Nginx, "n", &text, &Beside(PathBuf::new())).unwrap();
    assert_eq!(imported.toml.matches("[[listener]]").count(), 19_999);
    let listens = (1..1_100).map(|port| format!("listen {port};"));
    let names = (0..200).map(|name| format!(" n{name}.test"));
    let names: String = names.collect();
    let listens: String = listens.collect();
    let text =
        format!("server {{ {listens} server_name{names}; return 200; }} server {{ listen 1; }}");
    let imported = import(Format::Nginx, "n", &text, &Beside(PathBuf::new())).unwrap();
    assert_eq!(imported.toml.matches("[[listener]]").count(), 1024);
    let reported = imported.ledger.to_fill_in().join("\n");
    assert!(reported.contains("too many addresses"), "{reported}");
    assert!(reported.contains("too many names"), "{reported}");
}

#[test]
fn many_blocks_of_nginx_are_imported() {
    // Goal: the time of an import grows with the blocks of clients in it, not with their square. Method: a `geo`, a `map`, `deny` and
    // `set_real_ip_from` with 30,000 of them each, of which the last decides for the first.
    let each = |line: fn(&str, u32) -> String| -> String {
        let blocks = (0..30_000).map(|i| line(&format!("10.{}.{}.0/24", i >> 8, i & 255), i));
        blocks.collect()
    };
    let geo = each(|block, i| format!("{block} {};\n", i % 2));
    let values = each(|block, i| format!("{block} {i};\n"));
    let denied = each(|block, _| format!("deny {block};\n"));
    let believed = each(|block, _| format!("set_real_ip_from {block};\n"));
    let text = format!(
        "geo $x {{ default 0; {geo} 10.0.0.0/24 1; }}
         map $x $k {{ 0 $binary_remote_addr; 1 \"\"; }}
         map $http_x_key $v {{ default $binary_remote_addr; {values} }}
         limit_req_zone $k zone=k:1m rate=1r/s;
         limit_req_zone $v zone=v:1m rate=1r/s;
         {believed} real_ip_header X-Forwarded-For;
         server {{ listen 80;
             location / {{ limit_req zone=k; {denied} proxy_pass http://127.0.0.1:1; }}
             location /v/ {{ limit_req zone=v; proxy_pass http://127.0.0.1:1; }}
         }}"
    );
    let imported = import(Format::Nginx, "n", &text, &Beside(PathBuf::new())).unwrap();
    for (key, number) in [
        ("[list.not-limited]\ncidrs = [", 15_001),
        ("[list.denied]\ncidrs = [", 30_000),
        ("trusted_proxies  = [", 30_000),
    ] {
        let list = imported.toml.split(key).nth(1).unwrap();
        let list = list.split("]\n").next().unwrap();
        assert_eq!(list.split(',').count(), number, "{key}");
    }
}

#[test]
fn scripts_of_many_folders_of_nginx_are_imported() {
    // Goal: the script of each folder has a route, however many there are. Method: 300 folders beside an expression for scripts.
    let pass = "proxy_pass http://127.0.0.1:1;";
    let folders = (0..300).map(|i| format!("location /f{i}/ {{ limit_req zone=z; {pass} }}\n"));
    let folders: String = folders.collect();
    let text = format!(
        "limit_req_zone $binary_remote_addr zone=z:1m rate=1r/s;
         server {{ {folders} location ~ \\.php$ {{ {pass} }} }}"
    );
    let imported = import(Format::Nginx, "n", &text, &Beside(PathBuf::new())).unwrap();
    assert_eq!(imported.toml.matches("/index.php\"\n").count(), 300);
}

#[test]
fn many_pairs_of_nginx_are_imported_or_reported() {
    // Goal: a server block with more pairs of a prefix and an expression than an import writes says so once. Method: 70 of each, where an
    // expression within `/` makes each prefix go before expressions.
    let each = |line: fn(u32) -> String| (0..70).map(line).collect::<String>();
    let answer = "proxy_pass http://127.0.0.1:1;";
    let text = format!(
        "server {{ location / {{ {answer} location ~ a$ {{ {answer} }} }} {} {} }}",
        each(|i| format!("location /p{i}/ {{ return 200; }}\n")),
        each(|i| format!("location ~ x{i}$ {{ return 200; }}\n")),
    );
    let imported = import(Format::Nginx, "n", &text, &Beside(PathBuf::new())).unwrap();
    let said = imported.ledger.to_fill_in().iter();
    assert_eq!(said.filter(|it| it.contains("too many pairs")).count(), 1);
    assert!(imported.toml.contains("/p57/.*x69$") && !imported.toml.contains("/p58/.*x69$"));
}

#[test]
fn seeds_of_the_fuzzer_are_cases() {
    // Goal: the fuzzer begins with cases that are imported. Method: the check of each.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/import");
    for file in fs::read_dir(folder).unwrap() {
        hostile::check(&fs::read_to_string(file.unwrap().path()).unwrap());
    }
}
