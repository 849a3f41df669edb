//! Reloads that turn HTTP/3 on or off, which a restart alone does.

use super::*;

/// Returns `Alt-Svc` of a response over a new connection, and the settings that wait for a restart.
async fn advertised(gateway: &Gateway, authority: &Authority) -> (Option<String>, String) {
    let mut over_tcp = TlsClients::of(authority)
        .connect(gateway.address(), "a.test")
        .await;
    let answer = over_tcp.get("/").await;
    let status = gateway.status().await;
    let pending = status["configuration"]["pending_restart"].to_string();
    (answer.header("alt-svc").map(str::to_owned), pending)
}

/// Goal: HTTP/3 is advertised only where the process speaks it, and clients forget one that is turned off. Method: a start without it and a
/// reload with it; the other way round; back again.
#[tokio::test]
async fn turning_it_on_or_off_waits_for_a_restart() {
    let authority = Authority::new();
    let off = with_tls(&authority, &[]).rules(&five_an_hour());
    let on = with_tls(&authority, &SPOKEN).rules(&five_an_hour());
    let waits = "[\"listener.http3\"]".to_owned();
    let mut gateway = off.clone().start().await;
    let before = gateway.generation().await;
    gateway.write_setup(on.clone(), Writing::Rename);
    gateway.serves_after(before).await;
    assert_eq!(
        advertised(&gateway, &authority).await,
        (None, waits.clone())
    );

    let mut gateway = on.clone().start().await;
    let service = format!("h3=\":{}\"; ma=3600", gateway.address().port());
    let before = gateway.generation().await;
    gateway.write_setup(off, Writing::Rename);
    gateway.serves_after(before).await;
    let clear = Some("clear".to_owned());
    assert_eq!(advertised(&gateway, &authority).await, (clear, waits));
    let before = gateway.generation().await;
    gateway.write_setup(on, Writing::Rename);
    gateway.serves_after(before).await;
    let found = advertised(&gateway, &authority).await;
    assert_eq!(found, (Some(service), "[]".to_owned()));
}
