//! Proofs by signatures of requests: Web Bot Auth.

use std::fs;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::signature::{Ed25519KeyPair, KeyPair};
use sluicegate_limiter::Timestamp;

use super::*;
use crate::tokens::now;

const RULES: &str = r#"
[client]
trusted_proxies = ["127.0.0.0/8"]
signed_hosts = ["site.test", "*.shop.test"]
[crawler.agent]
group = "ai"
user_agents = ["AgentBot"]
jwks_file = "../agent.json"
[crawler.other]
group = "search"
jwks_file = "../other.json"
"#;

/// A signer with a key of its own. It writes the text that is signed by itself, from RFC 9421, as the gateway's code does not.
struct Signer(Ed25519KeyPair);

/// A signature in the making.
struct Signed {
    label: &'static str,
    authority: &'static str,
    created: u64,
    expires: u64,
    key_id: String,
    parameters: &'static str,
    agent: Option<&'static str>,
}

impl Signer {
    fn new(seed: u8) -> Self {
        Self(Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap())
    }

    fn x(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0.public_key())
    }

    fn key_id(&self) -> String {
        let text = format!(
            "{{\"crv\":\"Ed25519\",\"kty\":\"OKP\",\"x\":\"{}\"}}",
            self.x()
        );
        let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
        URL_SAFE_NO_PAD.encode(digest.as_ref())
    }

    fn jwks(&self) -> String {
        let (x, id) = (self.x(), self.key_id());
        format!(
            "{{\"keys\":[{{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"{id}\",\"x\":\"{x}\"}}]}}"
        )
    }

    /// A sound signature for `authority`, of a minute.
    fn of(&self, authority: &'static str) -> Signed {
        Signed {
            label: "sig1",
            authority,
            created: now(),
            expires: now() + 60,
            key_id: self.key_id(),
            parameters: ";tag=\"web-bot-auth\"",
            agent: None,
        }
    }

    /// The request for `host` with the signature.
    fn request(&self, host: &str, signed: &Signed) -> Request {
        let (label, key_id) = (signed.label, &signed.key_id);
        let (mut covered, mut base) = (
            "\"@authority\"".to_owned(),
            format!("\"@authority\": {}\n", signed.authority),
        );
        if let Some(agent) = signed.agent {
            covered.push_str(&format!(" \"signature-agent\";key=\"{label}\""));
            base.push_str(&format!(
                "\"signature-agent\";key=\"{label}\": \"{agent}\"\n"
            ));
        }
        let (created, expires) = (signed.created, signed.expires);
        let parameters = format!(
            "({covered});created={created};expires={expires};keyid=\"{key_id}\"{}",
            signed.parameters
        );
        base.push_str(&format!("\"@signature-params\": {parameters}"));
        let signature = STANDARD.encode(self.0.sign(base.as_bytes()));
        let request = get("/")
            .header("host", host)
            .header("signature-input", &format!("{label}={parameters}"))
            .header("signature", &format!("{label}=:{signature}:"));
        match signed.agent {
            Some(agent) => request.header("signature-agent", &format!("{label}=\"{agent}\"")),
            None => request,
        }
    }
}

fn setup() -> Setup {
    Setup::new()
        .file("agent.json", &Signer::new(1).jwks())
        .file("other.json", &Signer::new(2).jwks())
        .rules(&format!("{RULES}{KINDS}"))
}

#[tokio::test]
async fn a_signature_proves_a_crawler_from_any_address() {
    // Goal: who has the key is the crawler, whatever its address and user agent. Method: signatures of two crawlers, with and without
    // `Signature-Agent`, under a host and under a wildcard.
    let gateway = setup().start().await;
    let (agent, other) = (Signer::new(1), Signer::new(2));
    let named = Signed {
        agent: Some("https://agent.test"),
        ..agent.of("site.test")
    };
    for (request, wanted) in [
        (agent.request("site.test", &agent.of("site.test")), 202),
        (agent.request("SITE.test", &agent.of("site.test")), 202),
        (
            agent.request("a.b.shop.test", &agent.of("a.b.shop.test")),
            202,
        ),
        (agent.request("site.test", &named), 202),
        (other.request("site.test", &other.of("site.test")), 201),
        (
            other
                .request("site.test", &other.of("site.test"))
                .header("user-agent", "AgentBot"),
            201,
        ),
    ] {
        assert_eq!(
            gateway
                .send(request.clone().forwarded_for("203.0.113.1"))
                .await
                .status,
            wanted,
            "{request:?}"
        );
    }
    let answer = gateway
        .send(agent.request("site.test", &agent.of("site.test")))
        .await;
    let lines = gateway.lines_of(&[answer]).await;
    assert_eq!(
        (&lines[0]["crawler"], &lines[0]["crawler_proof"]),
        (&"agent".into(), &"signature".into())
    );
}

