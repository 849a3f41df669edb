//! Pools of servers: who gets a request, what holds when servers fail or have enough, and what an operator can do about one.

use std::net::SocketAddr;

use serde_json::Value;

use crate::harness::*;

mod adaptive;
mod adaptive_places;
mod balance;
mod circuit;
mod connections;
mod drain;
mod failing;
mod idle;
mod on_demand;
mod retries;
mod shares;
mod sockets;
mod waiting;

/// The token of the operator.
const TOKEN: &str = "0123456789abcdef";

const PASS: &str = "[[route]]\npath = \"/*\"\norigin = \"app\"\n";

/// A gateway before these servers, with further lines of `[origin.app]`.
async fn before(origins: &[&Origin], lines: &str) -> Gateway {
    let addresses: Vec<SocketAddr> = origins.iter().map(|origin| origin.address()).collect();
    Setup::new()
        .servers("app", &addresses)
        .origin_line(lines)
        .rules(PASS)
        .start()
        .await
}

/// The state of a server, as `/status` has it.
async fn server(gateway: &Gateway, address: SocketAddr) -> Value {
    let status = gateway.status().await;
    let servers = status["origins"][0]["servers"].as_array().unwrap().clone();
    let same = |server: &Value| server["address"] == address.to_string();
    servers.into_iter().find(same).unwrap_or_default()
}

/// Waits until `/status` has the server in this state.
async fn becomes(gateway: &Gateway, address: SocketAddr, state: &str) {
    eventually(state, async || {
        (server(gateway, address).await["state"] == state).then_some(())
    })
    .await;
}

/// An origin that gives every request this status.
fn answering(status: u16) -> Origin {
    Origin::answering(move |_| Answer::new(status).body("said").into())
}
