//! Tells objects of Kubernetes that no request depends on from those that lead or restrict requests.

use super::yaml::YamlNode;
use crate::ledger::Ledger;

/// Kinds of objects that lead no request anywhere.
const IDLE_KINDS: [&str; 69] = [
    "APIService",
    "AlertmanagerConfig",
    "CSIDriver",
    "CSINode",
    "Certificate",
    "CertificateRequest",
    "Challenge",
    "ClusterExternalSecret",
    "ClusterIssuer",
    "ClusterRole",
    "ClusterRoleBinding",
    "ClusterSecretStore",
    "ConfigMap",
    "ControllerRevision",
    "CronJob",
    "CustomResourceDefinition",
    "DaemonSet",
    "Deployment",
    "EndpointSlice",
    "Endpoints",
    "Event",
    "ExternalSecret",
    "FlowSchema",
    "GitRepository",
    "HelmChart",
    "HelmRelease",
    "HelmRepository",
    "HorizontalPodAutoscaler",
    "IngressClass",
    "Issuer",
    "Job",
    "Kustomization",
    "Lease",
    "LimitRange",
    "MutatingWebhookConfiguration",
    "Namespace",
    "Node",
    "Order",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "PodDisruptionBudget",
    "PodMonitor",
    "PodSecurityPolicy",
    "PodTemplate",
    "PriorityClass",
    "PriorityLevelConfiguration",
    "Probe",
    "PrometheusRule",
    "ReplicaSet",
    "ReplicationController",
    "ResourceQuota",
    "Role",
    "RoleBinding",
    "RuntimeClass",
    "SealedSecret",
    "Secret",
    "SecretStore",
    "ServiceAccount",
    "ServiceMonitor",
    "StatefulSet",
    "StorageClass",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
    "VerticalPodAutoscaler",
    "VolumeAttachment",
    "VolumeSnapshot",
    "VolumeSnapshotClass",
];

/// The reason for an object of these kinds.
const IDLE: &str = "it leads no request anywhere";

/// Returns the reason for which objects of a kind are left out that neither lead nor restrict requests to a gateway; `None` for others.
pub(crate) fn idle_reason(kind: &str) -> Option<&'static str> {
    match kind {
        "NetworkPolicy" => {
            Some("it restricts connections of pods, whatever gateway they come from")
        }
        kind => IDLE_KINDS.contains(&kind).then_some(IDLE),
    }
}

/// Leaves out an object that is no Ingress, Service or ConfigMap. Of a kind that may lead or restrict requests it is to be filled in.
pub(super) fn leave_out(object: &YamlNode, kind: &str, ledger: &mut Ledger) {
    let version = object.get("apiVersion").and_then(YamlNode::text);
    let is_traefik = version.is_some_and(|it| it.starts_with("traefik."));
    let idle = idle_reason(kind).filter(|_| !is_traefik);
    let lost = match is_traefik {
        true => "it is an object of Traefik; import it with --format traefik",
        false => {
            "Ingress, Service and the ConfigMap of ingress-nginx are imported; an object of this kind may lead or restrict requests"
        }
    };
    let reason = idle.unwrap_or(lost);
    for id in object.entries() {
        ledger.left_out(id, reason);
    }
    let kind = object.get("kind").unwrap_or(object);
    if let Some(id) = kind.entries().first().filter(|_| idle.is_none()) {
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
        for idle in [
            "cert-manager.io/v1\nkind: Certificate",
            "storage.k8s.io/v1\nkind: StorageClass",
            "networking.k8s.io/v1\nkind: NetworkPolicy",
        ] {
            assert_eq!(reported(&format!("apiVersion: {idle}\n")), "");
        }
    }
}