#[tokio::test]
async fn a_forged_signature_is_a_claim() {
    // Goal: every way to send a signature that is not the crawler's own for this host and this time fails, and the log says why.
    // Method: one mistake at a time.
    let gateway = setup().start().await;
    let (agent, stranger) = (Signer::new(1), Signer::new(9));
    let sound = || agent.of("site.test");
    let text = |request: &Request| format!("{request:?}");
    let cases = [
        // A signature for another site, sent on with the host of that site or with one of this gateway.
        (
            agent.request("elsewhere.test", &agent.of("elsewhere.test")),
            "signature-authority",
        ),
        (
            agent.request("site.test", &agent.of("elsewhere.test")),
            "signature-mismatch",
        ),
        (
            agent.request("shop.test", &agent.of("shop.test")),
            "signature-authority",
        ),
        (
            agent.request("evilshop.test", &agent.of("evilshop.test")),
            "signature-authority",
        ),
        (
            agent.request(
                "site.test",
                &Signed {
                    created: now() - 100,
                    expires: now() - 1,
                    ..sound()
                },
            ),
            "signature-expired",
        ),
        (
            agent.request(
                "site.test",
                &Signed {
                    created: now() + 600,
                    expires: now() + 700,
                    ..sound()
                },
            ),
            "signature-early",
        ),
        (
            agent.request(
                "site.test",
                &Signed {
                    expires: now() + 100_000,
                    ..sound()
                },
            ),
            "signature-long-lived",
        ),
        (
            agent.request(
                "site.test",
                &Signed {
                    parameters: ";tag=\"web-bot-auth\";alg=\"hmac-sha256\"",
                    ..sound()
                },
            ),
            "signature-algorithm",
        ),
        (
            agent
                .request("site.test", &sound())
                .header("signature-agent", "sig1=\"https://agent.test\""),
            "signature-uncovered",
        ),
        // Another key under the name of the crawler's.
        (
            stranger.request("site.test", &sound()),
            "signature-mismatch",
        ),
    ];
    let mut answers = Vec::new();
    for (request, _) in &cases {
        let answer = gateway
            .send(request.clone().forwarded_for("203.0.113.1"))
            .await;
        assert_eq!(answer.status, 203, "{}", text(request));
        answers.push(answer);
    }
    let lines = gateway.lines_of(&answers).await;
    for ((request, reason), line) in cases.iter().zip(&lines) {
        let found = (
            &line["crawler"],
            &line["crawler_claim"],
            &line["crawler_reason"],
        );
        assert_eq!(
            found,
            (&"unverified".into(), &"agent".into(), &(*reason).into()),
            "{}",
            text(request)
        );
    }
}

#[tokio::test]
async fn what_names_no_key_of_a_crawler_is_no_claim() {
    // Goal: an unknown signer is an ordinary client, and a user agent beside it a claim. Method: an unknown key, no tag, too many
    // bytes, and malformed fields.
    let gateway = setup().start().await;
    let (agent, stranger) = (Signer::new(1), Signer::new(9));
    let untagged = Signed {
        parameters: "",
        ..agent.of("site.test")
    };
    let newer = Signed {
        parameters: ";tag=\"web-bot-auth\";made=@1735689690;note=%\"f%c3%bc\"",
        ..agent.of("site.test")
    };
    let long = format!("sig2=(\"{}\")", "x".repeat(4096));
    let sound = || agent.request("site.test", &agent.of("site.test"));
    for (request, wanted) in [
        (
            stranger.request("site.test", &stranger.of("site.test")),
            204,
        ),
        (
            stranger
                .request("site.test", &stranger.of("site.test"))
                .header("user-agent", "AgentBot"),
            203,
        ),
        (agent.request("site.test", &untagged), 204),
        (sound().header("signature-input", &long), 204),
        (sound().header("signature-input", "sig2=("), 204),
        // RFC 9651: dates and display strings are items like any other, beside a signature and among its parameters.
        (agent.request("site.test", &newer), 202),
        (
            sound()
                .header("signature-input", "sig2=(\"@path\");made=@1735689690")
                .header("signature", "sig2=:AAAA:"),
            202,
        ),
        (
            sound().header("signature-input", "sig2=%\"f%c3%bc, (\", sig3=@-1;a=%\"\""),
            202,
        ),
        // Further labels without the tag change nothing.
        (
            sound()
                .header("signature-input", "sig2=(\"@path\");keyid=\"x\"")
                .header("signature", "sig2=:AAAA:"),
            202,
        ),
    ] {
        assert_eq!(
            gateway.send(request.clone()).await.status,
            wanted,
            "{request:?}"
        );
    }
}

