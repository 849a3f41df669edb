//! Routers and middlewares of a real Traefik beside the gateway with the import of the same text.

use std::fs;
use std::process::Command;

use super::peer::{self, Peer};
use super::*;
use crate::beside::program;

/// What only a static configuration of Traefik has.
const STATIC: &str = "providers: { file: { filename: \"{home}/site.yaml\" } }
global: { checkNewVersion: false, sendAnonymousUsage: false }
";

/// Routers of which several match a request, and middlewares of each kind that is compared.
const SITE: &str = r#"
entryPoints:
  web: { address: "127.0.0.1:8080" }
http:
  routers:
    site: { rule: "Host(`a.test`)", service: app }
    api: { rule: "Host(`a.test`) && PathPrefix(`/api`)", service: app, middlewares: [three, strip] }
    again: { rule: "Host(`b.test`)", service: app, middlewares: [three] }
    key: { rule: "Host(`key.test`)", service: app, middlewares: [by-key] }
    wide: { rule: "PathPrefix(`/wide/`)", priority: 1000, service: app, middlewares: [prefix] }
    narrow: { rule: "Host(`a.test`) && PathPrefix(`/wide/narrow/`)", service: app, middlewares: [nobody] }
    writes:
      rule: "Host(`a.test`) && Path(`/writes`) && !(Method(`GET`) || Header(`X-Plan`, `paid`))"
      service: app
      middlewares: [nobody]
    two: { rule: "(Host(`c.test`) || Host(`d.test`)) && Query(`page`, `2`)", service: app, middlewares: [replace] }
    www: { rule: "Host(`www.a.test`)", service: app, middlewares: [to-apex] }
    secure: { rule: "Host(`secure.test`)", service: app, middlewares: [to-https] }
    office: { rule: "Host(`office.test`)", service: app, middlewares: [local] }
    below: { rule: "HostRegexp(`^.+\\.below\\.test$`)", service: app, middlewares: [substitute] }
    small: { rule: "Host(`small.test`)", service: app, middlewares: [body] }
    flight: { rule: "Host(`flight.test`)", service: app, middlewares: [one] }
    reads: { rule: "Host(`reads.test`) && Method(`GET`)", service: app }
    spaced: { rule: "Host(`spaced.test`) && PathRegexp(`^/x\\s[^/]y$`)", service: app, middlewares: [nobody] }
    ready: { rule: "Path(`/ready`)", priority: 2000, service: "ping@internal" }
  middlewares:
    three: { rateLimit: { average: 1, period: 1m, burst: 3 } }
    by-key: { rateLimit: { average: 1, period: 1m, burst: 1, sourceCriterion: { requestHeaderName: X-Key } } }
    one: { inFlightReq: { amount: 1 } }
    strip: { stripPrefix: { prefixes: ["/api"] } }
    prefix: { addPrefix: { prefix: "/v1" } }
    replace: { replacePath: { path: "/second" } }
    substitute: { replacePathRegex: { regex: "^/old/(.*)", replacement: "/new/$1" } }
    nobody: { ipAllowList: { sourceRange: ["192.0.2.1"] } }
    local: { ipAllowList: { sourceRange: ["127.0.0.2/32"] } }
    to-apex: { redirectRegex: { regex: "^http://www\\.(.+)", replacement: "http://${1}", permanent: true } }
    to-https: { redirectScheme: { scheme: https } }
    body: { buffering: { maxRequestBodyBytes: 10 } }
  services:
    app: { loadBalancer: { servers: [{ url: "http://127.0.0.1:8081" }] } }
"#;

impl Peer {
    /// Starts Traefik with this text, whose part about entry points comes before `http`; `None` where there is no Traefik.
    async fn traefik(text: &str, origin: &Origin) -> Option<Self> {
        let program = program("SLUICEGATE_TEST_TRAEFIK", "traefik", "version")?;
        let traefik = Self::start(text, origin, |directory, file, _| {
            let home = directory.path().display().to_string();
            let text = fs::read_to_string(file).unwrap();
            let (entry_points, site) = text.split_once("\nhttp:").unwrap();
            let ping = "ping: { manualRouting: true }\n";
            let statics = STATIC.replace("{home}", &home);
            fs::write(
                format!("{home}/static.yaml"),
                format!("{statics}{ping}{entry_points}\n"),
            )
            .unwrap();
            fs::write(format!("{home}/site.yaml"), format!("http:{site}")).unwrap();
            let mut command = Command::new(&program);
            command.arg(format!("--configFile={home}/static.yaml"));
            command
        })
        .await;
        // It accepts before it has read the file of the site.
        eventually("Traefik has a route", async || {
            let mut client = Client::connect(traefik.address()).await;
            (client.get("/ready").await.status == 200).then_some(())
        })
        .await;
        Some(traefik)
    }
}

fn to(host: &str, target: &str) -> Request {
    get(target).header("host", host)
}

/// The answer to a request as far as both are compared: the status, where it leads, and the target that the origin got.
async fn answer(address: SocketAddr, from: &str, request: Request) -> (u16, String, String) {
    let mut client = Client::connect_from(from, address).await;
    let answer = client.send(request).await;
    // Traefik's redirects of GET have other statuses for the same.
    let status = match answer.status {
        301 => 308,
        302 => 307,
        status => status,
    };
    let location = answer.header("location").unwrap_or_default().to_owned();
    let target = match status {
        200 if answer.text().starts_with('{') => answer.echo().target,
        _ => String::new(),
    };
    (status, location, target)
}

