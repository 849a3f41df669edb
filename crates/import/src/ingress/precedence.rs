//! Decides which Ingress has a path that several name, as ingress-nginx does: the older one. Canaries have none.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::yaml::YamlNode;
use crate::ledger::Ledger;
use crate::model::Route;

/// The annotation of a canary.
const CANARY: &str = "nginx.ingress.kubernetes.io/canary";

/// Returns the Ingresses, the oldest first, without canaries, which are left out. Without times of creation their order is that of the
/// input, in which they would be created.
pub(super) fn by_age<'n>(ingresses: Vec<&'n YamlNode>, ledger: &mut Ledger) -> Vec<&'n YamlNode> {
    let (canaries, mut others): (Vec<_>, Vec<_>) =
        ingresses.into_iter().partition(|it| is_canary(it));
    for id in canaries.into_iter().flat_map(YamlNode::entries) {
        let reason = "it is of a canary, which gets a part of the requests of another Ingress; see `weight` of the servers of an origin";
        ledger.left_out(id, reason);
    }
    if others.iter().all(|it| created(it).is_some()) {
        // Of two with the same time ingress-nginx takes the one whose name is greater.
        others.sort_by(|one, other| {
            let age = created(one).cmp(&created(other));
            age.then_with(|| name(other).cmp(&name(one)))
        });
        let times = others.iter().filter_map(|it| it.at(&CREATED));
        for id in times.flat_map(YamlNode::entries) {
            ledger.translated(id);
        }
    }
    others
}

fn is_canary(ingress: &YamlNode) -> bool {
    let annotation = ingress.at(&["metadata", "annotations", CANARY]);
    annotation.and_then(YamlNode::text) == Some("true")
}

/// The way to the time of creation: RFC 3339 in UTC, which is ordered as its text.
const CREATED: [&str; 2] = ["metadata", "creationTimestamp"];

fn created(ingress: &YamlNode) -> Option<&str> {
    let text = ingress.at(&CREATED)?.text()?;
    text.ends_with('Z').then_some(text)
}

fn name(ingress: &YamlNode) -> (Option<&str>, Option<&str>) {
    let member = |name| ingress.at(&["metadata", name]).and_then(YamlNode::text);
    (member("namespace"), member("name"))
}

/// The claim of a path to its requests; of two paths that take the same requests the stronger one has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PathStrength {
    DefaultBackend,
    Prefix,
    Exact,
}

/// A path of a host with its type, as an Ingress writes it.
type WrittenPath = (Option<String>, String, String);

/// The paths that Ingresses have.
#[derive(Default)]
pub(super) struct PathClaims {
    /// Names of the Ingresses that have written paths.
    written: BTreeMap<WrittenPath, String>,
    /// Strengths of the paths of routes, by host and path.
    routes: BTreeMap<(Option<String>, String), PathStrength>,
}

impl PathClaims {
    /// Returns true if an older Ingress has a path; then its values are left out.
    pub(super) fn is_held(
        &mut self,
        path: &YamlNode,
        (host, ingress): (Option<&str>, &str),
        ledger: &mut Ledger,
    ) -> bool {
        let text = |name: &str| path.get(name).and_then(YamlNode::text);
        let key = (
            host.map(str::to_ascii_lowercase),
            text("path").unwrap_or("/").to_owned(),
            text("pathType")
                .unwrap_or("ImplementationSpecific")
                .to_owned(),
        );
        let Some(holder) = self.written.get(&key) else {
            self.written.insert(key, ingress.to_owned());
            return false;
        };
        for id in path.entries() {
            ledger.left_out(
                id,
                format!("{holder} comes first by age and has this path of this host"),
            );
        }
        true
    }

    /// Returns true if a path of a route takes its requests, also from a weaker one.
    pub(super) fn takes(
        &mut self,
        (host, path): (&Option<String>, &str),
        strength: PathStrength,
    ) -> bool {
        let held = self.routes.entry((host.clone(), path.to_owned()));
        let is_new = matches!(held, Entry::Vacant(_));
        let held = held.or_insert(strength);
        let is_stronger = *held < strength;
        *held = strength.max(*held);
        is_new || is_stronger
    }

    /// Returns true if no stronger path has taken the requests of a path of a route.
    pub(super) fn has(&self, route: &Route, strength: PathStrength) -> bool {
        let key = (route.host.clone(), route.path.clone());
        self.routes.get(&key).is_none_or(|it| *it == strength)
    }
}
