//! Load by an independent client of HTTP/2.

use std::process::Command;

/// Runs h2load with these arguments, and returns its report.
pub async fn h2load(arguments: &[&str]) -> String {
    let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    let load = tokio::task::spawn_blocking(move || {
        Command::new("h2load")
            .args(arguments)
            .output()
            .unwrap_or_else(|error| panic!("h2load ({error}); `./dev test` installs it"))
    });
    let output = load.await.unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}
