//! Declares `[log.syslog]`: the syslog server that access lines are sent to.

use std::path::PathBuf;

use sluicegate_config_derive::Table;

use super::servers::name_and_port;
use crate::declaration::{ChoiceOf, ParsedText};
use crate::field::quoted;
use crate::problem::ParseError;
use crate::rules::SocketPath;

/// A syslog server, with access = "syslog". Each line is a message of RFC 5424 with severity informational and MSGID "access". While the
/// server cannot be reached, lines are kept in memory, then dropped and counted; no request waits.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(path = "log.syslog")]
pub struct SyslogRules {
    /// Required. "unix:" and the path of a datagram socket; "udp://" or "tcp://", a name or an address, and a port. Over TCP each message
    /// follows its length (RFC 6587).
    #[key(
        example = "\"udp://10.0.0.9:514\"",
        shown = "\"unix:/dev/log\"",
        reader = ParsedText(server)
    )]
    pub server: SyslogAddress,
    /// The facility of the messages: "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp",
    /// or "local0" to "local7".
    #[key(
        example = "\"local3\"",
        shown = "\"local0\"",
        default = 16,
        reader = ChoiceOf(&FACILITIES, "{} is no facility of syslog", "write \"daemon\", or \"local0\" to \"local7\"")
    )]
    pub facility: u8,
    /// The name of the program in the messages, 1 to 48 visible characters.
    #[key(example = "\"edge\"", shown = "\"sluicegate\"", default = "sluicegate".into(), reader = ParsedText(app_name))]
    pub app_name: Box<str>,
    /// The name of the machine in the messages, 1 to 255 visible characters. Default: the machine's own.
    #[key(example = "\"edge-1\"", reader = ParsedText(hostname))]
    pub hostname: Option<Box<str>>,
}

/// The address of a syslog server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyslogAddress {
    /// `name:port`.
    Udp(Box<str>),
    /// `name:port`.
    Tcp(Box<str>),
    /// The path of a datagram socket.
    Unix(PathBuf),
}

/// The facilities of RFC 5424, table 1, by the names that syslog.conf gives them.
const FACILITIES: [(&str, u8); 20] = [
    ("kern", 0),
    ("user", 1),
    ("mail", 2),
    ("daemon", 3),
    ("auth", 4),
    ("syslog", 5),
    ("lpr", 6),
    ("news", 7),
    ("uucp", 8),
    ("cron", 9),
    ("authpriv", 10),
    ("ftp", 11),
    ("local0", 16),
    ("local1", 17),
    ("local2", 18),
    ("local3", 19),
    ("local4", 20),
    ("local5", 21),
    ("local6", 22),
    ("local7", 23),
];

const SERVERS: &str = "write \"unix:/dev/log\", \"udp://10.0.0.9:514\" or \"tcp://10.0.0.9:601\"";

fn server(text: &str) -> Result<SyslogAddress, ParseError> {
    let wrong = |why: &str| ParseError::with_advice(format!("{} {why}", quoted(text)), SERVERS);
    if let Some(path) = text.strip_prefix("unix:") {
        // `unix:///dev/log` is the same path by the notation of URLs.
        let path = path.strip_prefix("//").unwrap_or(path);
        let path = SocketPath::parse(path).map_err(|mistake| {
            ParseError::with_advice(format!("{}: {mistake}", quoted(text)), SERVERS)
        })?;
        return Ok(SyslogAddress::Unix(path.as_str().into()));
    }
    let (scheme, place) = text
        .split_once("://")
        .ok_or_else(|| wrong("names no protocol"))?;
    name_and_port(place).map_err(|_| wrong("has no name or address with a port"))?;
    match scheme {
        "udp" => Ok(SyslogAddress::Udp(place.into())),
        "tcp" => Ok(SyslogAddress::Tcp(place.into())),
        _ => Err(wrong("has a protocol that lines are not sent by")),
    }
}

fn app_name(text: &str) -> Result<Box<str>, ParseError> {
    visible(text, 48, "\"sluicegate\"")
}

fn hostname(text: &str) -> Result<Box<str>, ParseError> {
    visible(text, 255, "\"edge-1.example.com\"")
}

/// Parses a word of a message's head (RFC 5424 §6: PRINTUSASCII).
fn visible(text: &str, most: usize, example: &str) -> Result<Box<str>, ParseError> {
    if (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(text.into());
    }
    Err(ParseError::with_advice(
        format!(
            "{} is not 1 to {most} visible characters of ASCII without a space",
            quoted(text)
        ),
        format!("write one such as {example}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: an address is one that lines can be sent to, or says what to write. Method: addresses of each kind, and slips.
    #[test]
    fn an_address_has_a_protocol_and_a_port() {
        for (text, expected) in [
            ("unix:/dev/log", SyslogAddress::Unix("/dev/log".into())),
            ("unix:///dev/log", SyslogAddress::Unix("/dev/log".into())),
            (
                "udp://10.0.0.9:514",
                SyslogAddress::Udp("10.0.0.9:514".into()),
            ),
            (
                "tcp://[fd00::1]:601",
                SyslogAddress::Tcp("[fd00::1]:601".into()),
            ),
            ("udp://log_1:514", SyslogAddress::Udp("log_1:514".into())),
            (
                "tcp://logs.internal:601",
                SyslogAddress::Tcp("logs.internal:601".into()),
            ),
        ] {
            assert_eq!(server(text).ok(), Some(expected), "{text}");
        }
        for slip in [
            "",
            "unix:",
            "unix:log",
            "/dev/log",
            "10.0.0.9:514",
            "udp://10.0.0.9",
            "udp://:514",
            "udp://a:0",
            "udp://a:+514",
            "udp://*.a:514",
            "unix:/run/",
            "udp://a:70000",
            "tls://a:6514",
            "udp://fd00::1:514",
            "udp://u@a:514",
            "udp://a:514/x",
        ] {
            assert!(server(slip).is_err(), "{slip}");
        }
        assert!(app_name("two words").is_err());
        assert!(app_name(&"x".repeat(49)).is_err());
        assert!(hostname("").is_err());
    }
}
