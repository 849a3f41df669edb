//! Reads labels of the services of a Compose file, and the arguments of the one that runs Traefik.

use std::collections::BTreeSet;

use super::account::TreeAccount;
use super::tree::{self, insert, member, text, texts};
use crate::bounds;
use crate::ingress::yaml::YamlNode;
use crate::ledger::EntryId;

/// A label or an argument: its name, its value, and where it stands.
struct NamedSetting<'n> {
    name: String,
    value: String,
    node: &'n YamlNode,
}

impl NamedSetting<'_> {
    /// Returns true for a label of Traefik.
    fn is_label(&self) -> bool {
        self.name.to_ascii_lowercase().starts_with("traefik.")
    }
}

/// Returns the tree of all services of a Compose file. Values that are not Traefik's change no answer.
pub(super) fn tree(document: &YamlNode, account: &mut TreeAccount<'_>) -> YamlNode {
    let mut root = YamlNode::Map(Vec::new());
    let services = member(document, "services").unwrap_or(document);
    let mut own: BTreeSet<EntryId> = BTreeSet::new();
    for (name, service) in services.members() {
        let labels = settings(member(service, "labels"), "");
        let of_swarm = settings(tree::at(service, "deploy.labels"), "");
        let labels: Vec<NamedSetting<'_>> = labels.into_iter().chain(of_swarm).collect();
        let of_traefik = labels.iter().filter(|it| it.is_label());
        own.extend(of_traefik.filter_map(|it| tree::entry(it.node)));
        add_labels(&mut root, (name, service), &labels, account);
        if runs_traefik(service) {
            for argument in settings(member(service, "command"), "--") {
                own.extend(tree::entry(argument.node));
                add(&mut root, &argument, argument.name.as_str(), account);
            }
            for variable in settings(member(service, "environment"), "TRAEFIK_") {
                let reason = "a variable of Traefik's environment; write it as an argument";
                account.lost(variable.node, &variable.name, reason);
            }
        }
    }
    for id in document.entries() {
        if !own.contains(&id) {
            account
                .ledger
                .without_effect(id, "it is Compose's, not Traefik's");
        }
    }
    root
}

/// Returns the settings of a list of `name=value` or of a map whose names begin so.
fn settings<'n>(node: Option<&'n YamlNode>, beginning: &str) -> Vec<NamedSetting<'n>> {
    let Some(node) = node else {
        return Vec::new();
    };
    let words = node.text().into_iter().flat_map(str::split_whitespace);
    let words = words.map(|text| (text, node));
    let elements = node.elements().iter();
    let elements = elements.filter_map(|node| Some((node.text()?, node)));
    let listed = words.chain(elements).map(|(text, node)| {
        let (name, value) = text.split_once('=').unwrap_or((text, "true"));
        (name.to_owned(), value.to_owned(), node)
    });
    let mapped = node.members().iter().map(|(name, node)| {
        (
            name.clone(),
            node.text().unwrap_or_default().to_owned(),
            node,
        )
    });
    listed
        .chain(mapped)
        .filter_map(|(name, value, node)| {
            Some(NamedSetting {
                name: name.trim().strip_prefix(beginning)?.to_owned(),
                // Compose writes a dollar sign twice.
                value: value.trim().trim_matches(['"', '\'']).replace("$$", "$"),
                node,
            })
        })
        .collect()
}

/// Puts a setting into the tree.
fn add(root: &mut YamlNode, setting: &NamedSetting<'_>, name: &str, account: &mut TreeAccount<'_>) {
    let way: Vec<&str> = name.split('.').collect();
    let Some(id) = tree::entry(setting.node).filter(|_| way.len() <= bounds::DEPTH) else {
        account.lost(setting.node, name, "its name has too many parts");
        return;
    };
    insert(root, &way, tree::scalar(id, setting.value.clone()));
}

