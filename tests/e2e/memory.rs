//! Memory: taken as keys use it, added up for the operator, and compared with what the machine has.

use std::fmt::Write;
use std::fs;

use tempfile::TempDir;

use crate::harness::*;

const LIMITS: u64 = 1_001;

/// A configuration with so many limits of the default capacity, and a route for each.
fn many_limits() -> String {
    (0..LIMITS).fold(String::new(), |mut rules, number| {
        write!(
            rules,
            "[limit.l{number}]\nkey = \"client.ip\"\nrates = [\"5 per 1h\"]\n\
             [[route]]\npath = \"/{number}\"\nlimits = [\"l{number}\"]\nrespond = {{ status = 200 }}\n"
        )
        .unwrap();
        rules
    })
}

#[tokio::test]
async fn a_thousand_limits_take_memory_as_keys_use_it() {
    // Goal: unused limits cost next to nothing, and the sum is logged. Method: 1,001 limits of the default capacity, whose tables
    // would take 9 GB; a client is counted by each of the first hundred.
    let gateway = Gateway::start(&many_limits()).await;
    for number in 0..100 {
        assert_eq!(
            gateway
                .get(&format!("/{number}"))
                .await
                .remaining(&format!("l{number}")),
            4
        );
    }
    let status = gateway.status().await;
    let planned = status["memory"]["limits"].as_u64().unwrap();
    assert!(planned > LIMITS * (7 << 20), "{planned}");
    let resident = gateway.resident_bytes();
    assert!(resident < planned / 20, "{resident} of {planned}");
    let start = gateway.stderr();
    let told = start.lines().find(|line| line.contains("memory: at most"));
    let told = told.unwrap_or_else(|| panic!("no line of memory: {start}"));
    assert!(told.contains("8.9 GB for limits"), "{told}");
}

#[tokio::test]
async fn check_warns_of_more_memory_than_the_machine_has() {
    // Goal: a capacity beyond the memory causes a warning. Method: 26 limits for a thousand million keys each.
    let limit = |name: &str| {
        format!(
            "[limit.{name}]\nkey = \"client.ip\"\nrates = [\"5 per 1h\"]\ncapacity = 1073741824\n"
        )
    };
    let limits: String = ('a'..='z').map(|name| limit(&name.to_string())).collect();
    let rest = "[[listener]]\naddress = \"127.0.0.1:1\"\n[[route]]\npath = \"/\"\nlimits = [\"a\"]\nrespond = { status = 200 }\n";
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("gateway.toml");
    fs::write(&path, format!("{limits}{rest}")).unwrap();
    let mut process = Process::run(&["check", path.to_str().unwrap()]);
    assert_eq!(process.exit_code().await, 0);
    let told = process.stderr();
    assert!(
        told.contains("the configuration may take") && told.contains("lower the `capacity`"),
        "{told}"
    );
}
