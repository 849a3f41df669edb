//! Tells objects of Kubernetes that no request depends on from those that lead or restrict requests.

use super::yaml::YamlNode;
use crate::ledger::Ledger;

/// Kinds of objects that lead no request anywhere.
const IDLE_KINDS: [&str; 34] = [
    "Certificate",
    "CertificateRequest",
    "ClusterIssuer",
    "ClusterRole",
    "ClusterRoleBinding",
    "ConfigMap",
    "ControllerRevision",
    "CronJob",
    "CustomResourceDefinition",
    "DaemonSet",
    "Deployment",
    "Endpoints",
    "EndpointSlice",
    "Event",
    "HorizontalPodAutoscaler",
    "IngressClass",
    "Issuer",
    "Job",
    "LimitRange",
    "Namespace",
    "NetworkPolicy",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "PodDisruptionBudget",
    "PodMonitor",
    "ReplicaSet",
    "ResourceQuota",
    "Role",
    "RoleBinding",
    "Secret",
    "ServiceAccount",
    "ServiceMonitor",
    "StatefulSet",
];

/// The reason for an object of these kinds.
pub(crate) const IDLE: &str = "it leads no request anywhere";

/// Returns true if objects of a kind lead no request anywhere.
pub(crate) fn is_idle(kind: &str) -> bool {
    IDLE_KINDS.contains(&kind)
}

/// Leaves out an object that is no Ingress, Service or ConfigMap. Of a kind that may lead or restrict requests it is to be filled in.
pub(super) fn leave_out(object: &YamlNode, kind: &str, ledger: &mut Ledger) {
    let version = object.get("apiVersion").and_then(YamlNode::text);
    let is_traefik = version.is_some_and(|it| it.starts_with("traefik."));
    let reason = match kind {
        _ if is_traefik => "it is an object of Traefik; import it with --format traefik",
        kind if is_idle(kind) => IDLE,
        _ => {
            "Ingress, Service and the ConfigMap of ingress-nginx are imported; an object of this kind may lead or restrict requests"
        }
    };
    for id in object.entries() {
        ledger.left_out(id, reason);
    }
    let kind = object.get("kind").unwrap_or(object);
    if let Some(id) = kind.entries().first().filter(|_| reason != IDLE) {
        ledger.fill_in_for(*id, reason);
    }
}

#[cfg(test)]
mod tests {
    use crate::{Format, NoFiles, import};

    /// Goal: an object that may restrict requests is never dropped in silence. Method: objects of Traefik and of another controller beside
    /// an Ingress, and one of a certificate.
    #[test]
    fn objects_that_lead_or_restrict_are_to_be_filled_in() {
        let ingress = "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: { name: a }\nspec: { defaultBackend: \
            { service: { name: a, port: { number: 80 } } } }\n";
        let reported = |object: &str| {
            let text = format!("{ingress}---\n{object}");
            let imported = import(Format::Ingress, "i", &text, &NoFiles).unwrap();
            imported.ledger.to_fill_in().join("\n")
        };
        let middleware = reported("apiVersion: traefik.io/v1alpha1\nkind: Middleware\n");
        assert!(middleware.contains("--format traefik"), "{middleware}");
        let policy = reported("apiVersion: k8s.nginx.org/v1\nkind: Policy\n");
        assert!(policy.starts_with("i:7: kind: Policy: "), "{policy}");
        assert_eq!(
            reported("apiVersion: cert-manager.io/v1\nkind: Certificate\n"),
            ""
        );
    }
}
