//! A store is found wherever it may be: at a socket, behind TLS, behind Sentinels, in a Cluster that changes.

use std::path::Path;

use serde_json::json;
use sluicegate_redis_link::StoreError;

use super::{Way, call, counted};
use crate::harness::{Redis, Sentinels, eventually};

/// Goal: sockets of the machine. Method: one call.
#[tokio::test]
async fn a_socket_is_a_place() {
    let redis = Redis::start_with(&["--unixsocket", "{directory}/redis.sock"]).await;
    let path = redis.directory().join("redis.sock");
    let way = Way::open(&format!("url = 'unix://{}'", path.display())).await;
    assert_eq!(way.count("k", "word").await, Ok(1));
}

/// Goal: databases, users and passwords work. Method: a call to another database by a user with the minimum rights.
#[tokio::test]
async fn a_user_with_the_least_rights_is_enough() {
    let redis = Redis::start().await;
    // And the one command that the test's own script makes.
    redis.add_gateway_user(&["+incr"]);
    let store = format!(
        "url = 'redis://{}/3'\nuser = 'gateway'\npassword_file = 'store-password'",
        redis.address()
    );
    let way = Way::open(&store).await;
    assert_eq!(way.count("sluicegate:k", "word").await, Ok(1));
    assert_eq!(redis.command(&["GET", "sluicegate:k"]), json!(null));
    let wrong = format!(
        "url = 'redis://nobody@{}'\npassword_file = 'store-password'",
        redis.address()
    );
    let way = Way::to(&wrong);
    let error = eventually("it is told who is not let in", async || {
        way.link.status().servers[0].error.clone()
    })
    .await;
    assert!(error.1.contains("greeting"), "{error:?}");
}

/// Goal: TLS both ways, names included. Method: a server that asks for certificates; with all of it, without ours, and with another name.
#[tokio::test]
async fn tls_proves_both_sides() {
    let certificates = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls");
    let at = |name: &str| certificates.join(name).display().to_string();
    let port = crate::harness::free_port();
    let _redis = Redis::start_with(&[
        "--tls-port",
        &port.to_string(),
        "--tls-cert-file",
        &at("node.pem"),
        "--tls-key-file",
        &at("node.key"),
        "--tls-ca-cert-file",
        &at("ca.pem"),
    ])
    .await;
    let own = "cert_file = 'node.pem', key_file = 'node.key'";
    let way = Way::open(&format!(
        "url = 'rediss://127.0.0.1:{port}'\ntls = {{ ca_file = 'ca.pem', {own} }}"
    ))
    .await;
    assert_eq!(way.count("k", "word").await, Ok(1));
    let named = format!("tls = {{ ca_file = 'ca.pem', {own}, server_name = 'store.test' }}");
    let way = Way::open(&format!("url = 'rediss://127.0.0.1:{port}'\n{named}")).await;
    assert_eq!(way.count("k", "word").await, Ok(2));
    for (tls, why) in [
        (
            format!("ca_file = 'ca.pem', {own}, server_name = 'other.test'"),
            "not valid for name",
        ),
        (own.to_owned(), "UnknownIssuer"),
        ("ca_file = 'ca.pem'".to_owned(), ""),
    ] {
        let way = Way::to(&format!(
            "url = 'rediss://127.0.0.1:{port}'\ntls = {{ {tls} }}"
        ));
        let error = eventually("it is told what is wrong", async || {
            way.link.status().servers[0].error.clone()
        })
        .await;
        assert!(error.1.contains(why), "{error:?}");
        assert!(!way.link.is_up());
    }
}

