//! Makes listeners of the addresses of all sites, with automatic HTTPS, and decides which sites each of them has.

use std::net::{IpAddr, SocketAddr};

use super::addresses::{self, SiteAddress};
use super::evaluation::RequestScheme;
use super::omissions::leave;
use super::options::GlobalOptions;
use super::servers;
use super::tls::{ListenerSettings, SiteTls};
use super::tree::{CaddyTree, SiteBlock};
use crate::ledger::{EntryId, Ledger};
use crate::model::{GatewayModel, Listener, TableRemarks};

/// Most names for which a listener orders certificates.
const ORDERED_NAMES: usize = 100;

/// A site on a listener, with the hosts that it has there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlacedSite {
    /// The number of the site.
    pub(super) site: usize,
    /// `None` is any host.
    pub(super) hosts: Vec<Option<String>>,
}

/// Listeners with the same sites, whose routes are the same.
#[derive(Debug)]
pub(super) struct ListenerGroup {
    /// The names by which routes name the listeners; empty where all listeners are meant.
    pub(super) names: Vec<String>,
    pub(super) scheme: RequestScheme,
    pub(super) sites: Vec<PlacedSite>,
    /// Hosts whose requests are sent to HTTPS at a port.
    pub(super) redirected: Vec<(String, u16)>,
}

/// An address at which sites listen.
#[derive(Debug)]
struct OpenAddress {
    /// The IP address; `None` for all of the machine.
    ip: Option<IpAddr>,
    port: u16,
    scheme: RequestScheme,
    sites: Vec<PlacedSite>,
    sources: Vec<EntryId>,
    redirected: Vec<(String, u16)>,
}

/// Makes the listeners of all sites.
pub(super) fn make(
    tree: &CaddyTree,
    options: &GlobalOptions,
    gateway: &mut GatewayModel,
    ledger: &mut Ledger,
) -> Vec<ListenerGroup> {
    let mut table = AddressTable {
        options,
        open: Vec::new(),
        tls: Vec::new(),
        email: options.email.clone(),
    };
    for (number, site) in tree.sites.iter().enumerate() {
        table.add(number, site, ledger);
    }
    table.add_redirects();
    table.join(ledger);
    table.finish(tree, gateway, ledger)
}

struct AddressTable<'o> {
    options: &'o GlobalOptions,
    open: Vec<OpenAddress>,
    tls: Vec<SiteTls>,
    email: Option<String>,
}

