//! Makes origins of services.

use std::collections::BTreeMap;

use super::account::TreeAccount;
use super::limits::divisor;
use super::notations::TraefikConfig;
use super::transports::{self, ServerScheme};
use super::tree::{member, number, text, unqualified};
use crate::bounds;
use crate::ingress::yaml::YamlNode;
use crate::model::{Origin, Server};
use crate::names::NamePool;

/// The address of an origin whose servers are to be filled in.
const TO_NAME: &str = "127.0.0.1:80";

/// The services of the input, and the origins that are made of them.
pub(super) struct TraefikOrigins<'c> {
    config: &'c TraefikConfig,
    /// Names of origins by service, and by attempts where a middleware says them.
    made: BTreeMap<(String, Option<u64>), String>,
    names: NamePool,
    pub(super) origins: Vec<Origin>,
}

/// Where a service leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ServiceTarget {
    Origin(String),
    /// An answer of Traefik itself.
    Answer(u16, &'static str),
}

impl<'c> TraefikOrigins<'c> {
    pub(super) fn new(config: &'c TraefikConfig) -> Self {
        Self {
            config,
            made: BTreeMap::new(),
            names: NamePool::default(),
            origins: Vec::new(),
        }
    }

    /// Returns where a service leads. `attempts` is the number of attempts at servers.
    pub(super) fn target(
        &mut self,
        service: &str,
        attempts: Option<u64>,
        account: &mut TreeAccount<'_>,
    ) -> ServiceTarget {
        if service.ends_with("@internal") {
            return match unqualified(service) {
                "ping" => ServiceTarget::Answer(200, "OK"),
                "noop" => ServiceTarget::Answer(418, ""),
                name => {
                    account.ledger.fill_in(format!(
                        "[[route]]: {name} is Traefik's own service; the gateway has pages at the address of [admin]"
                    ));
                    ServiceTarget::Answer(404, "")
                }
            };
        }
        let key = (unqualified(service).to_ascii_lowercase(), attempts);
        if let Some(name) = self.made.get(&key) {
            return ServiceTarget::Origin(name.clone());
        }
        let mut origin = match self.config.named("http.services", service) {
            Some((name, node)) => self.origin(name, node, 0, account),
            None => Err(format!("the service {service} is not in the input")),
        }
        .unwrap_or_else(|reason| {
            let name = crate::names::plain(unqualified(service));
            account
                .ledger
                .fill_in(format!("[origin.{name}] servers: {reason}"));
            Origin {
                servers: vec![server(TO_NAME.to_owned())],
                ..Origin::default()
            }
        });
        if let Some(attempts) = attempts {
            let retries = attempts.saturating_sub(1).min(5);
            origin.keys.push(("retries", retries.to_string()));
        }
        origin.name = self.names.unique(unqualified(service));
        self.made.insert(key, origin.name.clone());
        let name = origin.name.clone();
        self.origins.push(origin);
        ServiceTarget::Origin(name)
    }

    /// Returns the origin of a service without a name.
    ///
    /// # Errors
    ///
    /// The reason for which its servers are to be filled in.
    fn origin(
        &self,
        name: &str,
        node: &YamlNode,
        depth: usize,
        account: &mut TreeAccount<'_>,
    ) -> Result<Origin, String> {
        if depth > bounds::VARIABLE_DEPTH {
            return Err("services name each other".to_owned());
        }
        for (kind, value) in node.members() {
            let found = match kind.to_ascii_lowercase().as_str() {
                "loadbalancer" => self.balancer(name, value, account),
                "weighted" => self.weighted(name, value, depth, account),
                "mirroring" => {
                    if let Some(mirrors) = member(value, "mirrors") {
                        account.idle(mirrors, "the gateway sends a request to one origin");
                    }
                    for idle in ["mirrorBody", "maxBodySize", "healthCheck"] {
                        if let Some(node) = member(value, idle) {
                            account.idle(node, "it is about mirrors");
                        }
                    }
                    self.child(member(value, "service"), depth, account)
                }
                "failover" => self.failover(value, depth, account),
                _ => continue,
            };
            return found;
        }
        Err(format!("the service {name} has no servers"))
    }