/// Adds the labels of a service, with what Traefik adds to them: an address for each of its services, and a service for each router.
fn add_labels(
    root: &mut YamlNode,
    (name, service): (&str, &YamlNode),
    labels: &[NamedSetting<'_>],
    account: &mut TreeAccount<'_>,
) {
    let labels: Vec<&NamedSetting<'_>> = labels.iter().filter(|it| it.is_label()).collect();
    let is = |label: &NamedSetting<'_>, name: &str| label.name.eq_ignore_ascii_case(name);
    let off = labels
        .iter()
        .any(|it| is(it, "traefik.enable") && it.value.eq_ignore_ascii_case("false"));
    let mut own = YamlNode::Map(Vec::new());
    let mut first = None;
    for label in labels {
        if off {
            account.idle(label.node, "traefik.enable is false");
        } else if is(label, "traefik.enable") {
            account.translated(label.node);
            first = Some(label);
        } else if label
            .name
            .to_ascii_lowercase()
            .starts_with("traefik.docker.")
            || label
                .name
                .to_ascii_lowercase()
                .starts_with("traefik.swarm.")
        {
            account.idle(label.node, "networks are those of the gateway's machine");
        } else {
            first = first.or(Some(label));
            add(&mut own, label, &label.name["traefik.".len()..], account);
        }
    }
    let Some(first) = first else { return };
    let has_routers = tree::at(&own, "http.routers").is_some();
    let is_partial = tree::at(&own, "http.middlewares").is_some()
        || tree::at(&own, "http.services").is_some()
        || ["tcp", "udp"].iter().any(|it| member(&own, it).is_some());
    if !has_routers && !is_partial && !runs_traefik(service) {
        let reason =
            "it has no router, and the rule that Traefik makes of its name is not in the input";
        account.lost(first.node, name, reason);
    }
    complete(&mut own, (name, service), first, account);
    tree::merge(root, own);
}

/// Completes services by their addresses, and routers by their service.
fn complete(
    own: &mut YamlNode,
    (name, service): (&str, &YamlNode),
    first: &NamedSetting<'_>,
    account: &mut TreeAccount<'_>,
) {
    let Some(id) = tree::entry(first.node) else {
        return;
    };
    let names = |path: &str, own: &YamlNode| -> Vec<String> {
        let members = tree::at(own, path).map_or(&[][..], YamlNode::members);
        members.iter().map(|(key, _)| key.clone()).collect()
    };
    let routers = names("http.routers", own);
    let needs_service =
        |router: &String| text(own, &format!("http.routers.{router}.service")).is_none();
    if names("http.services", own).is_empty() && routers.iter().any(needs_service) {
        insert(
            own,
            &["http", "services", name, "loadBalancer"],
            tree::map([]),
        );
    }
    let services = names("http.services", own);
    for key in &services {
        let balancer = format!("http.services.{key}.loadBalancer");
        let Some(balancer) = tree::at(own, &balancer) else {
            continue;
        };
        let server = member(balancer, "server");
        let server = server.or_else(|| member(balancer, "servers")?.elements().first());
        let part = |name: &str| server.and_then(|it| text(it, name));
        if part("url").is_some() {
            continue;
        }
        let port = part("port").map(str::to_owned);
        let port = port.or_else(|| exposed_port(service)).unwrap_or_else(|| {
            let what = "the port that the image exposes";
            account
                .ledger
                .fill_in(format!("[origin.{key}] servers: {what}"));
            "80".to_owned()
        });
        let url = format!("{}://{name}:{port}", part("scheme").unwrap_or("http"));
        let id = server.and_then(tree::entry).unwrap_or(id);
        if let Some(server) = server {
            account.translated(server);
        }
        let url = tree::scalar(id, url);
        insert(
            own,
            &[
                "http",
                "services",
                key,
                "loadBalancer",
                "addresses[0]",
                "url",
            ],
            url,
        );
    }
    for router in &routers {
        match services.as_slice() {
            [only] => {
                let only = tree::scalar(id, only.clone());
                insert(own, &["http", "routers", router, "service"], only);
            }
            // Traefik takes the service of the container's name, or refuses the router.
            _ => insert(
                own,
                &["http", "routers", router, "service"],
                tree::scalar(id, name),
            ),
        }
    }
}

/// Returns the port of a container that `expose` or `ports` names first.
fn exposed_port(service: &YamlNode) -> Option<String> {
    let named = texts(member(service, "expose"));
    let ports = texts(member(service, "ports"));
    let first = named.first().or(ports.first())?;
    let port = first.rsplit(':').next()?.split('/').next()?;
    port.parse::<u16>().ok().map(|port| port.to_string())
}

/// Returns true if a service of Compose runs Traefik.
fn runs_traefik(service: &YamlNode) -> bool {
    let image = text(service, "image").unwrap_or_default();
    let name = image.rsplit('/').next().unwrap_or_default();
    let command = texts(member(service, "command"));
    name.split([':', '@']).next() == Some("traefik")
        || command.iter().any(|it| it.starts_with("--entrypoints."))
}
