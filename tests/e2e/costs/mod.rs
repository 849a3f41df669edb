//! Costs that are known late: measured by the gateway at the end of a request, or read out of the answer, with a reserve until then.

mod announced;
mod fetched;
mod measured;
mod tokens;

use crate::harness::*;

/// A limit `a` with these lines before everything that `app` answers.
fn limited(lines: &str) -> String {
    format!(
        "[limit.a]\nkey = \"client.ip\"\n{lines}\n[[route]]\npath = \"/*\"\nlimits = [\"a\"]\norigin = \"app\"\n"
    )
}
