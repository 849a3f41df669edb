//! Reads the notations of Traefik into one tree: files in YAML and TOML, labels of containers, and objects of Kubernetes.

use super::account::TreeAccount;
use super::compose;
use super::kubernetes::{self, ClusterObjects};
use super::tree::{self, member, merge, unqualified};
use crate::bounds;
use crate::ingress::yaml::{self, YamlNode};
use crate::ledger::EntryId;
use crate::position::{Position, SyntaxError};
use crate::source::IncludedFiles;

/// The configuration of all notations.
pub(super) struct TraefikConfig {
    /// `http`, `tls`, `entryPoints` and the like, as in a file.
    pub(super) root: YamlNode,
    /// The entries of all values.
    pub(super) entries: Vec<EntryId>,
    /// Paths of the machine by those of the container that runs Traefik.
    pub(super) mounts: Vec<(String, String)>,
    /// True if the file with Traefik's own configuration could not be read.
    pub(super) lacks_static: bool,
    /// Compose files.
    composed: Vec<YamlNode>,
    /// The bytes of all files.
    bytes: usize,
}

/// Members of a file that change no answer, with the reason.
const IDLE: [(&str, &str); 10] = [
    ("core", "rules of both versions are read"),
    ("log", "see [log]"),
    ("accessLog", "see [log]"),
    ("metrics", "see [admin]"),
    ("tracing", "see [tracing]"),
    ("api", "Traefik's own pages; see [admin]"),
    ("ping", "see /healthz of [admin]"),
    ("global", "it is about Traefik itself"),
    ("providers", "what it publishes is read from the input"),
    (
        "hostResolver",
        "names of origins are resolved by the system",
    ),
];

/// Reads a text with the files that it includes.
pub(super) fn read(
    name: &str,
    text: &str,
    files: &dyn IncludedFiles,
    account: &mut TreeAccount<'_>,
) -> Result<TraefikConfig, SyntaxError> {
    let mut config = TraefikConfig {
        root: YamlNode::Map(Vec::new()),
        entries: Vec::new(),
        mounts: Vec::new(),
        lacks_static: false,
        composed: Vec::new(),
        bytes: 0,
    };
    let mut cluster = ClusterObjects::default();
    config.add(name, text, &mut cluster, account)?;
    let composed = std::mem::take(&mut config.composed);
    compose::add(&mut config, &composed, files, account)?;
    for (id, pattern) in config.included() {
        match files.read(&pattern) {
            Err(reason) => {
                let reason = format!("it cannot be read: {reason}");
                account.lost(&tree::scalar(id, ""), "providers.file", &reason);
            }
            Ok(found) if found.len() > bounds::INCLUDED_FILES => {
                let most = bounds::INCLUDED_FILES;
                let reason = format!("more than {most} files are included");
                account.lost(&tree::scalar(id, ""), "providers.file", &reason);
            }
            Ok(found) => {
                account.ledger.translated(id);
                for file in found {
                    config.add(&file.name, &file.text, &mut cluster, account)?;
                }
            }
        }
    }
    merge(&mut config.root, kubernetes::tree(&cluster, account));
    report_providers(&config, account);
    for (name, reason) in IDLE {
        if let Some(node) = member(&config.root, name) {
            account.idle(node, reason);
        }
    }
    Ok(config)
}

/// Providers whose routers are in the input.
const READ_PROVIDERS: [&str; 6] = [
    "docker",
    "file",
    "kubernetesCRD",
    "kubernetesIngress",
    "providersThrottleDuration",
    "swarm",
];

/// Members of providers by which some objects of a cluster are not published.
const SELECTING: [&str; 3] = ["ingressClass", "labelSelector", "namespaces"];

/// Records the providers whose routers are not in the input, and those that publish a part of what is.
fn report_providers(config: &TraefikConfig, account: &mut TreeAccount<'_>) {
    for (name, node) in config.members("providers") {
        let place = format!("providers.{name}");
        if !READ_PROVIDERS
            .iter()
            .any(|it| it.eq_ignore_ascii_case(name))
        {
            account.lost(
                node,
                &place,
                "the routers of this provider are not in the input",
            );
        }
        for selector in SELECTING.iter().filter_map(|it| member(node, it)) {
            let reason = "it decides which objects are published; remove the routes of others";
            account.lost(selector, &place, reason);
        }
    }
}

impl TraefikConfig {
    /// Adds a file.
    pub(super) fn add(
        &mut self,
        name: &str,
        text: &str,
        cluster: &mut ClusterObjects,
        account: &mut TreeAccount<'_>,
    ) -> Result<(), SyntaxError> {
        self.bytes += text.len();
        if self.bytes > bounds::INPUT_BYTES {
            let most = bounds::INPUT_BYTES;
            let message = format!("the input has more than {most} bytes with all that it includes");
            return Err(Position::start(&name.into()).error(message));
        }
        let documents = match is_toml(text) {
            true => vec![tree::parse_toml(name, text, account.ledger)?],
            false => yaml::parse(name, text, account.ledger)?,
        };
        for document in documents {
            self.entries.extend(document.entries());
            let is_object = member(&document, "apiVersion").is_some();
            if is_object || matches!(document, YamlNode::List(_)) {
                cluster.add(document, account);
            } else if member(&document, "services").is_some() {
                let document = compose::with_listed_commands(document, &mut self.entries, account);
                self.composed.push(document);
            } else {
                merge(&mut self.root, document);
            }
        }
        Ok(())
    }

