//! Declares `[store]`: where the counters of several gateways are.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_base::pki::{Tls, TlsError, TlsTexts};
use sluicegate_base::secret::Secret;
use sluicegate_config_derive::Table;

use super::store_login::{LoginExamples, LoginKeys};
use crate::declaration::{DurationIn, Flag, IntegerIn, ReadBy};
use crate::field::{KeyField, all, quoted, text_of};
use crate::form::ValueKind;
use crate::hex::hex_bytes;
use crate::report::{KeyPlace, PlacedValue};
use crate::rules::{ReadyWhen, StoreLogin, StoreNode, StoreSeed, StoreTopology};
use crate::section::TableSection;
use crate::store_url::{self, StoreScheme, StoreUrl};

pub(crate) const EXAMPLE: &str = "{ url = \"redis://127.0.0.1:6379\" }";

const CLUSTER: &str = "[\"10.0.0.1:6379\", \"10.0.0.2:6379\"]";
const SENTINEL: &str = "{ master = \"gateway\", nodes = [\"10.0.0.1:26379\", \"10.0.0.2:26379\"] }";

const OF_STORE: LoginExamples = LoginExamples {
    file: "\"/etc/sluicegate/store-password\"",
    variable: "\"STORE_PASSWORD\"",
};
const OF_SENTINELS: LoginExamples = LoginExamples {
    file: "\"/etc/sluicegate/sentinel-password\"",
    variable: "\"SENTINEL_PASSWORD\"",
};

/// Characters of a prefix: it stands before every key.
const LONGEST_PREFIX: usize = 64;

/// Shortest and longest time to connect, and between two exchanges with the store.
const WAIT: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);

/// The store of counters that several gateways share.
#[derive(Clone, Debug, PartialEq, Table)]
#[table(path = "store")]
pub struct StoreRules {
    /// The place of the store, and the way into it.
    #[part(read = access, keys = Vec::new)]
    pub access: StoreAccess,
    /// The prefix of every key in the store, 1 to 64 of the characters a-z A-Z 0-9 _ - . : / ; fleets with different prefixes share
    /// nothing.
    #[key(
        example = "\"sluicegate\"",
        default = "sluicegate".to_owned(),
        reader = ReadBy(prefix, &[ValueKind::String])
    )]
    pub prefix: String,
    /// The maximum duration of one call that decides a limit with store = "shared-strict", 1ms to 5s. After it `on_store_failure` applies
    /// to the request; to a store whose answers take longer none is sent.
    #[key(
        example = "\"20ms\"",
        default = Duration::from_millis(20),
        reader = DurationIn(Duration::from_millis(1)..=Duration::from_secs(5))
    )]
    pub timeout: Duration,
    /// The maximum duration of connecting, 10ms to 60s. No request waits for one.
    #[key(example = "\"1s\"", default = Duration::from_secs(1), reader = DurationIn(WAIT))]
    pub connect_timeout: Duration,
    /// The interval at which limits with store = "shared" exchange their counts with the store, 10ms to 60s. Between two exchanges gateways
    /// do not see the charges of each other: docs/fleet.md says by how much they may exceed a limit.
    #[key(example = "\"250ms\"", default = Duration::from_millis(250), reader = DurationIn(WAIT))]
    pub sync_interval: Duration,
    /// The maximum duration of one exchange with the store and of a heartbeat, for which no request waits, 10ms to 60s; `timeout` where
    /// that is longer. It exceeds the round trip to the store. An exchange without an answer for so long makes the store unavailable.
    #[key(example = "\"2s\"", default = Duration::from_secs(2), reader = DurationIn(WAIT))]
    pub sync_timeout: Duration,
    /// The number of gateways that share the store, 1 to 100000: a gateway that starts while the store is unavailable admits its share by
    /// it, or by the number that `state_dir` or an upgrade remembers, if that is larger. Once the store is reached its number holds.
    #[key(
        example = "3",
        shown = "1",
        default = 1,
        reader = IntegerIn(1..=100_000)
    )]
    pub gateways: u32,
    /// A file with 32 hexadecimal digits: the secret under which keys are hashed, the same on all gateways: openssl rand -hex 16. Default:
    /// generated once and kept in the store, whose readers can then test whether a guessed key has counters.
    #[key(
        example = "\"/etc/sluicegate/store-secret\"",
        shown = "\"store-secret\"",
        reader = ReadBy(seed, &[ValueKind::String])
    )]
    pub secret_file: Option<StoreSeed>,
    /// True makes /readyz fail until the store, with each master of a Cluster, was reached for the first time; a later outage does not
    /// change it.
    #[key(
        example = "true",
        shown = "false",
        default = ReadyWhen::Serving,
        reader = Flag(ReadyWhen::Serving, ReadyWhen::Connected)
    )]
    pub required_for_ready: ReadyWhen,
}