impl AddressTable<'_> {
    fn add(&mut self, number: usize, site: &SiteBlock, ledger: &mut Ledger) {
        let tls = SiteTls::read(site, ledger);
        self.email = tls.email.clone().or(self.email.take());
        let binds = self.binds(site, ledger);
        ledger.translated(site.id);
        for text in &site.addresses {
            let address = match SiteAddress::read(text) {
                Ok(address) if address.path.is_none() => address,
                Ok(_) => {
                    ledger.fill_in_for(site.id, "a path in an address; write `handle` in the site");
                    continue;
                }
                Err(reason) => {
                    ledger.fill_in_for(site.id, &reason);
                    continue;
                }
            };
            let port = address.listens_at(self.options.http_port, self.options.https_port);
            let scheme = match address.scheme {
                Some(scheme) => scheme,
                None if port == self.options.http_port => RequestScheme::Http,
                None if tls.is_stated || address.host.is_some() => RequestScheme::Https,
                None => RequestScheme::Http,
            };
            for ip in &binds {
                let open = self.open(*ip, port, scheme);
                open.sources.push(site.id);
                match open.sites.iter_mut().find(|it| it.site == number) {
                    Some(placed) => placed.hosts.push(address.host.clone()),
                    None => open.sites.push(PlacedSite {
                        site: number,
                        hosts: vec![address.host.clone()],
                    }),
                }
            }
        }
        self.tls.push(tls);
    }

    fn open(&mut self, ip: Option<IpAddr>, port: u16, scheme: RequestScheme) -> &mut OpenAddress {
        let found = self
            .open
            .iter()
            .position(|it| it.ip == ip && it.port == port);
        let at = found.unwrap_or_else(|| {
            self.open.push(OpenAddress {
                ip,
                port,
                scheme,
                sites: Vec::new(),
                sources: Vec::new(),
                redirected: Vec::new(),
            });
            self.open.len() - 1
        });
        let open = &mut self.open[at];
        if scheme == RequestScheme::Https {
            open.scheme = scheme;
        }
        open
    }

    /// Returns the IP addresses of a site.
    fn binds(&self, site: &SiteBlock, ledger: &mut Ledger) -> Vec<Option<IpAddr>> {
        let mut found = Vec::new();
        let mut add = |word: &str| -> Result<(), String> {
            let text = word.trim_start_matches("tcp4/").trim_start_matches("tcp6/");
            let text = text.trim_start_matches("tcp/").trim_matches(['[', ']']);
            let ip =
                match text {
                    "" => None,
                    "localhost" => Some(IpAddr::from([127, 0, 0, 1])),
                    text => {
                        let ip = text.parse();
                        Some(ip.map_err(|_| {
                            format!("a listener has an IP address, and {word} is none")
                        })?)
                    }
                };
            if !found.contains(&ip) {
                found.push(ip);
            }
            Ok(())
        };
        let binds = site.directives.iter().filter(|it| it.name == "bind");
        let mut is_stated = false;
        for directive in binds {
            is_stated = true;
            match directive.words.iter().try_for_each(|word| add(word)) {
                Ok(()) => {
                    ledger.translated(directive.id);
                    directive.children().iter().for_each(|line| {
                        ledger.differs(line.id, "the listener has HTTP/1.1 and HTTP/2");
                    });
                }
                Err(reason) => leave(directive, &reason, ledger),
            }
        }
        if !is_stated {
            for word in &self.options.bind {
                if let Err(reason) = add(word) {
                    ledger.fill_in_for(site.id, &reason);
                }
            }
        }
        if found.is_empty() {
            found.push(None);
        }
        found
    }

    /// Adds the redirects of automatic HTTPS.
    fn add_redirects(&mut self) {
        if !self.options.redirects {
            return;
        }
        let mut redirected: Vec<(Option<IpAddr>, String, u16)> = Vec::new();
        for open in self
            .open
            .iter()
            .filter(|it| it.scheme == RequestScheme::Https)
        {
            let hosts = open.sites.iter().flat_map(|it| it.hosts.iter().flatten());
            redirected.extend(hosts.map(|host| (open.ip, host.clone(), open.port)));
        }
        let port = self.options.http_port;
        for (ip, host, to) in redirected {
            let open = self.open(ip, port, RequestScheme::Http);
            let mut hosts = open.sites.iter().flat_map(|it| &it.hosts);
            let is_served = hosts.any(|it| it.as_ref().is_none_or(|it| *it == host));
            let is_known = open.redirected.iter().any(|(known, _)| *known == host);
            if open.scheme == RequestScheme::Http && !is_served && !is_known {
                open.redirected.push((host, to));
            }
        }
    }

    /// Makes one listener of those at a port of which one has all addresses: the others would be taken.
    fn join(&mut self, ledger: &mut Ledger) {
        let wide: Vec<u16> = (self.open.iter())
            .filter(|it| it.ip.is_none())
            .map(|it| it.port)
            .collect();
        let is_narrow = |it: &OpenAddress| it.ip.is_some() && wide.contains(&it.port);
        let (narrow, kept): (Vec<_>, Vec<_>) = self.open.drain(..).partition(is_narrow);
        self.open = kept;
        for narrow in narrow {
            let Some(open) = self.open.iter_mut().find(|it| it.port == narrow.port) else {
                continue;
            };
            if !narrow.sites.is_empty() {
                ledger.fill_in(format!(
                    "[[listener]] {}: {} is a part of it, and has no listener of its own; its sites answer at all addresses",
                    open.address(),
                    narrow.address()
                ));
            }
            for placed in narrow.sites {
                match open.sites.iter_mut().find(|it| it.site == placed.site) {
                    Some(known) => known.hosts.extend(placed.hosts),
                    None => open.sites.push(placed),
                }
            }
            open.sources.extend(narrow.sources);
            let hosts = || open.sites.iter().flat_map(|it| &it.hosts);
            for (host, port) in narrow.redirected {
                let is_served = hosts().any(|it| it.as_ref().is_none_or(|it| *it == host));
                if !is_served && !open.redirected.iter().any(|(known, _)| *known == host) {
                    open.redirected.push((host, port));
                }
            }
        }
    }

    /// Writes the listeners, and returns the groups of those with the same sites.
    fn finish(
        self,
        tree: &CaddyTree,
        gateway: &mut GatewayModel,
        ledger: &mut Ledger,
    ) -> Vec<ListenerGroup> {
        let mut groups: Vec<ListenerGroup> = Vec::new();
        let mut group_of = Vec::new();
        let serving = || self.open.iter().filter(|it| !it.sites.is_empty());
        for open in serving() {
            let same = |it: &ListenerGroup| {
                it.scheme == open.scheme
                    && it.sites == open.sites
                    && it.redirected == open.redirected
            };
            let at = groups.iter().position(same).unwrap_or_else(|| {
                groups.push(ListenerGroup {
                    names: Vec::new(),
                    scheme: open.scheme,
                    sites: open.sites.clone(),
                    redirected: open.redirected.clone(),
                });
                groups.len() - 1
            });
            group_of.push(at);
        }
        let has_names = groups.len() > 1;
        for (open, at) in serving().zip(group_of) {
            let mut listener = self.listener(open, tree, ledger);
            if has_names {
                let name = match open.ip {
                    None => open.port.to_string(),
                    Some(ip) => crate::names::plain(&format!("{ip}-{}", open.port)),
                };
                groups[at].names.push(name.clone());
                listener.name = Some(name);
            }
            gateway.listeners.push(listener);
        }
        let addresses: Vec<String> = serving().map(OpenAddress::address).collect();
        let blocks = &self.options.servers;
        servers::believe(blocks, &addresses, &mut gateway.client, ledger);
        for open in self.open.iter().filter(|it| it.sites.is_empty()) {
            gateway.listeners.push(redirecting(open, ledger));
        }
        if gateway.listeners.iter().any(|it| !it.acme.is_empty()) {
            let email = self.email.clone();
            let options = self.options;
            options.write_acme(email.as_deref(), gateway, ledger);
        }
        groups
    }

    fn listener(&self, open: &OpenAddress, tree: &CaddyTree, ledger: &mut Ledger) -> Listener {
        let mut listener = Listener {
            address: open.address(),
            proxy_protocol_from: servers::find(&self.options.servers, &open.address())
                .and_then(|it| it.proxy_protocol_from.clone()),
            remarks: TableRemarks {
                sources: open.sources.clone(),
                differences: Vec::new(),
            },
            ..Listener::default()
        };
        if open.scheme == RequestScheme::Http {
            return listener;
        }
        for placed in &open.sites {
            self.certificates(placed, &mut listener, &tree.sites[placed.site], ledger);
        }
        let mut settings: Vec<&ListenerSettings> = Vec::new();
        for placed in &open.sites {
            let tls = &self.tls[placed.site].listener;
            if !settings.contains(&tls) {
                settings.push(tls);
            }
        }
        match settings.as_slice() {
            [one] => {
                listener.client_ca.clone_from(&one.client_ca);
                listener.tls.clone_from(&one.keys);
            }
            _ => ledger.fill_in(format!(
                "[[listener]] {}: client_ca_file, client_auth and min_version are those of all sites of a listener, and the sites \
                 differ; give the stricter ones a listener of their own",
                listener.address
            )),
        }
        listener
    }

    /// Adds the certificates of a site.
    fn certificates(
        &self,
        placed: &PlacedSite,
        listener: &mut Listener,
        site: &SiteBlock,
        ledger: &mut Ledger,
    ) {
        let tls = &self.tls[placed.site];
        for files in &tls.files {
            if !listener.certificates.contains(files) {
                listener.certificates.push(files.clone());
            }
        }
        if !tls.files.is_empty() {
            return;
        }
        let makes_own = tls.is_internal || self.options.local_certificates;
        for host in &placed.hosts {
            let Some(host) = host else {
                missing("any host", "tls", listener, site, ledger);
                continue;
            };
            let reason = if !self.options.orders_certificates {
                "the certificate, which automatic HTTPS does not order"
            } else if makes_own || addresses::is_internal(host) {
                "a certificate, since the gateway makes none itself as Caddy does"
            } else if host.starts_with('*') {
                "a certificate, since the gateway does not prove names by DNS"
            } else if listener.acme.len() == ORDERED_NAMES {
                "a certificate, since a listener orders 100 names at most"
            } else {
                if !listener.acme.contains(host) {
                    listener.acme.push(host.clone());
                }
                continue;
            };
            missing(host, reason, listener, site, ledger);
        }
    }
}

