//! `[log]`: the access log.

use std::path::Path;

use crate::config::rules::{AccessLogTarget, LogRules, LoggedKeys};
use crate::config::section::Section;

/// Reads the table; relative paths begin at `base`, the directory of the configuration.
pub(in crate::config) fn read(section: Section<'_>, base: &Path) -> Option<LogRules> {
    let access = section.or("access", "\"stdout\"", AccessLogTarget::Stdout, |field| {
        match field.text()? {
            "stdout" => Some(AccessLogTarget::Stdout),
            "off" => Some(AccessLogTarget::Off),
            path if path.is_empty() || path.ends_with('/') || path.contains('\0') => field.refuse(
                "this is not the path of a file",
                "write \"stdout\", \"off\" or \"/var/log/sluicegate/access.log\"",
            ),
            // A word without a slash or dot is more likely a slip than a file in the working directory.
            word if !word.contains(['/', '.']) => field.refuse(
                format!("{word:?} is neither \"stdout\" nor \"off\""),
                format!("write one of them, or \"./{word}\" if a file is meant"),
            ),
            path => Some(AccessLogTarget::File(base.join(path))),
        }
    });
    let keys = section.or("keys", "\"hash\"", LoggedKeys::Hash, |field| {
        match field.text()? {
            "hash" => Some(LoggedKeys::Hash),
            "masked" => Some(LoggedKeys::Masked),
            "plain" => Some(LoggedKeys::Plain),
            other => field.refuse(
                format!("{other:?} is no way to log keys"),
                "write \"hash\", \"masked\" or \"plain\"",
            ),
        }
    });
    section.finish();
    Some(LogRules {
        access: access?,
        keys: keys?,
    })
}
