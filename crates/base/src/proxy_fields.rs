//! The table of request fields that origins read as the word of a proxy in front of them: address, scheme, host and path of the original
//! request, the certificate or the account that the proxy verified, and switches between a proxy and its origin.
//!
//! Families come first: a prefix covers what its vendor adds next year. Single names follow where a family would cover fields that
//! clients send themselves (`X-Amz-Date`, `X-Client-Version`, `Fastly-Key`). Suffixes cover the fields that every vendor invents
//! anew: no client has to tell its own address.
//!
//! # Invariants
//!
//! 1. Every entry is in lower case, with `-` for every character that is neither a letter nor a digit.
//! 2. `NAMES` and `PREFIXES` are sorted, and no prefix is a prefix of another: the only one that can match a name is the last that is
//!    not greater.

use http::HeaderName;

/// The scheme that the client used, as the proxy in front says.
pub const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
/// The chain of addresses.
pub const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Fields that are read in place of the request's own path or method. `[server] path_override_headers = "pass"` lets clients send them.
pub const OVERRIDES: [&str; 9] = [
    "x-forwarded-uri",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-method",
    "x-original-uri",
    "x-original-url",
    "x-override-url",
    "x-rewrite-url",
];

/// Families.
#[rustfmt::skip]
const PREFIXES: &[&str] = &[
    // WebLogic's and WebSphere's plug-ins; the latter begin with a dollar sign ($WSRA, $WSIS).
    "-ws",
    // Cloudflare. Not CF-Access-Client-Id and -Secret, which clients send.
    "cf-access-authenticated-", "cf-access-jwt-", "cf-cert-", "cf-connecting-", "cf-ip", "cf-pseudo-", "cf-ray", "cf-region",
    "cf-visitor", "cf-worker",
    // RFC 9440.
    "client-cert",
    "cloudfront-",
    "fastly-client", "fastly-ff", "fastly-orig-", "fastly-ssl",
    "fly-client-", "fly-forwarded-",
    // RFC 7239, and what came before it.
    "forwarded",
    // Linkerd.
    "l5d-",
    // ASP.NET Core behind IIS.
    "ms-aspnetcore-",
    // Apache and nginx in front of Java: Tomcat's SSLValve reads `ssl_client_cert`.
    "ssl-",
    "tailscale-", "teleport-jwt-",
    "true-client-",
    "wl-proxy-",
    // nginx and Rack::Sendfile.
    "x-accel-",
    "x-akamai-",
    "x-amz-cf-", "x-amzn-lambda-", "x-amzn-mtls-", "x-amzn-oidc-", "x-amzn-request-context", "x-amzn-tls-",
    "x-anonymous-consumer",
    "x-appengine-",
    // IIS and Azure App Service.
    "x-appservice-", "x-arr-",
    "x-auth-request-",
    "x-authenticated-", "x-authentik-",
    "x-azure-",
    "x-client-cert", "x-client-ssl",
    "x-consumer-",
    "x-envoy-",
    "x-fd-",
    "x-forwarded",
    "x-goog-authenticated-user-", "x-goog-iap-",
    "x-iis-",
    "x-ms-client-principal", "x-ms-token-",
    "x-mtls-",
    "x-nf-",
    // ASP.NET Core keeps what it replaced here; nginx's auth_request and ingress controllers write it too.
    "x-original-",
    "x-pomerium-",
    // NiFi and others: X-ProxyHost, X-Proxy-Scheme.
    "x-proxy",
    "x-real-", "x-remote-", "x-rewrite-",
    "x-sendfile",
    "x-ssl-", "x-sucuri-", "x-tls-",
    "x-vercel-forwarded-", "x-vercel-ip-", "x-vercel-proxied-",
    "x-vouch-",
    "x-waws-", "x-webauth-",
];