/// Adds a certificate that the operator has to name: the gateway does not start without it.
fn missing(
    host: &str,
    reason: &str,
    listener: &mut Listener,
    site: &SiteBlock,
    ledger: &mut Ledger,
) {
    let address = &listener.address;
    let what = format!("[[listener]] {address}: tls.certificates for {host}: {reason}");
    ledger.fill_in_for(site.id, &what);
    let name = crate::names::plain(&host.replace('*', "wildcard"));
    let files = (format!("{name}.pem"), format!("{name}.key"));
    if !listener.certificates.contains(&files) {
        listener.certificates.push(files);
    }
}

impl OpenAddress {
    fn address(&self) -> String {
        match self.ip {
            // It takes IPv4 too.
            None => format!("[::]:{}", self.port),
            Some(ip) => SocketAddr::new(ip, self.port).to_string(),
        }
    }
}

/// Returns the listener for an address at which only redirects are answered.
fn redirecting(open: &OpenAddress, ledger: &mut Ledger) -> Listener {
    let mut differences = vec!["all hosts are redirected, with 308".to_owned()];
    let port = open.redirected.first().map_or(443, |(_, port)| *port);
    if open.redirected.iter().any(|(_, other)| *other != port) {
        differences.push(format!("all hosts are redirected to port {port}"));
        ledger.fill_in(format!(
            "[[listener]] {}: redirect_to_https: sites have TLS at several ports",
            open.address()
        ));
    }
    Listener {
        address: open.address(),
        redirect_to_https: Some(match port {
            443 => "true".to_owned(),
            port => port.to_string(),
        }),
        remarks: TableRemarks {
            sources: Vec::new(),
            differences,
        },
        ..Listener::default()
    }
}
