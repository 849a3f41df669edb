//! A question of another proxy about the path of a challenge.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::harness::{Client, get, listening};

/// Further lines and tables: a listener that other proxies ask, and a limit on challenges, of which it admits one.
fn tables(asked: SocketAddr) -> String {
    format!(
        "challenge = \"http-01\"\n[[listener]]\naddress = \"{asked}\"\nprotocol = \"forward-auth\"\n\
         [client]\ntrusted_proxies = [\"127.0.0.1/32\"]\n\
         [limit.challenges]\nkey = \"client.ip\"\nrates = [\"1 per 1h\"]\n\
         [[route]]\npath = \"/.well-known/*\"\nlimits = [\"challenges\"]\nrespond = {{ status = 200, body = \"allowed\" }}\n"
    )
}

/// Goal: the path of a pending challenge is no leave to forward, since another server is to be asked there. Method: names lead to a proxy
/// that asks twice about the request of the ACME server while that waits for its answer, then passes it to the listener in clear text.
#[tokio::test]
async fn a_question_about_a_pending_challenge_is_decided_by_limits() {
    let asked = free_address();
    let rules = tables(asked);
    let secured = Secured::start(
        AcmeServer::start(),
        AcmeRules {
            names: &["example.com"],
            acme: &rules,
        },
    )
    .await;
    let answers = Arc::new(Mutex::new(Vec::new()));
    let (kept, gateway) = (Arc::clone(&answers), secured.gateway.address());
    let proxy = listening(move |mut stream, _| {
        let kept = Arc::clone(&kept);
        async move {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                if stream.read_buf(&mut head).await.unwrap_or(0) == 0 {
                    return;
                }
            }
            let head = String::from_utf8(head).unwrap();
            let path = head.split(' ').nth(1).unwrap();
            for _ in 0..2 {
                let question = get("/")
                    .header("X-Forwarded-Method", "GET")
                    .header("X-Forwarded-Host", "example.com")
                    .header("X-Forwarded-Uri", path)
                    .forwarded_for("192.0.2.1");
                let answer = Client::connect(asked).await.send(question).await;
                let text = answer.text().to_owned();
                kept.lock().unwrap().push((answer.status, text));
            }
            let proof = Client::connect(gateway)
                .await
                .send(get(path).header("host", "example.com"))
                .await;
            let text = proof.text();
            let answer = format!(
                "HTTP/1.1 {} Told\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
                proof.status,
                text.len()
            );
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    })
    .await;
    secured.server().names_lead_to(proxy);
    // The proof was there while the questions were answered.
    secured.serves("example.com").await;
    let answers = answers.lock().unwrap();
    let [allowed, rejected] = &answers[..2] else {
        panic!("{answers:?}");
    };
    assert_eq!((allowed.0, allowed.1.as_str()), (200, "allowed"));
    assert_eq!(rejected.0, 429, "{}", rejected.1);
}
