//! The servers that the other tests of stores stand on do what those tests take for granted.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{Mishap, Redis, Sentinels, Way, eventually};

/// Goal: a killed server is the same server when it is back. Method: a key that it wrote to disk.
#[tokio::test]
async fn a_server_comes_back_on_its_port_with_what_it_kept() {
    let mut redis = Redis::start_with(&["--appendonly", "yes", "--appendfsync", "always"]).await;
    redis.command(&["SET", "kept", "1"]);
    redis.kill();
    assert!(redis.try_command(&["GET", "kept"]).is_err());
    redis.restart().await;
    assert_eq!(redis.command(&["GET", "kept"]), json!("1"));
}

/// Goal: Sentinels promote a replica. Method: kill the master of one replica.
#[tokio::test]
async fn sentinels_promote_the_replica() {
    let mut master = Redis::start().await;
    let replica = Redis::replica_of(&master).await;
    let sentinels = Sentinels::start(&master, 1).await;
    assert_eq!(sentinels.master(), master.port());
    master.kill();
    eventually("the replica is the master", async || {
        // Sentinels close the connections of whom they promote.
        let role = replica.try_command(&["ROLE"]).ok()?;
        (role[0] == "master" && sentinels.master() == replica.port()).then_some(())
    })
    .await;
}

/// Goal: a slot changes hands with what is in it. Method: the slot of one key, from its node to the next.
#[tokio::test]
async fn a_slot_of_a_cluster_can_be_moved() {
    let cluster = Redis::cluster(3).await;
    let slot = cluster.nodes[0].command(&["CLUSTER", "KEYSLOT", "a"]);
    let slot = u16::try_from(slot.as_u64().unwrap()).unwrap();
    let home = usize::from(slot) * 3 / 16_384;
    let next = (home + 1) % 3;
    cluster.nodes[home].command(&["SET", "a", "moved"]);
    cluster.move_slot(slot, home, next);
    assert_eq!(cluster.nodes[next].command(&["GET", "a"]), json!("moved"));
    let left = cluster.nodes[home].try_command(&["GET", "a"]).unwrap_err();
    assert!(left.starts_with("MOVED"), "{left}");
}

/// Goal: each mishap happens as it says. Method: one after the other on a line of `PING`.
#[tokio::test]
async fn mishaps_delay_hold_and_cut_answers() {
    let redis = Redis::start().await;
    let mishap = Mishap::before(redis.address()).await;
    let mut stream = TcpStream::connect(mishap.address()).await.unwrap();
    let mut answer = [0; 7];

    let mut ping = async || {
        stream.write_all(b"PING\r\n").await.unwrap();
        let reading = stream.read_exact(&mut answer);
        tokio::time::timeout(Duration::from_secs(30), reading).await
    };
    assert!(matches!(ping().await, Ok(Ok(7))));
    mishap.set(Way::Delay(Duration::from_millis(50)));
    assert!(matches!(ping().await, Ok(Ok(7))));
    mishap.set(Way::CutAfter(3));
    assert!(matches!(ping().await, Ok(Err(_))));

    let mut stream = TcpStream::connect(mishap.address()).await.unwrap();
    mishap.set(Way::Hold);
    stream.write_all(b"PING\r\n").await.unwrap();
    let reading = stream.read_exact(&mut answer);
    let waited = tokio::time::timeout(Duration::from_millis(100), reading).await;
    assert!(waited.is_err());
    mishap.set(Way::Pass);
    stream.read_exact(&mut answer).await.unwrap();
    mishap.cut();
    assert!(matches!(stream.read(&mut answer).await, Ok(0) | Err(_)));
    assert_eq!(mishap.seen().connections, 2);
}
