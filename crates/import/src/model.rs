//! The configuration in the words of Sluicegate, before it is written as TOML. No other proxy is known here.

mod limits;

use sluicegate_base::path::PathCase;

pub use self::limits::{KeyPart, Limit, LimitAction, LimitAlgorithm};
use crate::bounds;
use crate::ledger::EntryId;
use crate::own_fields::EditKind;

/// A whole configuration.
#[derive(Clone, Debug, Default)]
pub struct GatewayModel {
    /// Keys of `[server]`.
    pub server: Vec<(&'static str, String)>,
    /// The directives that `server` is made of.
    pub server_sources: Vec<EntryId>,
    /// Keys of `[log]` with their values in TOML.
    pub log: Vec<(&'static str, String)>,
    /// The directives that `log` is made of.
    pub log_sources: Vec<EntryId>,
    /// The proxies in front.
    pub client: ClientRules,
    /// Where clients connect.
    pub listeners: Vec<Listener>,
    /// Keys of `[acme]` with their values in TOML.
    pub acme: Vec<(&'static str, String)>,
    /// The directives that `acme` is made of.
    pub acme_sources: Vec<EntryId>,
    /// Lists of clients.
    pub lists: Vec<ClientList>,
    /// Where requests go.
    pub origins: Vec<Origin>,
    /// The limits.
    pub limits: Vec<Limit>,
    /// Which requests.
    pub routes: Vec<Route>,
}

impl GatewayModel {
    /// Sets a key of `[server]`, which holds for all listeners.
    ///
    /// # Errors
    ///
    /// The reason: another line has set another value.
    pub(crate) fn set_server(
        &mut self,
        key: &'static str,
        value: String,
        sources: impl IntoIterator<Item = EntryId>,
    ) -> Result<(), String> {
        match self.server.iter().find(|(known, _)| *known == key) {
            Some((_, known)) if *known != value => {
                return Err(format!(
                    "{key} of [server] is {known} for all listeners, as another line says"
                ));
            }
            Some(_) => {}
            None => self.server.push((key, value)),
        }
        self.server_sources.extend(sources);
        Ok(())
    }
}

/// Comments of a table: the directives that it is made of, and what it means otherwise than they do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableRemarks {
    /// The directives.
    pub sources: Vec<EntryId>,
    /// The differences, a sentence each.
    pub differences: Vec<String>,
}

/// `[client]`.
#[derive(Clone, Debug, Default)]
pub struct ClientRules {
    /// Comments.
    pub remarks: TableRemarks,
    /// Blocks of addresses whose word about the client is believed.
    pub trusted_proxies: Vec<String>,
    /// The field in which they name the client.
    pub header: Option<String>,
    /// Lists of clients that are refused on every route.
    pub block: Vec<String>,
}

/// `[[listener]]`.
#[derive(Clone, Debug, Default)]
pub struct Listener {
    /// Comments.
    pub remarks: TableRemarks,
    /// IP address and port.
    pub address: String,
    /// Its name, where routes refer to it.
    pub name: Option<String>,
    /// Blocks of the proxies that announce clients by the PROXY protocol, where it is required.
    pub proxy_protocol_from: Option<Vec<String>>,
    /// Redirects to HTTPS.
    pub redirect_to_https: Option<String>,
    /// Files of certificate and key.
    pub certificates: Vec<(String, String)>,
    /// Names whose certificates are ordered.
    pub acme: Vec<String>,
    /// The file of the authorities of client certificates.
    pub client_ca: Option<String>,
    /// Further keys of `tls` with texts.
    pub tls: Vec<(&'static str, &'static str)>,
}

/// Returns the files of a certificate and its key that the operator has to name: without them a listener would be in clear text.
#[must_use]
pub fn placeholder_pair() -> (String, String) {
    ("tls.pem".to_owned(), "tls.key".to_owned())
}

/// `[list.NAME]`.
#[derive(Clone, Debug)]
pub struct ClientList {
    /// Its name.
    pub name: String,
    /// Comments.
    pub remarks: TableRemarks,
    /// Blocks of addresses.
    pub cidrs: Vec<String>,
    /// A file with further ones.
    pub file: Option<String>,
}

/// `[origin.NAME]`.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// Its name.
    pub name: String,
    /// Comments.
    pub remarks: TableRemarks,
    /// Its servers.
    pub servers: Vec<Server>,
    /// `protocol`, where it is not the default.
    pub protocol: Option<&'static str>,
    /// `balance`, where it is not the default.
    pub balance: Option<&'static str>,
    /// `hash_key`.
    pub hash_key: Option<String>,
    /// The Host that is sent, where it is not that of the client.
    pub host: Option<String>,
    /// `tls`, as an inline table.
    pub tls: Option<String>,
    /// Keys of `timeouts`.
    pub timeouts: Vec<(&'static str, String)>,
    /// Connections open to each server.
    pub max_connections: Option<u64>,
    /// Keys of `health`.
    pub health: Option<Vec<(&'static str, String)>>,
    /// Further keys, as TOML.
    pub keys: Vec<(&'static str, String)>,
}

impl Origin {
    /// Returns true if it differs from another origin in nothing but the name and the remarks.
    pub(crate) fn serves_as(&self, other: &Self) -> bool {
        let Self {
            name: _,
            remarks: _,
            servers,
            protocol,
            balance,
            hash_key,
            host,
            tls,
            timeouts,
            max_connections,
            health,
            keys,
        } = self;
        *servers == other.servers
            && *protocol == other.protocol
            && *balance == other.balance
            && *hash_key == other.hash_key
            && *host == other.host
            && *tls == other.tls
            && *timeouts == other.timeouts
            && *max_connections == other.max_connections
            && *health == other.health
            && *keys == other.keys
    }

    /// Makes one server of those with the same address: it gets the sum of their weights. A backup that is no other server goes.
    pub fn merge_servers(&mut self) {
        let mut merged: Vec<Server> = Vec::new();
        for server in self.servers.drain(..) {
            let same =
                |it: &&mut Server| it.address == server.address && it.backup == server.backup;
            match merged.iter_mut().find(same) {
                Some(known) => {
                    let weight = known.weight.unwrap_or(1) + server.weight.unwrap_or(1);
                    known.weight = Some(weight.min(bounds::SERVER_WEIGHT));
                }
                None => merged.push(server),
            }
        }
        let is_primary = |it: &Server| !it.backup;
        let primaries: Vec<String> = merged
            .iter()
            .filter(|it| is_primary(it))
            .map(|it| it.address.clone())
            .collect();
        merged.retain(|it| is_primary(it) || !primaries.contains(&it.address));
        self.servers = merged;
    }
}

/// A server of an origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Server {
    /// Name or address, with a port.
    pub address: String,
    /// `weight`, where it is not 1.
    pub weight: Option<u64>,
    /// True if it is asked only while no other can be.
    pub backup: bool,
}

/// The action of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteAction {
    /// The request is forwarded to the origin of this name.
    Forward {
        /// The origin.
        origin: String,
        /// `strip_prefix`.
        strip_prefix: Option<String>,
        /// `rewrite`.
        rewrite: Option<String>,
    },
    /// The gateway answers.
    Respond {
        /// The status.
        status: u16,
        /// The body.
        body: String,
    },
    /// The client is sent elsewhere.
    Redirect {
        /// The URL.
        to: String,
        /// The status.
        status: u16,
    },
}

impl RouteAction {
    /// Returns an answer without a body.
    pub(crate) fn empty_answer(status: u16) -> Self {
        Self::Respond {
            status,
            body: String::new(),
        }
    }

    /// Returns true if it refuses requests, by whatever status.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Self::Respond { status, .. } if *status >= 400)
    }
}

/// A field or a parameter that a request must have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RouteValue {
    /// The key of the route: `headers` or `query`.
    pub key: &'static str,
    /// The field or the parameter.
    pub name: String,
    /// The value; `*` is any value of a parameter.
    pub value: String,
}