/// Single names.
#[rustfmt::skip]
const NAMES: &[&str] = &[
    "disguised-host", "front-end-https",
    // CGI makes HTTP_HTTPS of it.
    "https",
    "path-info",
    // httpoxy: CGI turns it into HTTP_PROXY.
    "proxy",
    // GlassFish.
    "proxy-auth-cert", "proxy-keysize",
    "remote-addr", "remote-email", "remote-groups", "remote-host", "remote-name", "remote-user",
    "script-name",
    // Symfony answers with ESI tags where a proxy says that it fills them in.
    "surrogate-capability",
    "was-default-hostname",
    "x-apigateway-api-userinfo",
    // Cloud Foundry, to a route service.
    "x-cf-forwarded-url",
    "x-client-dn", "x-client-verify",
    "x-credential-identifier", "x-credential-username",
    "x-endpoint-api-userinfo",
    "x-forward-for",
    "x-host", "x-http-host-override", "x-http-method", "x-http-method-override", "x-https",
    "x-ingress-path",
    // Next.js, between its own servers; with X-Middleware-Subrequest it takes a request for one that its middleware has seen.
    "x-invoke-output", "x-invoke-path", "x-invoke-query", "x-invoke-status",
    "x-matched-path",
    "x-method-override",
    "x-middleware-subrequest",
    "x-ms-original-url",
    "x-now-route-matches",
    "x-override-url", "x-proto", "x-replaced-path", "x-scheme",
    "x-script-name", "x-ssl", "x-url-scheme", "x-userinfo",
];

/// Endings, whatever stands before them.
const SUFFIXES: &[&str] = &[
    "-client-cert",
    "-clientip",
    "-forwarded-for",
    "-forwarded-host",
    "-forwarded-proto",
    "-ip",
    "-remote-addr",
    "-remote-user",
];

/// Returns the name in lower case, with a dash for each character that is neither a letter nor a digit. Apache and lighttpd take all of
/// them for one, PHP the dot as well as the underscore.
#[must_use]
pub fn dashed(name: &str) -> Box<str> {
    let dash = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() => char::from(byte.to_ascii_lowercase()),
        _ => '-',
    };
    name.bytes().map(dash).collect()
}

/// Returns whether origins read the field `name`, in the form of invariant 1, as the word of a proxy.
#[must_use]
pub fn is_proxy_field(name: &str) -> bool {
    NAMES.binary_search(&name).is_ok() || has_prefix(name) || has_suffix(name)
}

/// Returns whether a proxy writes the URL that the client asked for, or a part of it, into the field `name`: origins make links of it.
#[must_use]
pub fn tells_url(name: &str) -> bool {
    const OTHERS: [&str; 10] = [
        "front-end-https",
        "script-name",
        "x-host",
        "x-http-host-override",
        "x-ingress-path",
        "x-original-host",
        "x-proto",
        "x-scheme",
        "x-script-name",
        "x-url-scheme",
    ];
    (name.starts_with("x-forwarded-") && name != "x-forwarded-for")
        || OTHERS.binary_search(&name).is_ok()
}

fn has_prefix(name: &str) -> bool {
    let behind = PREFIXES.partition_point(|prefix| *prefix <= name);
    let last = behind.checked_sub(1).and_then(|at| PREFIXES.get(at));
    last.is_some_and(|prefix| name.starts_with(prefix))
}

fn has_suffix(name: &str) -> bool {
    SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}

/// A look at the first two and the last two letters of a name that rules most fields out before they are compared with a table.
#[derive(Clone, Debug)]
pub struct NameFilter {
    /// By the first letter: the second letters that occur behind it.
    starts: [u32; 27],
    /// By the last letter of suffixes: the letters that occur before it.
    ends: [u32; 27],
}