/// Goal: a failover is followed. Method: kill the master of one replica, then count at the new one; a second Sentinel that the file
/// names first is not there.
#[tokio::test]
async fn a_failover_by_sentinels_is_followed() {
    let mut master = Redis::start().await;
    let replica = Redis::replica_of(&master).await;
    let sentinels = Sentinels::start(&master, 1).await;
    let nobody = crate::harness::free_port();
    let nodes = sentinels
        .toml()
        .replacen('[', &format!("[\"127.0.0.1:{nobody}\", "), 1);
    let way = Way::open(&format!(
        "sentinel = {{ master = 'gateway', nodes = {nodes} }}"
    ))
    .await;
    assert_eq!(way.count("k", "word").await, Ok(1));
    assert_eq!(
        way.link.status().servers[0].address,
        master.address().to_string()
    );
    eventually("the replica has it", async || {
        (replica.command(&["GET", "k"]) == json!("1")).then_some(())
    })
    .await;
    master.kill();
    way.is_away().await;
    way.is_connected().await;
    assert_eq!(
        way.link.status().servers[0].address,
        replica.address().to_string()
    );
    assert_eq!(way.count("k", "word").await, Ok(2));
}

/// Goal: Sentinels may ask for a password of their own, or know the gateway by a user who may do nothing but ask where the master is,
/// and a
/// failover is followed all the same. Method: a master with one password behind Sentinels with another, both ways; the master is killed.
/// Without the password it is told who does not let the gateway in.
#[tokio::test]
async fn sentinels_have_passwords_of_their_own() {
    let rights = "user gateway on >sesame +sentinel|get-master-addr-by-name\nsentinel auth-pass gateway hunter2\n";
    let mut master = Redis::start_with(&["--requirepass", "hunter2"]).await;
    let replica = Redis::replica_of(&master).await;
    let sentinels = Sentinels::start_with(&master, 1, Some("sesame"), rights).await;
    let at = |login: &str| {
        format!(
            "sentinel = {{ master = 'gateway', nodes = {}{login} }}\npassword_file = 'store-password'",
            sentinels.toml()
        )
    };
    let nobody = Way::to(&at(""));
    let error = eventually("it is told who lets it not in", async || {
        nobody.link.status().servers[0].error.clone()
    })
    .await;
    assert!(error.1.contains("NOAUTH"), "{error:?}");
    let by_password = Way::open(&at(", password_file = 'sentinel-password'")).await;
    let by_name = ", user = 'gateway', password_file = 'sentinel-password'";
    let by_name = Way::open(&at(by_name)).await;
    for (way, count) in [(&by_password, 1), (&by_name, 2)] {
        assert_eq!(way.count("k", "word").await, Ok(count));
    }
    eventually("the replica has it", async || {
        (replica.command(&["GET", "k"]) == json!("2")).then_some(())
    })
    .await;
    master.kill();
    for (way, count) in [(&by_password, 3), (&by_name, 4)] {
        // The second may be there before the first is looked at.
        eventually("the new master is found", async || {
            let there = way.link.status().servers[0].address == replica.address().to_string();
            there.then_some(())
        })
        .await;
        way.is_connected().await;
        assert_eq!(way.count("k", "word").await, Ok(count));
    }
    assert_eq!(sentinels.master(), replica.port());
}

/// Goal: a master that is demoted while it lives is left. Method: turn the roles by hand, as a planned failover does; the old master
/// stays
/// and answers READONLY.
#[tokio::test]
async fn a_demoted_master_is_left() {
    let master = Redis::start().await;
    let replica = Redis::replica_of(&master).await;
    let sentinels = Sentinels::start(&master, 1).await;
    let nodes = sentinels.toml();
    let way = Way::open(&format!(
        "sentinel = {{ master = 'gateway', nodes = {nodes} }}"
    ))
    .await;
    assert_eq!(way.count("k", "word").await, Ok(1));
    sentinels.fail_over().await;
    eventually("calls go to the new master", async || {
        let counted = way.count("k", "word").await;
        let there = way.link.status().servers[0].address == replica.address().to_string();
        (there && counted.is_ok()).then_some(())
    })
    .await;
}