impl RouteValue {
    /// Returns true if a request with the other value has this one.
    pub(crate) fn takes(&self, other: &Self) -> bool {
        let is_same = self.key == other.key && self.name == other.name;
        is_same && (self.value == other.value || self.value == "*")
    }
}

/// Edits of the fields of requests or responses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldEdits {
    /// Fields with the value that takes the place of all others.
    pub set: Vec<(String, String)>,
    /// Fields with a value that joins the others.
    pub add: Vec<(String, String)>,
    /// Fields that are removed.
    pub remove: Vec<String>,
}

/// Sets a key of a table, whatever value it had: of two lines the later one holds.
pub(crate) fn set_key<V>(keys: &mut Vec<(&'static str, V)>, key: &'static str, value: V) {
    match keys.iter_mut().find(|(known, _)| *known == key) {
        Some((_, known)) => *known = value,
        None => keys.push((key, value)),
    }
}

/// The reason for which a second value of a field is left out.
const ADDED_TWICE: &str =
    "`add` of a route has one value for each field, and another value is added to this one";

impl FieldEdits {
    /// Applies an edit that comes after these.
    ///
    /// # Errors
    ///
    /// Another value is added to the field.
    pub(crate) fn apply(
        &mut self,
        kind: EditKind,
        name: &str,
        value: &str,
    ) -> Result<(), &'static str> {
        match kind {
            EditKind::Set => self.set_value(name, value),
            EditKind::Add => return self.add_value(name, value),
            EditKind::Remove => self.remove_field(name),
        }
        Ok(())
    }

    /// Sets a field, whatever edits of it came before. White space at an end of a value is lost on its way in any case.
    pub(crate) fn set_value(&mut self, name: &str, value: &str) {
        self.forget(name);
        self.set.push((name.to_owned(), value.trim().to_owned()));
    }

    /// Removes a field, whatever edits of it came before.
    pub(crate) fn remove_field(&mut self, name: &str) {
        self.forget(name);
        self.remove.push(name.to_owned());
    }

    /// Adds a value to a field.
    ///
    /// # Errors
    ///
    /// Another value is added to it.
    pub(crate) fn add_value(&mut self, name: &str, value: &str) -> Result<(), &'static str> {
        let value = value.trim();
        match self.add.iter().find(|(known, _)| known == name) {
            Some((_, known)) if known == value => Ok(()),
            Some(_) => Err(ADDED_TWICE),
            None => {
                self.add.push((name.to_owned(), value.to_owned()));
                Ok(())
            }
        }
    }

    /// Sets and removes fields as edits do that come after these.
    pub(crate) fn replace_values(&mut self, later: &Self) {
        later.remove.iter().for_each(|name| self.remove_field(name));
        for (name, value) in &later.set {
            self.set_value(name, value);
        }
    }

    /// Adds edits that come after these.
    ///
    /// # Errors
    ///
    /// Both add a value to a field; the first value stays.
    pub(crate) fn extend(&mut self, later: &Self) -> Result<(), &'static str> {
        self.replace_values(later);
        let mut result = Ok(());
        for (name, value) in &later.add {
            result = result.and(self.add_value(name, value));
        }
        result
    }

    fn forget(&mut self, name: &str) {
        self.set.retain(|(known, _)| known != name);
        self.add.retain(|(known, _)| known != name);
        self.remove.retain(|known| known != name);
    }
}

