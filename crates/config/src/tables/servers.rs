//! Reads `servers` of an origin: addresses, names and Unix sockets, each with its weight and its role.

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;

use sluicegate_base::bounds::POOL_SERVERS;
use sluicegate_config_derive::Table;
use toml::de::DeValue;

use crate::declaration::{Flag, IntegerIn, ReadBy, TEXT};
use crate::field::{KeyField, all, quoted};
use crate::host;
use crate::problem::ParseError;
use crate::report::PlacedValue;
use crate::rules::{OriginAddress, PoolServer, Role, SocketPath, SocketPathError, Weight};

/// Reads every entry; no two may be equal.
pub(super) fn read(field: &KeyField<'_>) -> Option<Vec<PoolServer>> {
    let elements = field.list()?;
    let mut seen: Vec<PlacedValue<Arc<str>>> = Vec::new();
    let entries = elements.iter().map(|element| {
        let entry = match element.value {
            DeValue::String(text) => ServerEntry {
                address: Arc::from(&**text),
                weight: Weight::default(),
                backup: Role::Primary,
            },
            DeValue::Table(_) => ServerEntry::read(element.section()?)?,
            _ => return element.unexpected("a string or a table"),
        };
        let text = &*entry.address;
        if let Some(earlier) = seen.iter().find(|earlier| *earlier.value == *text) {
            let line = element.report.line_of(&earlier.place);
            let message = format!("{} stands on line {line} already", quoted(text));
            return element.refuse(message, "write each server once: they take turns");
        }
        seen.push(element.placed(Arc::clone(&entry.address)));
        let (name, addresses) = server(element, text)?;
        Some(PoolServer {
            name,
            addresses,
            weight: entry.weight,
            role: entry.backup,
        })
    });
    let entries = all(entries)?;
    if entries.iter().all(|entry| entry.role == Role::Backup) {
        return field.refuse(
            "every server is a backup",
            "a backup is asked while no other server can be: leave `backup` out for those that are asked first",
        );
    }
    let servers: usize = entries.iter().map(|entry| entry.addresses.len()).sum();
    if servers > POOL_SERVERS {
        return field.refuse(
            format!("these are {servers} servers"),
            format!("an origin has at most {POOL_SERVERS}; make several origins of it"),
        );
    }
    Some(entries)
}

/// A server with its weight and its role.
#[derive(Table)]
#[table(path = "origin.NAME.servers[]")]
pub(crate) struct ServerEntry {
    /// Required. An address or a name, with a port, or "unix:" and the path of a socket.
    #[key(example = "\"127.0.0.1:3000\"", reader = ReadBy(|field| field.text().map(Arc::from), TEXT))]
    address: Arc<str>,
    /// Twice the weight is twice the requests, 1 to 256.
    #[key(example = "2", default = Weight::default(), reader = IntegerIn(1..=256))]
    weight: Weight,
    /// True uses the server only while no other can be used.
    #[key(example = "true", default = Role::Primary, reader = Flag(Role::Primary, Role::Backup))]
    backup: Role,
}

/// Returns the name to look up again, where it is one, and the addresses in order.
fn server(element: &KeyField<'_>, text: &str) -> Option<(Option<Arc<str>>, Vec<OriginAddress>)> {
    if let Some(path) = OriginAddress::unix_path(text) {
        return match socket_path(path) {
            Ok(path) => Some((None, vec![OriginAddress::Unix(path)])),
            Err(mistake) => element.mistaken(mistake),
        };
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        if address.port() == 0 || address.ip().is_unspecified() {
            let message = format!("{} is no address to connect to", quoted(text));
            return element.refuse(
                message,
                "write where the origin listens: \"127.0.0.1:3000\"",
            );
        }
        return Some((None, vec![address.into()]));
    }
    if let Err(mistake) = name_and_port(text) {
        return element.mistaken(mistake);
    }
    let environment = element.report.environment;
    match environment.resolve(text) {
        _ if environment.is_offline() => Some((Some(Arc::from(text)), Vec::new())),
        Ok(mut addresses) if !addresses.is_empty() => {
            let has_both = addresses.iter().any(SocketAddr::is_ipv4)
                && addresses.iter().any(SocketAddr::is_ipv6);
            if has_both && text.starts_with("localhost:") {
                let port = addresses.first().map_or(80, SocketAddr::port);
                element.report.warning(
                    &element.place,
                    format!("this name is two servers, [::1]:{port} and 127.0.0.1:{port}"),
                    format!("write the one that the origin listens on: \"127.0.0.1:{port}\""),
                );
            }
            // Resolvers answer in any order, which is no difference to tell two configurations apart by.
            addresses.sort_unstable();
            addresses.dedup();
            let addresses = addresses.into_iter().map(OriginAddress::from);
            Some((Some(Arc::from(text)), addresses.collect()))
        }
        answer => {
            let why = answer
                .err()
                .map_or_else(|| "it has no address".to_owned(), |error| error.to_string());
            element.warn(
                format!("{} does not resolve: {why}", quoted(text)),
                "correct the name, or write an address; meanwhile it keeps the addresses that it had, or gets 503",
            );
            Some((Some(Arc::from(text)), Vec::new()))
        }
    }
}

