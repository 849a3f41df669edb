//! A new configuration takes over by itself, whole or not at all.

use std::fs;
use std::os::unix::fs::symlink;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::harness::*;

/// One route that says which version of the rules serves.
fn version(name: &str) -> String {
    format!("[[route]]\npath = \"/\"\nrespond = {{ status = 200, body = \"{name}\" }}\n")
}

async fn serves(gateway: &Gateway, name: &str) {
    eventually(&format!("{name} serves"), async || {
        (gateway.get("/").await.text() == name).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_file_renamed_over_the_old_one_is_noticed() {
    // Goal: how editors and deployment tools write. Method: three times, since a watch on the file itself would see only one.
    let mut gateway = Gateway::start(&version("first")).await;
    serves(&gateway, "first").await;
    for name in ["second", "third", "fourth"] {
        gateway.write_rules(&version(name), Writing::Rename);
        serves(&gateway, name).await;
    }
}

#[tokio::test]
async fn a_file_written_in_place_is_noticed() {
    // Goal: how `>` and some editors write; the file is empty or half there for a moment. Method: three times.
    let mut gateway = Gateway::start(&version("first")).await;
    for name in ["second", "third", "fourth"] {
        gateway.write_rules(&version(name), Writing::InPlace);
        serves(&gateway, name).await;
    }
}

#[tokio::test]
async fn a_mounted_config_map_is_noticed() {
    // Goal: the swap of a link two steps before the file is detected, as Kubernetes makes it. Method: the same layout and the same
    // swap, twice.
    let mut gateway = Setup::new()
        .mounted_as_config_map()
        .rules(&version("first"))
        .start()
        .await;
    serves(&gateway, "first").await;
    for name in ["second", "third"] {
        gateway.write_rules(&version(name), Writing::ConfigMap);
        serves(&gateway, name).await;
    }
}

#[tokio::test]
async fn a_link_is_followed_to_what_is_written_in_place() {
    // Goal: a configuration that is a symbolic link is noticed, wherever it leads. Method: turn it into a link to a neighbour, then to a
    // file of another directory; write what it leads to, in place, twice each.
    let mut gateway = Gateway::start(&version("first")).await;
    let (link, elsewhere) = (gateway.config_path(), tempfile::tempdir().unwrap());
    let targets = [
        link.with_file_name("neighbour.toml"),
        elsewhere.path().join("other.toml"),
    ];
    for (target, names) in targets
        .iter()
        .zip([["second", "third"], ["fourth", "fifth"]])
    {
        fs::copy(&link, target).unwrap();
        let beside = link.with_extension("new");
        symlink(target, &beside).unwrap();
        fs::rename(&beside, &link).unwrap();
        for name in names {
            gateway.write_rules(&version(name), Writing::InPlace);
            serves(&gateway, name).await;
        }
        assert!(link.is_symlink());
    }
}

#[tokio::test]
async fn files_that_a_reload_names_are_watched_from_then_on() {
    // Goal: a list and a page named later are like those named at the start, wherever they lie. Method: a reload names both in
    // directories
    // of their own; then they change, in place and by a rename, more often than a reload looks at what is new to it.
    let named = "[client]\ntrusted_proxies = [\"127.0.0.0/8\"]\nblock = [\"bad\"]\n\
        [list.bad]\nfile = \"../lists/bad.txt\"\n[error_pages.403]\nhtml_file = \"../pages/403.html\"\n";
    let mut gateway = Gateway::start(&version("first")).await;
    let lists = gateway.directory().join("lists");
    let pages = gateway.directory().join("pages");
    for (directory, name, text) in [(&lists, "bad.txt", ""), (&pages, "403.html", "none")] {
        fs::create_dir(directory).unwrap();
        fs::write(directory.join(name), text).unwrap();
    }
    gateway
        .reload(&format!("{named}{}", version("second")))
        .await;
    serves(&gateway, "second").await;
    for client in ["192.0.2.1", "192.0.2.2", "192.0.2.3"] {
        fs::write(lists.join("bad.txt"), client).unwrap();
        eventually("the client is blocked", async || {
            let answer = gateway.send(get("/").forwarded_for(client)).await;
            (answer.status == 403).then_some(())
        })
        .await;
        fs::write(pages.join("new"), client).unwrap();
        fs::rename(pages.join("new"), pages.join("403.html")).unwrap();
        eventually("it is shown the page", async || {
            let ask = get("/").forwarded_for(client).header("Accept", "text/html");
            (gateway.send(ask).await.text() == client).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn sighup_reloads() {
    // Goal: a reload on demand. Method: the counter of reloads moves, though the file did not change.
    let gateway = Gateway::start(&version("first")).await;
    let reloads = async || gateway.metrics().await.sum("sluicegate_reloads_total", &[]);
    let before = reloads().await;
    gateway.signal(Signal::SIGHUP);
    eventually("a reload is counted", async || {
        (reloads().await > before).then_some(())
    })
    .await;
    assert_eq!(gateway.get("/").await.text(), "first");
}

#[tokio::test]
async fn a_broken_file_leaves_the_old_rules_serving_until_a_good_one_comes() {
    // Goal: a mistake takes nothing down and does not hide. Method: break the file; status, metric and log must say so with
    // the place of the mistake; then mend it.
    let mut gateway = Gateway::start(&version("first")).await;
    let generation = gateway.generation().await;
    let failures = async |gateway: &Gateway| {
        gateway
            .metrics()
            .await
            .sum("sluicegate_reloads_total", &[("result", "failed")])
    };
    assert_eq!(failures(&gateway).await, 0.0);
    gateway.write_rules(
        &(version("second") + "[[route]]\npaht = \"/x\"\n"),
        Writing::Rename,
    );
    let error = eventually("the status tells the error", async || {
        let report = last_reload(&gateway).await;
        report["error"].as_str().map(str::to_owned)
    })
    .await;
    assert!(
        error.contains("gateway.toml:") && error.contains("paht"),
        "{error}"
    );
    assert!(gateway.stderr().contains("paht"), "{}", gateway.stderr());
    assert!(failures(&gateway).await >= 1.0);
    assert_eq!(
        (gateway.get("/").await.text(), gateway.generation().await),
        ("first", generation)
    );
    assert_eq!(gateway.admin(get("/readyz")).await.status, 200);

    gateway.write_rules(&version("third"), Writing::Rename);
    serves(&gateway, "third").await;
    eventually("the status forgets the error", async || {
        last_reload(&gateway).await["error"].is_null().then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_file_that_vanishes_leaves_the_old_rules_serving() {
    // Goal: a deployment that deletes before it writes. Method: remove the file, look at status, write it again.
    let mut gateway = Gateway::start(&version("first")).await;
    std::fs::remove_file(gateway.config_path()).unwrap();
    gateway.signal(Signal::SIGHUP);
    eventually("the status tells the error", async || {
        last_reload(&gateway).await["error"]
            .is_string()
            .then_some(())
    })
    .await;
    serves(&gateway, "first").await;
    gateway.write_rules(&version("second"), Writing::Rename);
    serves(&gateway, "second").await;
}

#[tokio::test]
async fn an_edit_of_the_listener_waits_for_a_restart_and_is_reported() {
    // Goal: what cannot be reloaded is said loudly, and the rest is reloaded. Method: another port and another route.
    let mut gateway = Gateway::start(&version("first")).await;
    let text = format!(
        "{}\n[[listener]]\naddress = \"127.0.0.1:1\"\n",
        version("second")
    );
    gateway.write_rules(&text, Writing::Rename);
    serves(&gateway, "second").await;
    let status = gateway.status().await;
    assert!(
        status["configuration"].to_string().contains("listener"),
        "{status}"
    );
    assert!(gateway.stderr().contains("restart"), "{}", gateway.stderr());
    // A reload that fails afterwards does not take that back.
    gateway.write_rules("nonsense", Writing::Rename);
    eventually("the failure is told", async || {
        last_reload(&gateway).await["error"]
            .is_string()
            .then_some(())
    })
    .await;
    let status = gateway.status().await;
    let pending = status["configuration"]["pending_restart"].to_string();
    assert!(pending.contains("listener"), "{status}");
}

#[tokio::test]
async fn a_log_that_cannot_be_opened_leaves_the_old_rules_serving() {
    // Goal: a reload is whole or none. Method: new rules whose access log is a directory.
    let text = |access: &str, route: &str| {
        format!(
            "[[listener]]\naddress = \"{{listener}}\"\n[admin]\naddress = \"{{admin}}\"\n[log]\naccess = \"{access}\"\n{}",
            version(route)
        )
    };
    let first = Setup::new().whole(&text("{directory}/access.log", "first"));
    let mut gateway = first.start().await;
    let broken = Setup::new().whole(&text("{directory}", "second"));
    gateway.write_setup(broken, Writing::Rename);
    let error = eventually("the failure is told", async || {
        let report = last_reload(&gateway).await;
        report["error"].as_str().map(str::to_owned)
    })
    .await;
    assert!(error.contains("log.access"), "{error}");
    serves(&gateway, "first").await;
}

#[tokio::test]
async fn a_request_under_way_keeps_the_rules_that_it_started_with() {
    // Goal: one request, one snapshot. Method: a reload removes the route and the origin while the origin still thinks.
    let slow = Reply::After(
        std::time::Duration::from_secs(3),
        Box::new(Answer::new(200).body("late").into()),
    );
    let origin = Origin::answering(move |request| match request.target.as_str() {
        "/slow" => slow.clone(),
        _ => Answer::new(200).body("first").into(),
    });
    let mut gateway = Gateway::passing(&origin).await;
    let mut client = gateway.client().await;
    let request = tokio::spawn(async move { client.get("/slow").await });
    origin.is_asked(1).await;
    gateway.write_setup(Setup::new().rules(&version("second")), Writing::Rename);
    serves(&gateway, "second").await;
    assert!(
        !request.is_finished(),
        "the reload took longer than the request"
    );
    let answer = request.await.unwrap();
    assert_eq!((answer.status, answer.text()), (200, "late"));
}

#[tokio::test]
async fn an_origin_that_moves_is_followed() {
    // Goal: servers are part of the reload. Method: the same route, another server.
    let (old, new) = (Origin::named("old"), Origin::named("new"));
    let rules = "[[route]]\npath = \"/\"\norigin = \"app\"\n";
    let mut gateway = Gateway::before(&old, rules).await;
    serves(&gateway, "old").await;
    gateway.write_setup(
        Setup::new().origin("app", &new).rules(rules),
        Writing::Rename,
    );
    serves(&gateway, "new").await;
}

async fn last_reload(gateway: &Gateway) -> Value {
    gateway.status().await["configuration"]["last_reload"].clone()
}
