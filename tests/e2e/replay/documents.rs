//! The documents quote what `replay` and `suggest` print: each quoted line must be one that the program prints.

use super::*;

/// Lines by which a block of a document is known to quote one of the reports.
const MARKS: [&str; 5] = [
    "requests were sorted before a later line",
    "compared with old.toml",
    "the most requests of a key in any window",
    "the most units of a key in any window",
    "the most that a key used in a window",
];

/// The documents, each with its name.
fn documents() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut open = vec![root.join("docs")];
    let mut files = vec![root.join("README.md")];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                files.push(path);
            }
        }
    }
    let named = files.iter().map(|path| {
        let name = path.strip_prefix(root).unwrap().display().to_string();
        (name, fs::read_to_string(path).unwrap())
    });
    named.collect()
}

/// The blocks of a document that quote a report, without the lines of a prompt.
fn quotes(document: &str) -> Vec<Vec<&str>> {
    let blocks = document.split("```").skip(1).step_by(2);
    let blocks = blocks.map(|block| {
        let lines = block.lines().skip(1);
        lines.filter(|line| !line.starts_with("$ ")).collect()
    });
    let is_quote = |lines: &Vec<&str>| {
        let mut lines = lines.iter();
        lines.any(|line| MARKS.iter().any(|mark| line.contains(mark)))
    };
    blocks.filter(is_quote).collect()
}

/// Whether `output` has these lines one behind the other; `…` stands for any number of them.
fn prints(output: &str, quote: &[&str]) -> bool {
    let output: Vec<&str> = output.lines().collect();
    let mut from = 0;
    quote.split(|line| *line == "…").all(|part| {
        let rest = output.get(from..).unwrap_or_default();
        let place = rest
            .windows(part.len().max(1))
            .position(|lines| lines == part);
        from += place.unwrap_or(0) + part.len();
        place.is_some()
    })
}

/// Runs a command: what it prints.
async fn output(arguments: &[&str]) -> String {
    let mut process = Process::run(arguments);
    assert_eq!(process.exit_code().await, 0, "{}", process.stderr());
    process.stdout()
}

/// What `suggest --gateway` prints of a limit that 59 clients have used: 30 of them three times, 28 five times, and one eight times.
async fn suggestion_of_a_gateway() -> String {
    let search = limit(
        "search",
        &["client.ip"],
        "rates = [\"100 per 10s\"]\naction = \"shadow\"",
    );
    let gateway = Gateway::start(&(search + &route("/", &["search"], ANSWERED))).await;
    for client in 1..=59 {
        let requests = match client {
            1..=30 => 3,
            59 => 8,
            _ => 5,
        };
        let mut from = gateway.client_from(&format!("127.0.1.{client}")).await;
        for _ in 0..requests {
            from.get("/").await;
        }
    }
    let url = format!("http://{}", gateway.admin_address());
    eventually("the gateway has seen all requests", async || {
        let mut process = Process::run(&["suggest", "--gateway", &url, "--limit", "search"]);
        process.exit_code().await;
        let text = process.stdout();
        text.contains("       5       8       8       8 ")
            .then_some(text)
    })
    .await
}

#[tokio::test]
async fn the_documents_quote_what_the_program_prints() {
    // Goal: no document shows a number that the program does not print. Method: each block of README and docs that quotes a report, against
    // what the commands of docs/replay.md print of the public sample log, under the configuration of that page.
    let files = Files::new();
    let documents = documents();
    let (_, page) = documents
        .iter()
        .find(|(name, _)| name == "docs/replay.md")
        .unwrap();
    let new = blocks(page, "toml")[0];
    let old = new.replace("10 per 10s", "20 per 1m");
    assert_ne!(old, new);
    let named = new
        .replace("per-client", "api")
        .replace("[[route]]", "[[route]]\nname = \"api\"");
    let new = files.write("new.toml", new);
    let old = files.write("old.toml", old);
    let named = files.write("api.toml", named);
    let compared = output(&["replay", SAMPLE, "--config", &new, "--against", &old]).await;
    let outputs = [
        compared.replace(&old, "old.toml"),
        output(&["suggest", SAMPLE]).await,
        output(&["suggest", SAMPLE, "--config", &named]).await,
        suggestion_of_a_gateway().await,
    ];
    let mut quoted = 0;
    for (name, text) in &documents {
        for quote in quotes(text) {
            quoted += 1;
            assert!(
                outputs.iter().any(|output| prints(output, &quote)),
                "{name} quotes what no command prints:\n{}\n\nThe commands print:\n{}",
                quote.join("\n"),
                outputs.join("\n")
            );
        }
    }
    assert_eq!(quoted, 6, "README has one quote, docs/replay.md has five");
}
