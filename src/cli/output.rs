//! Writes the texts of a command to the standard output, and its messages to the standard error.

use std::io::Write;

use sluicegate_telemetry::terminal_text::printable_lines;

/// Writes a text to the standard output. Texts of clients and of other operators in it do not act on the terminal.
pub(super) fn print(text: &str) -> std::io::Result<()> {
    std::io::stdout().write_all(printable_lines(text).as_bytes())
}

/// Writes a line for the operator to the standard error. Texts of clients and of other operators in it do not act on the terminal.
#[expect(
    clippy::print_stderr,
    reason = "the command line talks to its operator"
)]
pub(super) fn tell(message: &dyn std::fmt::Display) {
    eprintln!("{}", printable_lines(&message.to_string()));
}
