//! Reads labels and arguments of the services of a Compose file.

use std::collections::BTreeSet;

use super::account::TreeAccount;
use super::publication::{LabelPlace, Publication, PublicationRules};
use super::tree::{self, insert, member, text, texts};
use crate::bounds;
use crate::ingress::yaml::YamlNode;
use crate::ledger::EntryId;

/// A label or an argument: its name, its value, and where it stands.
pub(super) struct NamedSetting<'n> {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) node: &'n YamlNode,
}

impl NamedSetting<'_> {
    /// Returns true for a label of Traefik.
    fn is_label(&self) -> bool {
        self.name.to_ascii_lowercase().starts_with("traefik.")
    }
}

/// Returns the services of a Compose file.
pub(super) fn services(document: &YamlNode) -> &[(String, YamlNode)] {
    member(document, "services").unwrap_or(document).members()
}

/// Returns the commands of all services of a Compose file.
pub(super) fn commands(document: &mut YamlNode) -> Vec<&mut YamlNode> {
    let YamlNode::Map(members) = document else {
        return Vec::new();
    };
    let services = members.iter_mut().filter(|(name, _)| name == "services");
    let services = services.flat_map(|(_, node)| members_mut(node));
    let commands = services.flat_map(|(_, service)| {
        let is_command = |name: &str| COMMANDS.contains(&name);
        members_mut(service).filter(move |(name, _)| is_command(name))
    });
    commands.map(|(_, node)| node).collect()
}

fn members_mut(node: &mut YamlNode) -> impl Iterator<Item = &mut (String, YamlNode)> {
    let members = match node {
        YamlNode::Map(members) => members.as_mut_slice(),
        _ => &mut [],
    };
    members.iter_mut()
}

/// Returns the tree of the labels of a Compose file. Values that are not Traefik's change no answer.
pub(super) fn tree(
    document: &YamlNode,
    rules: &PublicationRules,
    account: &mut TreeAccount<'_>,
) -> YamlNode {
    let mut root = YamlNode::Map(Vec::new());
    let mut own: BTreeSet<EntryId> = BTreeSet::new();
    for (name, service) in services(document) {
        for (place, labels) in [
            (LabelPlace::Container, member(service, "labels")),
            (LabelPlace::Deployment, tree::at(service, "deploy.labels")),
        ] {
            let labels = settings(labels, "");
            let of_traefik = labels.iter().filter(|it| it.is_label());
            own.extend(of_traefik.filter_map(|it| tree::entry(it.node)));
            let publication = rules.decide(place, &labels);
            add_labels(&mut root, (name, service), (&labels, publication), account);
        }
        if runs_traefik(service) {
            let variables = settings(member(service, "environment"), "TRAEFIK_");
            let settings = arguments(service).into_iter().chain(variables);
            own.extend(settings.filter_map(|it| tree::entry(it.node)));
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

/// The members of a service that have arguments.
pub(super) const COMMANDS: [&str; 2] = ["entrypoint", "command"];

/// Returns the arguments of a service, whose commands are lists.
pub(super) fn arguments(service: &YamlNode) -> Vec<NamedSetting<'_>> {
    let lines = COMMANDS.map(|it| settings(member(service, it), "--"));
    lines.into_iter().flatten().collect()
}

/// Returns the settings of a list of `name=value` or of a map whose names begin so.
pub(super) fn settings<'n>(node: Option<&'n YamlNode>, beginning: &str) -> Vec<NamedSetting<'n>> {
    let Some(node) = node else {
        return Vec::new();
    };
    let elements = node.elements().iter();
    let elements = elements.filter_map(|node| Some((node.text()?, node)));
    let listed = elements.map(|(text, node)| {
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
pub(super) fn add(
    root: &mut YamlNode,
    setting: &NamedSetting<'_>,
    name: &str,
    account: &mut TreeAccount<'_>,
) {
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
    (labels, publication): (&[NamedSetting<'_>], Publication),
    account: &mut TreeAccount<'_>,
) {
    let labels: Vec<&NamedSetting<'_>> = labels.iter().filter(|it| it.is_label()).collect();
    let is = |label: &NamedSetting<'_>, name: &str| label.name.eq_ignore_ascii_case(name);
    if let (Publication::Unknown, Some(first)) = (publication, labels.first()) {
        account.ledger.fill_in(format!(
            "[[route]] of the service {name}: Traefik publishes it unless exposedByDefault is false, which is not in the input: {}",
            tree::entry(first.node).map(|id| account.ledger.comment(id)).unwrap_or_default()
        ));
    }
    let mut own = YamlNode::Map(Vec::new());
    let mut first = None;
    for label in labels {
        if let Publication::Hidden(reason) = publication {
            account.idle(label.node, reason);
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
pub(super) fn runs_traefik(service: &YamlNode) -> bool {
    let image = text(service, "image").unwrap_or_default();
    let name = image.rsplit('/').next().unwrap_or_default();
    let is_argument = |it: &NamedSetting<'_>| {
        let name = it.name.to_ascii_lowercase();
        name.starts_with("entrypoints.") || name.starts_with("providers.")
    };
    name.split([':', '@']).next() == Some("traefik") || arguments(service).iter().any(is_argument)
}