#[tokio::test]
async fn routers_and_middlewares_of_traefik_are_routes_and_limits() {
    // Goal: priorities, conditions, rates, changed paths, redirects and lists of clients are those of Traefik. Method: the same requests to
    // both, in bursts where a limit counts.
    let origin = Origin::echo();
    let Some(traefik) = Peer::traefik(SITE, &origin).await else {
        return;
    };
    let toml = peer::imported_with_code(SITE, &origin, 0).await;
    let gateway = peer::started(&toml).await;
    let steps: [Step; 48] = [
        (A, || to("a.test", "/")),
        (A, || to("a.test", "/x?y=1")),
        (A, || to("z.test", "/")),
        // The bucket of a router and a client has three; that of another router is another one.
        (A, || to("a.test", "/api/1")),
        (A, || to("a.test", "/apifoo")),
        (A, || to("a.test", "/api")),
        (A, || to("a.test", "/api/4")),
        (B, || to("a.test", "/api/1?q=2")),
        (A, || to("b.test", "/api/1")),
        (A, || to("b.test", "/")),
        (A, || to("b.test", "/")),
        (A, || to("b.test", "/")),
        // Keys by a field; requests without it share a bucket.
        (A, || to("key.test", "/").header("x-key", "one")),
        (B, || to("key.test", "/").header("x-key", "one")),
        (A, || to("key.test", "/").header("x-key", "two")),
        (A, || to("key.test", "/")),
        (B, || to("key.test", "/")),
        // Priorities.
        (A, || to("a.test", "/wide/narrow/x")),
        (A, || to("z.test", "/wide/x")),
        (A, || to("z.test", "/wider")),
        // Conditions.
        (A, || to("a.test", "/writes")),
        (A, || to("a.test", "/writes").by("POST")),
        (A, || {
            to("a.test", "/writes").by("POST").header("x-plan", "paid")
        }),
        (A, || {
            to("a.test", "/writes").by("POST").header("x-plan", "free")
        }),
        (A, || to("reads.test", "/")),
        (A, || to("reads.test", "/").by("HEAD")),
        (A, || to("reads.test", "/").by("POST")),
        (A, || to("spaced.test", "/x%20ay")),
        (A, || to("spaced.test", "/%78%20%61y")),
        (A, || to("spaced.test", "/x%20%20y")),
        (A, || to("spaced.test", "/x%20ayy")),
        (A, || to("c.test", "/x?page=2")),
        (A, || to("d.test", "/?page=2&a=b")),
        (A, || to("c.test", "/x?page=3")),
        (A, || to("c.test", "/x")),
        (A, || to("x.below.test", "/old/a/b")),
        (A, || to("x.y.below.test", "/other/a")),
        (A, || to("below.test", "/old/a")),
        // Redirects.
        (A, || to("www.a.test", "/x/y?z=1")),
        (A, || to("www.a.test", "/")),
        (A, || to("secure.test", "/x/y?z=1")),
        (A, || to("secure.test", "/")),
        // Clients and sizes.
        (A, || to("office.test", "/")),
        (B, || to("office.test", "/")),
        (A, || to("small.test", "/").by("POST").body("x".repeat(10))),
        (A, || to("small.test", "/").by("POST").body("x".repeat(11))),
        (A, || to("flight.test", "/")),
        (A, || to("flight.test", "/")),
    ];
    for (at, (from, request)) in steps.iter().enumerate() {
        let of_traefik = answer(traefik.address(), from, request()).await;
        let of_gateway = answer(gateway.address(), from, request()).await;
        assert_eq!(of_gateway, of_traefik, "step {at}: {:?}", request());
    }
}

#[tokio::test]
async fn requests_in_flight_are_bounded_as_in_traefik() {
    // Goal: inFlightReq counts by host unless it names a source. Method: a request that the origin does not answer, then others for the
    // same host, of another client, and for another host.
    let origin = Origin::answering(|received| match received.target.as_str() {
        "/hold" => Reply::Hang,
        _ => Answer::new(200).into(),
    });
    let Some(traefik) = Peer::traefik(SITE, &origin).await else {
        return;
    };
    let gateway = peer::gateway(SITE, &origin).await;
    for (before, address) in [traefik.address(), gateway.address()]
        .into_iter()
        .enumerate()
    {
        let holder = tokio::spawn(async move {
            let request = to("flight.test", "/hold");
            Client::connect(address).await.try_send(request).await
        });
        eventually("the origin has the request", async || {
            let requests = origin.requests();
            let holds = requests.iter().filter(|it| it.target == "/hold");
            (holds.count() == before + 1).then_some(())
        })
        .await;
        let steps: [Step; 3] = [
            (A, || to("flight.test", "/")),
            (B, || to("flight.test", "/")),
            (A, || to("a.test", "/")),
        ];
        assert_eq!(statuses(address, &steps).await, [429, 429, 200]);
        holder.abort();
    }
}
