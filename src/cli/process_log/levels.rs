//! Decides which lines are written: the levels of `SLUICEGATE_LOG`, and the default levels of libraries.
//!
//! ```text
//! levels    = directive { "," directive }
//! directive = level | module "=" level
//! level     = "off" | "error" | "warn" | "info" | "debug" | "trace"
//! ```
//!
//! A level without a module is that of every module that has none of its own; without one the command decides. A directive applies
//! to the modules below its own; where two apply, the longer name wins. A part of the gateway that is a crate, such as `sluicegate_origin`,
//! goes by the name of a module, `sluicegate::origin`, as in the lines. The language of `tracing-subscriber` has more (spans,
//! fields), and takes a word that is no level for the name of a module at level `trace`: `SLUICEGATE_LOG=inof` would then write
//! nothing, so it is an error here.

use std::fmt;

use tracing_subscriber::filter::{Directive, EnvFilter, LevelFilter};

/// The maximum levels of libraries, unless the operator names them, or sets a lower level for all.
///
/// The gateway itself logs a client's errors, rarely and with the address (`sluicegate_record::NoticeThrottle`), and the result of a
/// request is in the access log. The libraries log both too, as errors, once for each occurrence, so any client can cause lines:
/// - `pingora_core::apps` and `::protocols`: every failed handshake of HTTP/2, every answer that a client does not read.
/// - `pingora_core::connectors`: idle connections to origins that are requested while they are checked, which costs a new
///   connection and nothing else, and connections that were closed, without the name of their server.
/// - `rustls`: alerts, and invalid names, of every client. The reason of a failed handshake is logged by the gateway, with the
///   address.
/// - `notify`: every directory that is removed, as one is whenever Kubernetes swaps a config map. `process::watch` logs what it
///   cannot watch.
/// - `h2`: each invalid frame of a client, such as acknowledgments of pings that were not sent.
/// - `quinn_proto`: packets of clients that cannot be read, and connections that end.
/// - `hyper` talks to ACME servers only; `acme` logs the results.
const LIBRARIES: [(&str, LevelFilter); 10] = [
    ("pingora", LevelFilter::WARN),
    ("pingora_core::apps", LevelFilter::OFF),
    ("pingora_core::protocols", LevelFilter::OFF),
    ("pingora_core::connectors", LevelFilter::OFF),
    ("rustls", LevelFilter::OFF),
    ("notify", LevelFilter::OFF),
    ("h2", LevelFilter::OFF),
    ("quinn_proto", LevelFilter::OFF),
    // What the system cannot do, once.
    ("quinn_udp", LevelFilter::WARN),
    ("hyper", LevelFilter::WARN),
];

/// A part of the text that is no directive.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cli) struct BadLevels {
    part: String,
    why: LevelError,
}

#[derive(Debug, PartialEq, Eq)]
enum LevelError {
    /// It has no `=`, and is no level.
    NoLevel,
    /// The text after `=` is not a level.
    UnknownLevel,
    /// The text before `=` cannot be a module.
    NoModule,
}

impl fmt::Display for BadLevels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = &self.part;
        match self.why {
            LevelError::NoLevel => write!(f, "{part:?} is no level")?,
            LevelError::UnknownLevel => write!(f, "{part:?} does not end in a level")?,
            LevelError::NoModule => write!(f, "{part:?} does not begin with the name of a module")?,
        }
        f.write_str(
            "; write off, error, warn, info, debug or trace, or levels by module as in \
             \"info,sluicegate::store=debug\"",
        )
    }
}

/// Returns the filter of a text; `usual` is the level of modules where the text has none for them.
///
/// # Errors
/// The first part that is no directive.
pub(super) fn directives(text: &str, usual: LevelFilter) -> Result<EnvFilter, BadLevels> {
    let mut rest = usual;
    let mut modules = Vec::new();
    for part in text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        match part.split_once('=') {
            None => rest = level(part).ok_or_else(|| bad(part, LevelError::NoLevel))?,
            Some((module, _)) if !is_module(module.trim()) => {
                return Err(bad(part, LevelError::NoModule));
            }
            Some((module, wanted)) => {
                let wanted = level(wanted).ok_or_else(|| bad(part, LevelError::UnknownLevel))?;
                let module = module.trim();
                modules.push((module.to_owned(), wanted));
                let part = module.strip_prefix("sluicegate::");
                modules.extend(part.map(|part| (format!("sluicegate_{part}"), wanted)));
            }
        }
    }
    // A directive that names a library, or its whole family, overrides the default.
    let is_named = |library: &str| {
        modules
            .iter()
            .any(|(module, _)| library.starts_with(&**module))
    };
    let libraries = LIBRARIES
        .into_iter()
        .filter(|(library, _)| !is_named(library))
        .map(|(library, most)| (library.to_owned(), most.min(rest)));
    let filter = EnvFilter::builder()
        .with_default_directive(rest.into())
        .parse_lossy("");
    let each = libraries.chain(modules.iter().cloned());
    Ok(each.fold(filter, |filter, (module, level)| {
        match format!("{module}={level}").parse::<Directive>() {
            Ok(directive) => filter.add_directive(directive),
            // A name of letters, digits, `_` and `:` is a target.
            Err(_) => filter,
        }
    }))
}