    /// Returns the files of the provider `file`, each with its entry.
    fn included(&self) -> Vec<(EntryId, String)> {
        let file = |name: &str| tree::at(&self.root, &format!("providers.file.{name}"));
        let mut found = Vec::new();
        if let Some(YamlNode::Scalar { id, text }) = file("filename") {
            found.push((*id, compose::path_of_machine(&self.mounts, text)));
        }
        if let Some(YamlNode::Scalar { id, text }) = file("directory") {
            let directory = compose::path_of_machine(&self.mounts, text.trim_end_matches('/'));
            let endings = ["yml", "yaml", "toml"];
            found.extend(endings.map(|ending| (*id, format!("{directory}/*.{ending}"))));
        }
        found
    }

    /// Returns the members of a map below the root.
    pub(super) fn members(&self, path: &str) -> &[(String, YamlNode)] {
        tree::at(&self.root, path).map_or(&[], YamlNode::members)
    }

    /// Returns an element of a map below the root by its name. `@file` and the like behind it name its source.
    pub(super) fn named(&self, path: &str, name: &str) -> Option<(&str, &YamlNode)> {
        let name = unqualified(name);
        let mut members = self.members(path).iter();
        let found = members.find(|(key, _)| unqualified(key).eq_ignore_ascii_case(name));
        found.map(|(key, value)| (unqualified(key), value))
    }
}

/// Returns true if the first line of a text is TOML's.
fn is_toml(text: &str) -> bool {
    let mut lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with('#'));
    first.is_some_and(|line| {
        let is_table = line.starts_with('[') && line.trim_end().ends_with(']');
        let is_list = line.contains(',') || line.contains('{');
        let key = line.split('=').next().unwrap_or_default();
        (is_table && !is_list) || (line.contains('=') && !key.contains([':', '{', '"', '-']))
    })
}

/// Returns true if a text is a configuration of Traefik.
pub(crate) fn is_traefik(text: &str) -> bool {
    let lines = || text.lines().map(|line| line.trim_start_matches('\u{feff}'));
    let is_section = |line: &str| {
        let line = line.to_ascii_lowercase();
        let name = line.trim_start_matches('[');
        let is_table = [
            "http.",
            "tls.",
            "tcp.",
            "entrypoints",
            "certificatesresolvers",
        ]
        .iter()
        .any(|it| name.starts_with(it) && line.starts_with('['));
        let is_member = ["entrypoints:", "certificatesresolvers:"];
        is_table || is_member.iter().any(|it| line.starts_with(it))
    };
    let is_object = |line: &str| {
        let line = line.trim_start_matches([' ', '-', '"', '{']);
        line.starts_with("apiVersion")
            && (line.contains("traefik.io/") || line.contains("traefik.containo.us/"))
    };
    // Labels and arguments stand in lines of their own or behind the name of their list.
    let plain = |line: &str| {
        let line = line.trim_start_matches([' ', '-', '"', '\'']);
        let named = ["labels:", "command:", "environment:"];
        let listed = named.iter().find_map(|it| line.strip_prefix(it));
        let listed = listed.map(|it| it.trim_start_matches([' ', '-', '[', '{', '"', '\'']));
        listed.unwrap_or(line).to_ascii_lowercase()
    };
    let is_label = |line: &str| {
        let line = plain(line);
        line.starts_with("traefik.") && line.contains(['=', ':'])
    };
    let is_argument = |line: &str| {
        let line = plain(line);
        let names = ["entrypoints.", "certificatesresolvers.", "providers."];
        names.iter().any(|it| line.starts_with(it))
    };
    let is_image = |line: &str| {
        let line = line.trim_start_matches([' ', '-']);
        let image = line.strip_prefix("image:");
        image.is_some_and(|it| {
            it.trim_matches([' ', '"', '\''])
                .rsplit('/')
                .next()
                .is_some_and(|it| it.starts_with("traefik"))
        })
    };
    let has = |is: &dyn Fn(&str) -> bool| lines().any(is);
    let kinds = ["routers:", "services:", "middlewares:"];
    let is_file = lines().any(|line| line.trim_end() == "http:" || line.starts_with("tls:"))
        && lines().any(|line| line.starts_with([' ', '\t']) && kinds.contains(&line.trim()));
    let is_compose = lines().any(|line| line.trim_end() == "services:");
    has(&is_object)
        || has(&is_section)
        || is_file
        || (is_compose && (has(&is_label) || has(&is_argument) || has(&is_image)))
}