/// The place of the store, and the way into it.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreAccess {
    /// The way to its servers.
    pub topology: StoreTopology,
    /// The gateway's name and password there.
    pub login: StoreLogin,
    /// The encryption of connections; `None`: none.
    pub tls: Option<Tls>,
}

fn access(section: &TableSection<'_>) -> Option<StoreAccess> {
    let url = section.field("url", "\"redis://127.0.0.1:6379\"");
    let (sentinel_at, sentinel) = section.table("sentinel", SENTINEL);
    let master = sentinel.field("master", "\"gateway\"");
    let nodes = sentinel.field("nodes", "[\"10.0.0.1:26379\", \"10.0.0.2:26379\"]");
    let theirs = LoginKeys::read(&sentinel, OF_SENTINELS);
    let sentinels = sentinel_at.map(|place| of_sentinel(&place, master, nodes, theirs, &sentinel));
    sentinel.finish();
    let cluster = section.field("cluster", CLUSTER);

    let written = LoginKeys::read(section, OF_STORE);
    let written_url = url.as_ref().and_then(KeyField::written_text);
    let by_scheme = written_url.is_some_and(|url| url.starts_with("rediss://"));
    let (tls_at, tls) = tls(section, by_scheme.then_some(StoreScheme::Tls));
    let found = match (url, sentinels, cluster) {
        (Some(field), None, None) => of_url(&field, tls_at, written.user.as_ref()),
        (None, Some(topology), None) => topology.map(StoreTarget::without_url),
        (None, None, Some(field)) => {
            nodes_of(&field).map(|nodes| StoreTarget::without_url(StoreTopology::Cluster { nodes }))
        }
        (None, None, None) => {
            section.report.absent(
                &section.place,
                "nothing is said about where the store is",
                format!("write url = \"redis://127.0.0.1:6379\", sentinel = {SENTINEL}, or cluster = {CLUSTER}"),
            );
            None
        }
        _ => {
            section.report.error(
                &section.place,
                "a store is found by one of `url`, `sentinel` and `cluster`, and here are several",
                "keep one of them",
            );
            None
        }
    };
    let found = found?;
    let login = written.together(found.user, section.report, &section.place)?;
    Some(StoreAccess {
        topology: found.topology,
        login,
        tls: tls?,
    })
}

/// The way to the servers of the store, and the user that a URL names.
struct StoreTarget {
    topology: StoreTopology,
    user: Option<String>,
}

impl StoreTarget {
    fn without_url(topology: StoreTopology) -> Self {
        Self {
            topology,
            user: None,
        }
    }
}

/// Turns a value that is not written into a right one; what is written may be wrong.
pub(super) fn flipped<T>(read: Option<Option<T>>) -> Option<Option<T>> {
    match read {
        None => Some(None),
        Some(value) => value.map(Some),
    }
}

fn of_url(
    field: &KeyField<'_>,
    tls: Option<KeyPlace>,
    written_user: Option<&KeyField<'_>>,
) -> Option<StoreTarget> {
    let StoreUrl {
        address,
        database,
        user,
        scheme,
    } = field.parsed(store_url::url)?;
    if let Some(tls) = tls
        && scheme != StoreScheme::Tls
    {
        let advice = match scheme {
            StoreScheme::Plain => "write rediss:// in the URL, or leave tls out",
            _ => "leave tls out: a socket leaves the machine to nobody",
        };
        field
            .report
            .error(&tls, "the URL asks for a connection without TLS", advice);
        return None;
    }
    if let (Some(_), Some(written)) = (&user, written_user) {
        return written.refuse("the URL names a user too", "name the user in one place");
    }
    Some(StoreTarget {
        topology: StoreTopology::Single { address, database },
        user,
    })
}

fn of_sentinel(
    place: &KeyPlace,
    master: Option<KeyField<'_>>,
    nodes: Option<KeyField<'_>>,
    written: LoginKeys<'_>,
    section: &TableSection<'_>,
) -> Option<StoreTopology> {
    if master.is_none() || nodes.is_none() {
        let which = if master.is_none() { "master" } else { "nodes" };
        section.report.absent(
            place,
            format!("`{which}` is missing"),
            format!("write sentinel = {SENTINEL}"),
        );
    }
    let nodes = nodes.map(|field| nodes_of(&field));
    let login = written.together(None, section.report, place);
    let master = master?;
    let name = match master.text()? {
        "" => {
            return master.refuse(
                "the master has no name",
                "write the name of `sentinel monitor NAME …`",
            );
        }
        name => name.to_owned(),
    };
    Some(StoreTopology::Sentinel {
        master: name,
        nodes: nodes??,
        login: login?,
    })
}

