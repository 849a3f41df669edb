//! `replay --against`: the difference between two configurations.

use super::*;

#[tokio::test]
async fn two_configurations_are_compared_request_by_request_and_key_by_key() {
    // Goal: whom a change hits, and whom it relieves. Method: three clients with one to nine requests, under 5 and under 3 an hour, both
    // ways, and a limit that only one configuration has.
    let files = Files::new();
    let mut log = String::new();
    for (client, requests) in [("192.0.2.1", 2), ("192.0.2.2", 4), ("192.0.2.3", 9)] {
        for second in 0..requests {
            log += &common_line(1_795_245_000 + second, client);
        }
    }
    let log = files.write("access.log", log);
    let rules = |count: u32| {
        limited(&format!(
            "rates = [\"{count} per 1h\"]\nalgorithm = \"exact\""
        ))
    };
    let loose = files.config("old.toml", &rules(5));
    let tight = files.config(
        "new.toml",
        &(rules(3) + "[limit.spare]\nkey = \"path\"\nrates = [\"100 per 1h\"]\n"),
    );
    let report = report(&[&log, "--config", &tight, "--against", &loose]).await;
    assert_eq!(report["rejected"], 7);
    let against = &report["against"];
    assert_eq!(against["rejected"], 4);
    let changes = [
        "newly_rejected",
        "newly_admitted",
        "rejected_by_both",
        "admitted_by_both",
    ];
    let changes = changes.map(|name| against["changes"][name].as_u64().unwrap());
    assert_eq!(changes, [3, 0, 4, 8]);
    let difference = &against["differences"]["client"];
    assert_eq!(
        (
            &difference["keys_newly_rejected"],
            &difference["keys_rejected_by_both"]
        ),
        (&1.into(), &1.into())
    );
    assert_eq!(difference["keys"][0]["key"], "192.0.2.3");
    assert_eq!(
        (
            &difference["keys"][0]["rejected_before"],
            &difference["keys"][0]["rejected_now"]
        ),
        (&4.into(), &6.into())
    );
    assert_eq!(difference["keys"][1]["key"], "192.0.2.2");
    assert_eq!(
        (
            &against["added"][0],
            against["limits"]["client"]["rejected"].as_u64()
        ),
        (&"spare".into(), Some(4))
    );
    let (code, text, _) = replay(&[&log, "--config", &loose, "--against", &tight]).await;
    assert_eq!(code, 0);
    for part in [
        "3 newly admitted",
        "0 keys are newly rejected, 1 no longer, 1 by both",
        "removed, or with another key: spare",
    ] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
}