    /// Returns the origin of a service that another one names.
    fn child(
        &self,
        name: Option<&YamlNode>,
        depth: usize,
        account: &mut TreeAccount<'_>,
    ) -> Result<Origin, String> {
        let node = name.ok_or("it names no service")?;
        account.translated(node);
        let name = node.text().unwrap_or_default().trim();
        match self.config.named("http.services", name) {
            Some((name, node)) => self.origin(name, node, depth + 1, account),
            None => Err(format!("the service {name} is not in the input")),
        }
    }

    fn balancer(
        &self,
        name: &str,
        node: &YamlNode,
        account: &mut TreeAccount<'_>,
    ) -> Result<Origin, String> {
        let mut origin = Origin::default();
        let listed = ["servers", "addresses"].iter().flat_map(|it| {
            let elements = member(node, it).map(YamlNode::elements);
            elements.unwrap_or_default()
        });
        let single = member(node, "server").into_iter();
        let mut schemes = Vec::new();
        for element in listed.chain(single) {
            let Some(url) = text(element, "url") else {
                continue;
            };
            origin.remarks.sources.extend(element.entries());
            let (scheme, address) = parsed(url)?;
            schemes.push(scheme);
            let weight = number(element, "weight");
            if weight == Some(0) {
                account.idle(element, "a server with weight 0 gets no request");
                continue;
            }
            account.members(element, name, &["url", "weight", "scheme", "port"]);
            if url
                .split_once("://")
                .is_some_and(|(_, it)| it.trim_end_matches('/').contains('/'))
            {
                account.differs(
                    element,
                    "the path of a server's URL is left out, as Traefik does without preservePath",
                );
            }
            origin.servers.push(Server {
                weight: weight
                    .filter(|it| *it != 1)
                    .map(|it| it.min(bounds::SERVER_WEIGHT)),
                ..server(address)
            });
        }
        if origin.servers.is_empty() {
            return Err(format!("the service {name} has no servers"));
        }
        if schemes.iter().any(|it| *it != schemes[0]) {
            return Err(format!("the servers of {name} have several protocols"));
        }
        let scheme = schemes.first().copied().unwrap_or_default();
        if scheme == ServerScheme::H2c {
            origin.protocol = Some("h2c");
        }
        transports::apply(self.config, name, node, scheme, &mut origin, account);
        Ok(origin)
    }

    /// Joins the servers of several services, each with its share.
    fn weighted(
        &self,
        name: &str,
        node: &YamlNode,
        depth: usize,
        account: &mut TreeAccount<'_>,
    ) -> Result<Origin, String> {
        let mut joined: Option<Origin> = None;
        let mut shares: Vec<(u64, u64, Server)> = Vec::new();
        for element in member(node, "services")
            .map(YamlNode::elements)
            .unwrap_or_default()
        {
            let weight = number(element, "weight").unwrap_or(1);
            let origin = self.child(member(element, "name"), depth, account)?;
            account.members(element, name, &["name", "weight"]);
            let total: u64 = origin.servers.iter().map(|it| it.weight.unwrap_or(1)).sum();
            for server in &origin.servers {
                // The share of a server is a fraction.
                shares.push((
                    weight * server.weight.unwrap_or(1),
                    total.max(1),
                    server.clone(),
                ));
            }
            let known = joined.get_or_insert_with(|| origin.clone());
            let same = known.protocol == origin.protocol
                && known.tls == origin.tls
                && known.host == origin.host
                && known.timeouts == origin.timeouts;
            if !same {
                return Err(format!(
                    "the services of {name} differ in more than their servers"
                ));
            }
            if shares.len() > bounds::WORDS {
                return Err(format!("{name} has too many servers"));
            }
        }
        for idle in ["sticky", "healthCheck"] {
            if let Some(value) = member(node, idle) {
                match idle {
                    "sticky" => account.differs(
                        value,
                        "write [origin.NAME.sticky]: a cookie names a server, not a service",
                    ),
                    _ => account.idle(value, "see [origin.NAME.health]"),
                }
            }
        }
        let mut origin = joined.ok_or_else(|| format!("the service {name} has no services"))?;
        origin.servers = weights(shares)
            .ok_or_else(|| format!("no weights of 1 to 256 are the shares of {name}"))?;
        Ok(origin)
    }

