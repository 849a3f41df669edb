//! The formats that can be imported, and how each is recognized.

use crate::caddy;
use crate::haproxy::{PREPROCESSOR, SECTIONS};
use crate::traefik::is_traefik;

/// The proxy that a configuration is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// nginx, also a part of a configuration without `http { }`.
    Nginx,
    /// HAProxy.
    Haproxy,
    /// Manifests of Kubernetes with annotations of ingress-nginx.
    Ingress,
    /// A Caddyfile.
    Caddy,
    /// Traefik: files, labels of Compose, objects of Kubernetes.
    Traefik,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 5] = [
        Self::Nginx,
        Self::Haproxy,
        Self::Ingress,
        Self::Caddy,
        Self::Traefik,
    ];

    /// Returns the name that the command line has for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::Ingress => "ingress",
            Self::Caddy => "caddy",
            Self::Traefik => "traefik",
        }
    }

    /// Returns the format of a text by its first lines; `None` where they are of no format.
    #[must_use]
    pub fn detect(text: &str) -> Option<Self> {
        let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
        let first = lines
            .into_iter()
            .find(|line| !line.is_empty() && !line.starts_with('#'))?;
        let mut words = first.split_whitespace();
        let word = words.next()?;
        // No directive of nginx and no member of YAML stands alone with one of these words.
        let code = first.split('#').next().unwrap_or_default().trim_end();
        let is_haproxy = SECTIONS.contains(&word) || PREPROCESSOR.contains(&word);
        if is_haproxy && !code.ends_with([';', '{']) {
            return Some(Self::Haproxy);
        }
        if is_traefik(text) {
            return Some(Self::Traefik);
        }
        let is_manifest = |line: &str| line.starts_with("apiVersion:") || line.starts_with("kind:");
        // What `kubectl get -o json` prints.
        let is_json = first.starts_with('{') && text.contains("\"apiVersion\":");
        if is_json || text.lines().any(is_manifest) {
            return Some(Self::Ingress);
        }
        if caddy::begins(text) {
            return Some(Self::Caddy);
        }
        // Lines of YAML, JSON, TOML and Terraform.
        let is_other = first.ends_with(':')
            || first.starts_with(['{', '[', '-'])
            || ["resource", "variable", "provider", "terraform"].contains(&word);
        (!is_other && text.contains([';', '{'])).then_some(Self::Nginx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: rules of other products are not taken for those of nginx. Method: the first lines of some.
    #[test]
    fn other_notations_are_no_nginx() {
        for text in [
            "{\"rules\": [{\"action\": \"block\"}]}\n",
            "resource \"cloudflare_ruleset\" \"x\" {\n}\n",
        ] {
            assert_eq!(Format::detect(text), None, "{text}");
        }
        assert_eq!(Format::detect("# x\nuser www;\n"), Some(Format::Nginx));
        assert_eq!(Format::detect("server\n{\n"), Some(Format::Nginx));
    }

    /// Goal: each notation of Traefik is told from manifests of ingress-nginx and from other files. Method: the beginnings of some.
    #[test]
    fn notations_of_traefik_are_recognized() {
        for text in [
            "http:\n  routers:\n    a:\n      rule: \"Path(`/{id}`)\"\n",
            "[http.routers]\nrule = \"Path(`/{id}`)\"\n",
            "# x\nentryPoints:\n  web:\n    address: \":80\"\n",
            "[entryPoints.web]\naddress = \":80\"\n",
            "services:\n  a:\n    labels:\n      - \"traefik.enable=true\"\n",
            "services:\n  a:\n    labels:\n      traefik.http.routers.a.rule: Host(`a`)\n",
            "services:\n  t:\n    command:\n      - --entrypoints.web.address=:80\n",
            "apiVersion: traefik.io/v1alpha1\nkind: IngressRoute\n",
            "apiVersion: v1\nkind: List\nitems:\n- apiVersion: traefik.containo.us/v1alpha1\n",
            "tls:\n  options:\n    default: {}\nhttp:\n  middlewares:\n    a: {}\n",
        ] {
            assert_eq!(Format::detect(text), Some(Format::Traefik), "{text}");
        }
        for (text, format) in [
            (
                "apiVersion: networking.k8s.io/v1\nkind: Ingress\n",
                Some(Format::Ingress),
            ),
            (
                "{\n    \"apiVersion\": \"v1\",\n    \"items\": [\n        {\n            \"kind\": \"Ingress\"\n",
                Some(Format::Ingress),
            ),
            (
                "{\"apiVersion\":\"networking.k8s.io/v1\",\"kind\":\"Ingress\"}",
                Some(Format::Ingress),
            ),
            (
                "{\n  \"apiVersion\": \"traefik.io/v1alpha1\",\n  \"kind\": \"IngressRoute\"\n}\n",
                Some(Format::Traefik),
            ),
            ("services:\n  a:\n    image: nginx\n", None),
            ("[[route]]\npath = \"/\"\n", None),
        ] {
            assert_eq!(Format::detect(text), format, "{text}");
        }
    }

    /// Goal: a configuration of HAProxy may begin with any section. Method: each of them behind comments, and those of the preprocessor.
    #[test]
    fn every_section_of_haproxy_is_recognized() {
        for word in SECTIONS.iter().chain(&PREPROCESSOR) {
            let text = format!("# made by hand {{\n\n  # again\n{word} one # {{\n  x y\n");
            assert_eq!(Format::detect(&text), Some(Format::Haproxy), "{word}");
        }
        assert_eq!(Format::detect("cache one {\n}\n"), Some(Format::Nginx));
    }
}