impl NameFilter {
    /// The filter of the table and of names that begin with one of `more`.
    #[must_use]
    pub fn with<'a>(more: impl IntoIterator<Item = &'a str>) -> Self {
        let mut filter = Self {
            starts: [0; 27],
            ends: [0; 27],
        };
        for name in PREFIXES.iter().chain(NAMES).copied().chain(more) {
            match name.as_bytes() {
                [first, second, ..] => filter.starts[slot(*first)] |= 1 << slot(*second),
                [first] => filter.starts[slot(*first)] = u32::MAX,
                [] => {}
            }
        }
        for suffix in SUFFIXES {
            if let [.., before, last] = suffix.as_bytes() {
                filter.ends[slot(*last)] |= 1 << slot(*before);
            }
        }
        filter
    }

    /// Returns whether `name`, in lower case, may be in the table; `false` is certain.
    #[must_use]
    pub fn may_hold(&self, name: &[u8]) -> bool {
        let [first, second, .., before, last] = name else {
            return true;
        };
        self.starts[slot(*first)] & (1 << slot(*second)) != 0
            || self.ends[slot(*last)] & (1 << slot(*before)) != 0
    }
}

/// One of 26 for a letter, one for all else.
fn slot(byte: u8) -> usize {
    match byte {
        b'a'..=b'z' => usize::from(byte - b'a'),
        _ => 26,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a look-up finds what is listed. Method: the order that the search relies on, and every entry by itself.
    #[test]
    fn every_entry_of_the_table_is_found() {
        for list in [PREFIXES, NAMES, &OVERRIDES[..]] {
            assert!(list.windows(2).all(|pair| pair[0] < pair[1]), "{list:?}");
            assert!(list.iter().all(|name| is_proxy_field(name)), "{list:?}");
        }
        for (at, prefix) in PREFIXES.iter().enumerate() {
            let longer = PREFIXES.iter().skip(at + 1);
            assert!(longer.clone().all(|name| !name.starts_with(prefix)));
            assert!(is_proxy_field(&format!("{prefix}zz")), "{prefix}");
        }
        let filter = NameFilter::with([]);
        for name in PREFIXES.iter().chain(NAMES).chain(SUFFIXES) {
            assert!(filter.may_hold(name.as_bytes()), "{name}");
        }
    }

    /// Goal: the fields that clients and their libraries send themselves are not taken for a proxy's. Method: those of browsers, of SDKs
    /// and of services whose proxies are in the table.
    #[test]
    fn fields_of_clients_are_no_proxy_fields() {
        let names = "accept accept-encoding access-control-request-method authorization b3 cache-control cf-access-client-id \
             cf-access-client-secret content-length content-type cookie fastly-key host if-none-match ip origin priority \
             proxy-authorization referer sec-ch-ua-platform sec-fetch-site sec-websocket-key soapaction traceparent \
             upgrade-insecure-requests user-agent via x-amz-date x-amz-security-token x-api-key x-auth-token x-client-data \
             x-client-version x-csrf-token x-goog-api-key x-membership x-ms-date x-plan x-request-id x-requested-with \
             x-tenant";
        for name in names.split_whitespace() {
            assert!(!is_proxy_field(name), "{name}");
        }
    }

    /// Goal: the names that issue reports and vendors quote are covered. Method: one of each.
    #[test]
    fn fields_of_proxies_are_found() {
        let names = "cdn-real-ip cf-connecting-ip cf-ipcountry cf-visitor client-ip cloudfront-viewer-address fastly-client-ip \
             forwarded forwarded-for front-end-https https proxy proxy-client-ip remote-user ssl-client-cert true-client-ip \
             wl-proxy-ssl x-accel-mapping x-amz-cf-id x-amzn-oidc-identity x-appengine-user-email x-arr-clientcert \
             x-arr-ssl x-azure-socketip x-client-cert x-client-ip x-cluster-client-ip x-envoy-external-address \
             x-envoy-original-path x-forwarded x-forwarded-by x-forwarded-client-cert x-forwarded-email x-forwarded-groups \
             x-forwarded-path x-forwarded-port x-forwarded-prefix x-forwarded-scheme x-forwarded-server x-forwarded-ssl \
             x-forwarded-uri x-forwarded-user x-middleware-subrequest x-my-cdn-connecting-ip x-original-host x-originating-ip x-real-ip \
             x-real-port x-remote-user x-script-name x-sendfile-type x-ssl-client-dn x-url-scheme";
        for name in names.split_whitespace() {
            assert!(is_proxy_field(name), "{name}");
        }
    }
}
