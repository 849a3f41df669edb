//! `replay --html`: one file that needs nothing else.

use super::*;

#[tokio::test]
async fn the_page_has_the_report_and_asks_no_host() {
    // Goal: a report to send by mail. Method: a user agent that is markup as key, a comparison, a limit that is not judged; no address of
    // another host, no script, and every number of the JSON report that a reader looks for.
    let files = Files::new();
    let line = common_line(1_795_245_000, "192.0.2.1")
        .replace('\n', " \"-\" \"<script>alert(1)</script>\"\n");
    let log = files.write("access.log", line.repeat(7));
    let rules = |count: u32| {
        format!(
            "[limit.agent]\nkey = \"header.user-agent\"\non_missing = \"ip\"\nrates = [\"{count} per 1h\"]\n[limit.body]\n\
             key = \"body.json.a\"\non_missing = \"ip\"\nrates = [\"1 per 1h\"]\n[[route]]\npath = \"/*\"\n\
             limits = [\"agent\", \"body\"]\nrespond = {{ status = 200 }}\n"
        )
    };
    let (new, old) = (
        files.config("new.toml", &rules(2)),
        files.config("old.toml", &rules(4)),
    );
    let page = files.path("report.html");
    let report = report(&[&log, "--config", &new, "--against", &old, "--html", &page]).await;
    assert_eq!(report["limits"]["agent"]["rejected"], 5);
    let page = fs::read_to_string(page).unwrap();
    for part in [
        "&lt;script&gt;alert(1)",
        "5 rejected",
        "<b>2</b> newly rejected",
        "the body is not in the log",
        "<svg",
        "default-src 'none'",
    ] {
        assert!(page.contains(part), "{part} is not in the page");
    }
    for part in ["<script", "http://", "https://", "src=", "@import", "url("] {
        assert!(!page.contains(part), "{part} is in the page");
    }
}
