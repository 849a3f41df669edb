//! Decides which services of a Compose file Traefik publishes: `exposedByDefault`, `traefik.enable` and `constraints`.

use super::account::TreeAccount;
use super::constraints::LabelConstraint;
use super::labels::NamedSetting;
use super::notations::TraefikConfig;
use super::tree::{self, is_on, text};
use crate::ingress::yaml::YamlNode;

/// The providers that read labels, with the one that reads those below `deploy`.
const CONTAINERS: &str = "providers.docker";
const SERVICES: &str = "providers.swarm";

/// The place of the labels of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LabelPlace {
    Container,
    Deployment,
}

/// The rules of all providers.
pub(super) struct PublicationRules {
    containers: Option<ProviderRules>,
    services: Option<ProviderRules>,
    /// True if the configuration of the providers is in the input, or a line says that it is not.
    is_known: bool,
}

struct ProviderRules {
    exposes: bool,
    constraint: Option<LabelConstraint>,
}

/// The decision about a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Publication {
    Published,
    /// It has no route, for this reason.
    Hidden(&'static str),
    /// It depends on what the input lacks.
    Unknown,
}

impl PublicationRules {
    /// Reads the providers of a configuration.
    pub(super) fn read(config: &TraefikConfig, account: &mut TreeAccount<'_>) -> Self {
        let root = &config.root;
        let docker = tree::at(root, CONTAINERS).filter(|it| !tree::is_off(it));
        let swarm = tree::at(root, SERVICES).filter(|it| !tree::is_off(it));
        let is_swarm = docker.is_some_and(|it| is_on(it, "swarmMode"));
        let known = ["providers", "entryPoints"];
        let has_static = known.iter().any(|it| tree::member(root, it).is_some());
        let mut rules = Self {
            containers: docker
                .filter(|_| !is_swarm)
                .map(|it| ProviderRules::read(it, account)),
            services: swarm
                .or(docker.filter(|_| is_swarm))
                .map(|it| ProviderRules::read(it, account)),
            is_known: config.lacks_static || has_static,
        };
        // Without the configuration of Traefik the providers are those that read the labels.
        if !has_static || config.lacks_static {
            rules.containers.get_or_insert_default();
            rules.services.get_or_insert_default();
        }
        rules
    }

    fn provider(&self, place: LabelPlace) -> Option<&ProviderRules> {
        match place {
            LabelPlace::Container => self.containers.as_ref(),
            LabelPlace::Deployment => self.services.as_ref(),
        }
    }

    /// Decides about a service with these labels of a place.
    pub(super) fn decide(&self, place: LabelPlace, labels: &[NamedSetting<'_>]) -> Publication {
        let Some(rules) = self.provider(place) else {
            return Publication::Hidden(
                "no provider of Traefik's configuration reads labels of this place",
            );
        };
        let enable = labels
            .iter()
            .find(|it| it.name.eq_ignore_ascii_case("traefik.enable"));
        let value = |name: &str| {
            let label = labels.iter().find(|it| it.name == name);
            label.map(|it| it.value.as_str())
        };
        if rules
            .constraint
            .as_ref()
            .is_some_and(|it| !it.holds(&value))
        {
            return Publication::Hidden("its labels do not fulfil `constraints` of the provider");
        }
        match enable.map(|it| tree::label_truth(&it.value)) {
            Some(Some(false)) => Publication::Hidden("traefik.enable is false"),
            Some(None) => Publication::Hidden(
                "traefik.enable is neither true nor false, and Traefik ignores the service",
            ),
            Some(Some(true)) => Publication::Published,
            None if !rules.exposes => {
                Publication::Hidden("exposedByDefault is false, and traefik.enable is not true")
            }
            None if self.is_known => Publication::Published,
            None => Publication::Unknown,
        }
    }
}

impl Default for ProviderRules {
    fn default() -> Self {
        Self {
            exposes: true,
            constraint: None,
        }
    }
}

impl ProviderRules {
    fn read(provider: &YamlNode, account: &mut TreeAccount<'_>) -> Self {
        if let Some(node) = tree::member(provider, "exposedByDefault") {
            account.translated(node);
        }
        let exposes = text(provider, "exposedByDefault");
        let node = tree::member(provider, "constraints");
        let written = node.and_then(|it| Some((it, it.text()?.trim())));
        let constraint = written.filter(|(_, it)| !it.is_empty());
        let constraint = constraint.and_then(|(node, text)| match LabelConstraint::parse(text) {
            Ok(constraint) => {
                account.translated(node);
                Some(constraint)
            }
            Err(reason) => {
                let what = format!("it decides which services are published, and {reason}; remove the routes of others");
                account.lost(node, "constraints", &what);
                None
            }
        });
        Self {
            exposes: exposes.and_then(tree::truth) != Some(false),
            constraint,
        }
    }
}