fn bad(part: &str, why: LevelError) -> BadLevels {
    BadLevels {
        part: part.to_owned(),
        why,
    }
}

fn level(word: &str) -> Option<LevelFilter> {
    Some(match word.trim().to_ascii_lowercase().as_str() {
        "off" => LevelFilter::OFF,
        "error" => LevelFilter::ERROR,
        "warn" => LevelFilter::WARN,
        "info" => LevelFilter::INFO,
        "debug" => LevelFilter::DEBUG,
        "trace" => LevelFilter::TRACE,
        _ => return None,
    })
}

/// Returns whether a text can be the path of a module.
fn is_module(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the directives in force, sorted, as `tracing-subscriber` writes them.
    fn filter(text: &str) -> Vec<String> {
        let filter = directives(text, LevelFilter::INFO).expect(text).to_string();
        let mut all: Vec<String> = filter.split(',').map(str::to_owned).collect();
        all.sort();
        all
    }

    /// Goal: libraries are quiet by default, and a level for all does not change that. Method: both.
    #[test]
    fn libraries_keep_their_levels_unless_they_are_named() {
        for (text, rest) in [
            ("", "info"),
            ("debug", "debug"),
            ("sluicegate::store=trace", "info"),
        ] {
            let all = filter(text);
            for directive in [
                rest,
                "pingora=warn",
                "rustls=off",
                "h2=off",
                "quinn_proto=off",
            ] {
                assert!(all.iter().any(|one| one == directive), "{text:?}: {all:?}");
            }
        }
    }

    /// Goal: a directive that names a library applies to it and its modules. Method: a family, a part of it, and a level below
    /// the library's own.
    #[test]
    fn a_named_library_is_logged() {
        let all = filter("pingora_core=info");
        assert!(
            !all.iter().any(|one| one.starts_with("pingora_core::")),
            "{all:?}"
        );
        assert!(all.contains(&"rustls=off".to_owned()), "{all:?}");
        let all = filter("warn, pingora_core::apps = DEBUG");
        assert!(
            all.contains(&"pingora_core::apps=debug".to_owned()),
            "{all:?}"
        );
        assert!(
            all.contains(&"pingora_core::protocols=off".to_owned()),
            "{all:?}"
        );
        assert!(filter("error").contains(&"pingora=error".to_owned()));
        assert!(filter("off").contains(&"pingora=off".to_owned()));
    }

    /// Goal: a part of the gateway has one name, whether it is a module or a crate. Method: the directives of one.
    #[test]
    fn a_crate_goes_by_the_name_of_a_module() {
        let all = filter("warn,sluicegate::origin::pool=debug");
        for directive in [
            "sluicegate::origin::pool=debug",
            "sluicegate_origin::pool=debug",
        ] {
            assert!(all.contains(&directive.to_owned()), "{all:?}");
        }
    }

    /// Goal: every error is reported with the part of the text. Method: one of each kind.
    #[test]
    fn an_error_names_its_part() {
        for (text, part, why) in [
            ("inof", "inof", LevelError::NoLevel),
            (
                "info,sluicegate::store",
                "sluicegate::store",
                LevelError::NoLevel,
            ),
            ("info,store=loud", "store=loud", LevelError::UnknownLevel),
            ("store=", "store=", LevelError::UnknownLevel),
            ("=debug", "=debug", LevelError::NoModule),
            ("info,[span]=debug", "[span]=debug", LevelError::NoModule),
            ("info/regex", "info/regex", LevelError::NoLevel),
        ] {
            let error = directives(text, LevelFilter::INFO).expect_err(text);
            assert_eq!(error, bad(part, why));
        }
    }
}