/// `[[route]]`.
#[derive(Clone, Debug)]
pub struct Route {
    /// Comments.
    pub remarks: TableRemarks,
    /// `host`, where not every host is meant.
    pub host: Option<String>,
    /// `path`.
    pub path: String,
    /// The treatment of case by the other proxy, and `ignore_case` in the end.
    pub case: PathCase,
    /// Listeners by name, where not every one is meant.
    pub listeners: Vec<String>,
    /// Methods, where not every method is meant.
    pub methods: Vec<String>,
    /// Fields and parameters with their values.
    pub values: Vec<RouteValue>,
    /// Blocks of clients.
    pub client: Vec<String>,
    /// Limits by name.
    pub limits: Vec<String>,
    /// Lists of clients that skip these limits.
    pub allow: Vec<String>,
    /// Lists of clients that are refused.
    pub block: Vec<String>,
    /// The action.
    pub action: RouteAction,
    /// `max_body_bytes`.
    pub max_body: Option<String>,
    /// `request_headers`.
    pub request_fields: FieldEdits,
    /// `response_headers`.
    pub response_fields: FieldEdits,
    /// The status of refusals on this route, where it is not that of its limits.
    pub status: Option<u16>,
    /// Further keys, as TOML.
    pub keys: Vec<(&'static str, String)>,
}

impl Route {
    /// Returns a route without conditions but the path, and without limits.
    #[must_use]
    pub fn new(path: String, action: RouteAction) -> Self {
        Self {
            remarks: TableRemarks::default(),
            host: None,
            path,
            case: PathCase::Kept,
            listeners: Vec::new(),
            methods: Vec::new(),
            values: Vec::new(),
            client: Vec::new(),
            limits: Vec::new(),
            allow: Vec::new(),
            block: Vec::new(),
            action,
            max_body: None,
            request_fields: FieldEdits::default(),
            response_fields: FieldEdits::default(),
            status: None,
            keys: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a server that stands twice gets twice the requests. Method: equal addresses with and without a weight, one of them as backup,
    /// and a backup of its own.
    #[test]
    fn servers_with_one_address_are_one() {
        let server = |address: &str, weight, backup| Server {
            address: address.to_owned(),
            weight,
            backup,
        };
        let mut origin = Origin {
            servers: vec![
                server("a:1", None, false),
                server("b:1", Some(255), false),
                server("a:1", None, false),
                server("b:1", Some(9), false),
                server("a:1", None, true),
                server("c:1", None, true),
            ],
            ..Origin::default()
        };
        origin.merge_servers();
        assert_eq!(
            origin.servers,
            [
                server("a:1", Some(2), false),
                server("b:1", Some(256), false),
                server("c:1", None, true),
            ]
        );
    }
}