/// Goal: each key goes to its server, alone and in bulk, also while its slot moves and after. Method: 300 keys over three masters;
/// then one
/// slot in three states.
#[tokio::test]
async fn a_cluster_is_followed_slot_by_slot() {
    let cluster = Redis::cluster(3).await;
    let way = Way::open(&format!("cluster = {}\ntimeout = '1s'", cluster.toml())).await;
    eventually("all three masters are known", async || {
        (way.link.status().servers.len() == 3).then_some(())
    })
    .await;
    way.is_connected().await;
    let calls: Vec<_> = (0..300)
        .map(|at| call(&format!("k{at}"), &at.to_string()))
        .collect();
    for (at, result) in way.link.run_all(&calls).await.into_iter().enumerate() {
        assert_eq!(counted(&result.unwrap(), &at.to_string()), 1);
    }
    for at in 0..50 {
        assert_eq!(way.count(&format!("k{at}"), "word").await, Ok(2));
    }

    let slot = cluster.nodes[0].command(&["CLUSTER", "KEYSLOT", "a"]);
    let slot = u16::try_from(slot.as_u64().unwrap()).unwrap();
    let home = usize::from(slot) * 3 / 16_384;
    let next = (home + 1) % 3;
    assert_eq!(way.count("a", "word").await, Ok(1));
    // On its way: a key that is not at home any more is asked for at the other, this once.
    cluster.begin_move(slot, home, next);
    assert_eq!(way.count("a", "word").await, Ok(2));
    assert_eq!(way.count("{a}new", "word").await, Ok(1));
    // It has moved: the old server says so.
    cluster.move_slot(slot, home, next);
    assert_eq!(way.count("a", "word").await, Ok(3));
    assert_eq!(cluster.nodes[next].command(&["GET", "a"]), json!("3"));
    assert_eq!(cluster.nodes[next].command(&["GET", "{a}new"]), json!("1"));
}

/// Goal: an unavailable part of a Cluster does not affect the others. Method: kill one of three masters without replicas.
#[tokio::test]
async fn the_rest_of_a_cluster_goes_on() {
    let mut cluster = Redis::cluster_that_serves_in_part(3).await;
    let way = Way::open(&format!("cluster = {}", cluster.toml())).await;
    eventually("all three masters are known", async || {
        (way.link.status().servers.len() == 3).then_some(())
    })
    .await;
    way.is_connected().await;
    let home = |key: &str| {
        let slot = cluster.nodes[0].command(&["CLUSTER", "KEYSLOT", key]);
        usize::try_from(slot.as_u64().unwrap()).unwrap() * 3 / 16_384
    };
    let lost: Vec<String> = (0..40)
        .map(|at| format!("k{at}"))
        .filter(|key| home(key) == 1)
        .collect();
    let kept: Vec<String> = (0..40)
        .map(|at| format!("k{at}"))
        .filter(|key| home(key) != 1)
        .collect();
    cluster.nodes[1].kill();
    eventually("its keys are away", async || {
        (way.count(&lost[0], "word").await == Err(StoreError::Unavailable)).then_some(())
    })
    .await;
    for key in &kept {
        assert_eq!(way.count(key, "word").await, Ok(1));
    }
}

/// Goal: a Cluster that is configured as one server is an error. Method: the URL of one master.
#[tokio::test]
async fn a_node_of_a_cluster_is_no_single_server() {
    let cluster = Redis::cluster(3).await;
    let slot = cluster.nodes[0].command(&["CLUSTER", "KEYSLOT", "sluicegate:nodes"]);
    let home = usize::try_from(slot.as_u64().unwrap()).unwrap() * 3 / 16_384;
    let other = &cluster.nodes[(home + 1) % 3];
    let way = Way::to(&format!("url = '{}'", other.url()));
    let error = eventually("it is told", async || {
        way.link.status().servers[0].error.clone()
    })
    .await;
    assert!(error.1.contains("part of a cluster"), "{error:?}");
    assert!(!way.link.is_up());
}
