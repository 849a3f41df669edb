//! Finds the Chromium of this machine, and lists the arguments with which tests start one: no window, and nothing but the page.

use std::env;
use std::path::PathBuf;

/// The names of its command, by system.
pub(crate) const NAMES: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];

/// The arguments of every test.
pub(crate) const ARGUMENTS: [&str; 10] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
];

/// Returns the first of [`NAMES`] on the path.
pub(crate) fn find() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = env::split_paths(&path).collect();
    let mut candidates = NAMES
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    candidates.find(|path| path.is_file())
}