    fn failover(
        &self,
        node: &YamlNode,
        depth: usize,
        account: &mut TreeAccount<'_>,
    ) -> Result<Origin, String> {
        let mut origin = self.child(member(node, "service"), depth, account)?;
        let fallback = self.child(member(node, "fallback"), depth, account)?;
        if (&fallback.protocol, &fallback.tls) != (&origin.protocol, &origin.tls) {
            return Err("the fallback has another protocol".to_owned());
        }
        if let Some(health) = member(node, "healthCheck") {
            account.idle(health, "see [origin.NAME.health]");
        }
        let backups = fallback
            .servers
            .into_iter()
            .map(|it| Server { backup: true, ..it });
        origin.servers.extend(backups);
        Ok(origin)
    }

    /// Records the services that no router leads to.
    pub(super) fn report_unused(&self, account: &mut TreeAccount<'_>) {
        for (_, node) in self.config.members("http.services") {
            let is_used = |id| account.ledger.is_translated(id);
            if !node.entries().into_iter().any(is_used) {
                account.idle(node, "no router leads to it");
            }
        }
    }
}

/// Returns the scheme and the address of a URL.
fn parsed(url: &str) -> Result<(ServerScheme, String), String> {
    let unreadable = || format!("no server is {url:?}");
    let (scheme, rest) = url.split_once("://").ok_or_else(unreadable)?;
    let (scheme, port) = match scheme.to_ascii_lowercase().as_str() {
        "http" => (ServerScheme::Http, 80),
        "https" => (ServerScheme::Https, 443),
        "h2c" => (ServerScheme::H2c, 80),
        _ => return Err(unreadable()),
    };
    let host = rest.split(['/', '?']).next().unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    if host.is_empty() || !host.chars().all(is_plain) {
        return Err(unreadable());
    }
    let has_port = host.rsplit(']').next().unwrap_or_default().contains(':');
    let address = match has_port {
        true => host.to_owned(),
        false => format!("{host}:{port}"),
    };
    Ok((scheme, address))
}

fn server(address: String) -> Server {
    Server {
        address,
        ..Server::default()
    }
}

/// Returns servers whose weights are in proportion to fractions; `None` where no weights are.
fn weights(shares: Vec<(u64, u64, Server)>) -> Option<Vec<Server>> {
    let shares: Vec<_> = shares
        .into_iter()
        .filter(|(share, ..)| *share > 0)
        .collect();
    let mut common = 1_u64;
    for (_, total, _) in &shares {
        common = common.checked_mul(total / divisor(common, *total))?;
    }
    let scaled: Option<Vec<u64>> = shares
        .iter()
        .map(|(share, total, _)| share.checked_mul(common / total))
        .collect();
    let scaled = scaled?;
    let least = scaled.iter().copied().fold(0, divisor);
    let servers = shares
        .into_iter()
        .zip(scaled)
        .map(|((.., server), weight)| {
            let weight = weight / least.max(1);
            (weight <= bounds::SERVER_WEIGHT).then_some(Server {
                weight: (weight != 1).then_some(weight),
                ..server
            })
        });
    servers.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a service's share is divided among its servers, whatever their number. Method: 3 to 1 over two servers and one, and shares
    /// that need more than the largest weight.
    #[test]
    fn shares_become_weights() {
        let of = |shares: &[(u64, u64)]| {
            let shares = shares
                .iter()
                .map(|(share, total)| (*share, *total, server("a:1".to_owned())));
            let found = weights(shares.collect())?;
            Some(
                found
                    .iter()
                    .map(|it| it.weight.unwrap_or(1))
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(of(&[(3, 2), (3, 2), (1, 1)]), Some(vec![3, 3, 2]));
        assert_eq!(of(&[(10, 1), (90, 1)]), Some(vec![1, 9]));
        assert_eq!(of(&[(0, 1), (7, 1)]), Some(vec![1]));
        assert_eq!(of(&[(1, 1), (999, 1)]), None);
        assert_eq!(of(&[(u64::MAX, 3), (1, 7)]), None);
    }

    /// Goal: a URL is an address with a port. Method: schemes, ports, addresses of version 6, paths, others.
    #[test]
    fn urls_are_addresses() {
        let of = |url: &str| parsed(url).map(|(_, address)| address).ok();
        assert_eq!(of("http://a"), Some("a:80".to_owned()));
        assert_eq!(of("https://a/x"), Some("a:443".to_owned()));
        assert_eq!(of("h2c://[::1]:50"), Some("[::1]:50".to_owned()));
        assert_eq!(of("http://[::1]/"), Some("[::1]:80".to_owned()));
        assert_eq!(of("fcgi://a"), None);
        assert_eq!(of("a:80"), None);
    }
}