#[tokio::test]
async fn a_flood_of_bad_signatures_is_not_verified() {
    // Goal: a client cannot make the gateway verify without end, and others are not locked out. Method: more bad signatures than a minute
    // allows from one network; a sound one from there and from elsewhere.
    let gateway = setup().start().await;
    let (agent, stranger) = (Signer::new(1), Signer::new(9));
    let mut client = gateway.client().await;
    let mut answers = Vec::new();
    for at in 0..40 {
        let bad = stranger.request("site.test", &agent.of("site.test"));
        answers.push(
            client
                .send(bad.forwarded_for(&format!("203.0.113.{at}")))
                .await,
        );
    }
    let lines = gateway.lines_of(&answers).await;
    let throttled = lines
        .iter()
        .filter(|line| line["crawler_reason"] == "signature-throttled");
    // A minute may end in between.
    assert!((8..=24).contains(&throttled.count()), "{lines:?}");
    let sound = |from: &str| {
        agent
            .request("site.test", &agent.of("site.test"))
            .forwarded_for(from)
    };
    assert_eq!(client.send(sound("198.51.100.1")).await.status, 202);
}

#[tokio::test]
async fn keys_rotate_with_their_file_and_a_broken_one_keeps_them() {
    // Goal: a new key is in force at once, the old one no longer, and half a file changes nothing. Method: the file of another key;
    // half of it; then the first again.
    let gateway = setup().start().await;
    let (old, new) = (Signer::new(1), Signer::new(3));
    let file = gateway.directory().join("agent.json");
    let put = |text: &str| {
        fs::write(file.with_extension("new"), text).unwrap();
        fs::rename(file.with_extension("new"), &file).unwrap();
    };
    let answers = async |signer: &Signer, wanted: u16| {
        eventually(&format!("the answer is {wanted}"), async || {
            let request = signer.request("site.test", &signer.of("site.test"));
            (gateway.send(request).await.status == wanted).then_some(())
        })
        .await;
    };
    answers(&old, 202).await;
    answers(&new, 204).await;
    put(&new.jwks());
    answers(&new, 202).await;
    answers(&old, 204).await;
    put(&new.jwks()[..40]);
    let kept = [("kind", "crawler"), ("name", "agent"), ("content", "kept")];
    eventually("the failure is told", async || {
        let metrics = gateway.metrics().await;
        (metrics.sum("sluicegate_config_file_broken", &kept) == 1.0).then_some(())
    })
    .await;
    answers(&new, 202).await;
    put(&old.jwks());
    answers(&old, 202).await;
}

#[tokio::test]
async fn the_signer_of_the_draft_is_verified_at_its_time() {
    // Goal: a signer that is not ours is understood. Method: the vectors of Cloudflare's `web-bot-auth`, at their time, over HTTP/1.1
    // behind a proxy that ends TLS, and after they have expired.
    let vectors = include_str!("../../../crates/message-signatures/tests/web_bot_auth.json");
    let vectors: Vec<serde_json::Value> = serde_json::from_str(vectors).unwrap();
    let key = format!("{{\"keys\":[{}]}}", vectors[0]["key"]);
    let rules = RULES.replace("\"site.test\"", "\"example.com\"");
    let gateway = Setup::new()
        .file("agent.json", &key)
        .file("other.json", &Signer::new(2).jwks())
        .rules(&format!("{rules}{KINDS}"))
        .with_driven_clock()
        .start()
        .await;
    let mut clock = gateway.clock();
    let of_an_hour = vectors.iter().filter(|vector| vector["version"] == "v1");
    for vector in of_an_hour {
        let mut request = get("/")
            .header("host", "example.com")
            .header("x-forwarded-proto", "https");
        for (name, member) in [
            ("signature-input", "signature_input"),
            ("signature", "signature"),
            ("signature-agent", "signature_agent"),
        ] {
            if let Some(value) = vector[member].as_str() {
                request = request.header(name, value);
            }
        }
        for (time, wanted) in [
            (1_735_689_700, 202),
            (1_735_693_200, 203),
            (1_735_689_500, 203),
        ] {
            clock.set(Timestamp::from_secs(time));
            assert_eq!(
                gateway.send(request.clone()).await.status,
                wanted,
                "{time} {vector}"
            );
        }
    }
}