/// Parses the path behind `unix:`.
fn socket_path(path: &str) -> Result<SocketPath, ParseError> {
    SocketPath::parse(path).map_err(|mistake| {
        let problem = format!("{}: {mistake}", quoted(&format!("unix:{path}")));
        let advice = match mistake {
            SocketPathError::Relative if path.starts_with('@') => {
                "sockets in the abstract namespace have no permissions; let the origin listen on a path"
            }
            SocketPathError::TooLong => {
                "let the origin listen on a shorter path, such as \"unix:/run/app.sock\""
            }
            _ => "write the whole path on which the origin listens: \"unix:/run/app.sock\"",
        };
        ParseError::with_advice(problem, advice)
    })
}

/// Checks the shape of `name:port`, so that the resolver is not asked about slips.
pub(super) fn name_and_port(text: &str) -> Result<(), ParseError> {
    // nginx and others write http://unix:/run/app.sock, and some only the path.
    let path = text.split_once("unix:").map_or(text, |(_, path)| path);
    if path.starts_with('/') {
        return Err(ParseError::with_advice(
            format!("{} is the path of a socket", quoted(text)),
            format!(
                "write {}",
                quoted(&format!("unix:/{}", path.trim_matches(['/', ':'])))
            ),
        ));
    }
    if let Some((scheme, rest)) = text.split_once("://") {
        let server = rest.split('/').next().unwrap_or_default();
        let port = if scheme == "https" { 443 } else { 80 };
        let server = if server.contains(':') {
            server.to_owned()
        } else {
            format!("{server}:{port}")
        };
        return Err(ParseError::with_advice(
            format!("{} is a URL", quoted(text)),
            format!("write the server alone: {}", quoted(&server)),
        ));
    }
    let Some((name, port)) = text.rsplit_once(':') else {
        return Err(ParseError::with_advice(
            format!("{} has no port", quoted(text)),
            format!("write {}", quoted(&format!("{text}:80"))),
        ));
    };
    if text.matches(':').count() > 1
        && text.starts_with(|c: char| c == ':' || c.is_ascii_hexdigit())
    {
        let (address, port) = match name.parse::<Ipv6Addr>() {
            Ok(_) => (name, port),
            Err(_) => (text, "80"),
        };
        return Err(ParseError::with_advice(
            format!("{} has an IPv6 address without brackets", quoted(text)),
            format!("write {}", quoted(&format!("[{address}]:{port}"))),
        ));
    }
    if let Some((server, path)) = text.split_once('/') {
        return Err(ParseError::with_advice(
            format!("{} has a path", quoted(text)),
            format!(
                "write the server alone, {}, and rewrite = {} in a route whose path ends in /*",
                quoted(server),
                quoted(&format!("/{}/{{rest}}", path.trim_matches('/')))
            ),
        ));
    }
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    if !digits || port.parse::<u16>().map_or(true, |port| port == 0) {
        return Err(ParseError::with_advice(
            format!("{} is not a port", quoted(port)),
            format!(
                "write a number from 1 to 65535: {}",
                quoted(&format!("{name}:80"))
            ),
        ));
    }
    host::exact(name)
        .map(|_| ())
        .map_err(|_| ParseError::new(format!("{} is neither an address nor a name", quoted(name))))
}