/// Reads hosts with ports, each once.
fn nodes_of(field: &KeyField<'_>) -> Option<Vec<StoreNode>> {
    let elements = field.list()?;
    let mut seen: Vec<PlacedValue<StoreNode>> = Vec::new();
    let nodes = elements.iter().map(|element| {
        let node = element.parsed(store_url::host_port)?;
        if let Some(earlier) = seen.iter().find(|earlier| earlier.value == node) {
            let line = element.report.line_of(&earlier.place);
            return element.refuse(
                format!("{node} stands on line {line} already"),
                "write each node once",
            );
        }
        seen.push(element.placed(node.clone()));
        Some(node)
    });
    all(nodes.collect::<Vec<_>>())
}

fn tls(
    section: &TableSection<'_>,
    asked: Option<StoreScheme>,
) -> (Option<KeyPlace>, Option<Option<Tls>>) {
    let (place, table) = section.table("tls", "{ ca_file = \"/etc/sluicegate/store-ca.pem\" }");
    let ca = table.field("ca_file", "\"/etc/sluicegate/store-ca.pem\"");
    let chain = table.field("cert_file", "\"/etc/sluicegate/store.pem\"");
    let key = table.field("key_file", "\"/etc/sluicegate/store.key\"");
    let name = table.field("server_name", "\"store.internal\"");
    let made = if place.is_some() || asked.is_some() {
        made([&ca, &chain, &key, &name]).map(Some)
    } else {
        Some(None)
    };
    table.finish();
    (place, made)
}

fn made([ca, chain, key, name]: [&Option<KeyField<'_>>; 4]) -> Option<Tls> {
    let advice = "put it there as PEM, readable for the user that runs the gateway";
    let text = |field: &Option<KeyField<'_>>| {
        let read = field.as_ref().map(|field| {
            let (_, text) = text_of(field, advice)?;
            Some(Arc::<str>::from(text))
        });
        flipped(read)
    };
    let ca_text = text(ca);
    let chain_text = text(chain);
    let key_text = text(key);
    let server_name = flipped(name.as_ref().map(|field| field.text().map(str::to_owned)));
    let pair = match (chain, key) {
        (Some(lone), None) | (None, Some(lone)) => {
            return lone.refuse(
                "a certificate and its key belong together",
                "write cert_file and key_file, or neither",
            );
        }
        _ => chain_text?.zip(key_text?.map(|key| Secret::new(&key))),
    };
    let texts = TlsTexts {
        ca: ca_text?,
        pair,
        server_name: server_name?,
    };
    let error = match Tls::new(texts) {
        Ok(tls) => return Some(tls),
        Err(error) => error,
    };
    let (field, message, advice) = match error {
        TlsError::Ca => (
            ca,
            "this file holds no certificate".to_owned(),
            "write the PEM file of who signed the store's certificate",
        ),
        TlsError::Certificate => (
            chain,
            "this file holds no certificate".to_owned(),
            "write the PEM file of the gateway's certificate",
        ),
        TlsError::Key => (
            key,
            "this file holds no private key".to_owned(),
            "write the PEM file of the certificate's key, without a passphrase",
        ),
        TlsError::Pair(why) => (
            key,
            format!("certificate and key cannot be used: {why}"),
            "write the key that the certificate was made for",
        ),
        TlsError::Name => (
            name,
            "this is not a name that a certificate can have".to_owned(),
            "write the host name of the store's certificate",
        ),
    };
    field.as_ref()?.refuse(message, advice)
}

/// Reads the digits in a file.
fn seed(field: &KeyField<'_>) -> Option<StoreSeed> {
    let (_, text) = text_of(
        field,
        "put 32 hexadecimal digits there: openssl rand -hex 16",
    )?;
    if let Some(seed) = hex_bytes(text.trim()) {
        return Some(StoreSeed(seed));
    }
    field.refuse(
        "this file does not hold 32 hexadecimal digits",
        "make it with: openssl rand -hex 16, and give every gateway of the fleet the same",
    )
}

fn prefix(field: &KeyField<'_>) -> Option<String> {
    let text = field.text()?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:/".contains(&byte);
    if (1..=LONGEST_PREFIX).contains(&text.len()) && text.bytes().all(plain) {
        return Some(text.to_owned());
    }
    field.refuse(
        format!("{} cannot begin a key", quoted(text)),
        format!("write 1 to {LONGEST_PREFIX} of the characters a-z A-Z 0-9 _ - . : /"),
    )
}
