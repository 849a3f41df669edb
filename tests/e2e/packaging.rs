//! What is delivered beside the binary fits it: configurations, unit, package, manifests, man page, completions, schema.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use crate::harness::*;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What a command writes to the standard output.
async fn output(arguments: &[&str]) -> String {
    let mut process = Process::run(arguments);
    assert_eq!(process.exit_code().await, 0, "{}", process.stderr());
    process.stdout()
}

async fn assert_good(text: &str) {
    let directory = TempDir::new().unwrap();
    // The pod's volume.
    let state = directory.path().join("counters");
    let text = text.replace("/state/counters", &state.display().to_string());
    let file = directory.path().join("gateway.toml");
    fs::write(&file, text).unwrap();
    output(&["check", file.to_str().unwrap()]).await;
}

#[tokio::test]
async fn the_configurations_that_are_delivered_are_good() {
    // Goal: what is installed starts. Method: `check` of the package's file, and of the one in the ConfigMap.
    assert_good(&project_file("packaging/gateway.toml")).await;
    let manifest = project_file("packaging/kubernetes/sluicegate.yaml");
    let embedded = texts(&manifest, "gateway.toml");
    assert!(embedded[0].contains("[[listener]]"), "{embedded:?}");
    assert_good(&embedded[0]).await;
}

/// The texts with this key in the ConfigMaps of a manifest.
fn texts(manifest: &str, key: &str) -> Vec<String> {
    let begin = format!("  {key}: |\n");
    let maps = manifest.split(&begin).skip(1);
    let text = |map: &str| -> String {
        let lines = map.lines();
        lines
            .take_while(|line| line.is_empty() || line.starts_with("    "))
            .map(|line| format!("{}\n", line.strip_prefix("    ").unwrap_or_default()))
            .collect()
    };
    maps.map(text).collect()
}

/// What the kubelet does with a projected volume: a directory of another version, and one link that is swapped.
fn mount(directory: &Path, files: &[(&str, &str)], version: u32) {
    let name = format!("..{version}");
    fs::create_dir_all(directory.join(&name)).unwrap();
    for (file, text) in files {
        fs::write(directory.join(&name).join(file), text).unwrap();
    }
    symlink(&name, directory.join("..data_tmp")).unwrap();
    fs::rename(directory.join("..data_tmp"), directory.join("..data")).unwrap();
    for (file, _) in files {
        if !directory.join(file).exists() {
            symlink(Path::new("..data").join(file), directory.join(file)).unwrap();
        }
    }
}

#[tokio::test]
async fn each_team_has_a_config_map_of_its_own() {
    // Goal: a team changes its limits alone, and a mistake of one changes nothing for any. Method: the two ConfigMaps of the manifest,
    // mounted as the kubelet mounts them; one team changes its rate, then breaks its file.
    let teams = texts(
        &project_file("packaging/kubernetes/teams.yaml"),
        "limits.toml",
    );
    let [checkout, search] = &teams[..] else {
        panic!("{teams:?}")
    };
    let volume = TempDir::new().unwrap();
    let files = |checkout: &str, version| {
        let files = [
            ("checkout.toml", checkout),
            ("search.toml", search.as_str()),
        ];
        mount(volume.path(), &files, version);
    };
    files(checkout, 1);
    let site = Origin::echo();
    let gateway = Setup::new()
        .whole(&format!(
            "include = [\"{}/*.toml\"]\n[[listener]]\naddress = \"{{listener}}\"\n[admin]\naddress = \"{{admin}}\"\n\
             [origin.app]\nservers = [\"{}\"]\n",
            volume.path().display(),
            site.address()
        ))
        .start()
        .await;
    let cart = || get("/cart/1").header("host", "shop.example.com");
    let quota = async || {
        let answer = gateway.send(cart()).await;
        answer.header("ratelimit-policy").map(str::to_owned)
    };
    assert!(quota().await.unwrap().contains("q=30"));
    let query = get("/").header("host", "search.example.com");
    assert_eq!(gateway.send(query).await.status, 200);

    files(&checkout.replace("30 per 1m", "31 per 1m"), 2);
    eventually("the team's rate is in force", async || {
        quota().await.filter(|quota| quota.contains("q=31"))
    })
    .await;
    files("[limit.checkout-cart]\nrates = [\"many\"]\n", 3);
    eventually("the broken file is told", async || {
        let name = "sluicegate_config_last_reload_success";
        (gateway.metrics().await.sum(name, &[]) == 0.0).then_some(())
    })
    .await;
    assert!(quota().await.unwrap().contains("q=31"));
}

#[test]
fn the_drains_of_unit_and_manifest_outlast_the_gateways() {
    // Goal: no service manager kills a process that still drains. Method: the timeouts in the files against `shutdown_timeout`.
    let seconds = |text: &str, before: &str| -> u64 {
        let rest = text
            .split(before)
            .nth(1)
            .unwrap_or_else(|| panic!("no {before}"));
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap()
    };
    let unit = project_file("packaging/systemd/sluicegate.service");
    // The default, which packaging/gateway.toml leaves as it is.
    assert!(!project_file("packaging/gateway.toml").contains("shutdown_timeout"));
    assert!(seconds(&unit, "TimeoutStopSec=") > 30);
    let manifest = project_file("packaging/kubernetes/sluicegate.yaml");
    let grace = seconds(&manifest, "terminationGracePeriodSeconds: ");
    let before = seconds(&manifest, "sleep: { seconds: ");
    assert!(grace > before + seconds(&manifest, "shutdown_timeout = \""));
}

#[tokio::test]
async fn the_unit_starts_what_the_package_installs() {
    // Goal: paths agree. Method: each path of the unit and the maintainer scripts is an asset of the package or a directory that systemd
    // makes; each source of an asset is in the tree or is made by `./dev package`; the unit's commands are commands.
    let manifest: toml::de::DeTable<'_> = {
        let text = Box::leak(project_file("Cargo.toml").into_boxed_str());
        toml::de::DeTable::parse(text).unwrap().into_inner()
    };
    let deb = manifest["package"].get_ref()["metadata"].get_ref()["deb"].get_ref();
    let assets: Vec<(String, String)> = deb["assets"]
        .get_ref()
        .as_array()
        .unwrap()
        .iter()
        .map(|asset| {
            let text = |at: usize| asset.get_ref()[at].get_ref().as_str().unwrap().to_owned();
            (text(0), text(1))
        })
        .collect();
    let made = project_file("dev");
    for (source, _) in &assets {
        let is_made = source.starts_with("target/")
            && made.contains(
                source
                    .trim_start_matches("target/")
                    .rsplit('/')
                    .next()
                    .unwrap(),
            );
        assert!(
            is_made || root().join(source.trim_end_matches("/*.md")).exists(),
            "{source} is not there"
        );
    }
    let installed: BTreeSet<PathBuf> = assets
        .iter()
        .map(|(source, target)| match target.strip_suffix('/') {
            Some(directory) => Path::new("/")
                .join(directory)
                .join(Path::new(source).file_name().unwrap()),
            None => Path::new("/").join(target),
        })
        .collect();
    let unit = project_file("packaging/systemd/sluicegate.service");
    let starts: Vec<&str> = unit
        .lines()
        .filter_map(|line| {
            line.strip_prefix("ExecStart=")
                .or(line.strip_prefix("ExecStartPre="))
        })
        .collect();
    assert_eq!(starts.len(), 2);
    for start in starts {
        let words: Vec<&str> = start.split(' ').collect();
        assert!(installed.contains(Path::new(words[0])), "{start}");
        assert!(
            installed.contains(Path::new(words[words.len() - 1])),
            "{start}"
        );
        output(&[words[1], "--help"]).await;
    }
    for script in ["postinst", "prerm", "postrm"] {
        assert!(project_file(&format!("packaging/debian/{script}")).contains("#DEBHELPER#"));
    }
    let configuration = project_file("packaging/gateway.toml");
    for directory in ["StateDirectory=sluicegate\n", "LogsDirectory=sluicegate\n"] {
        assert!(unit.contains(directory), "{directory}");
    }
    assert!(configuration.contains("\"/var/lib/sluicegate/state\""));
    assert!(configuration.contains("\"/var/log/sluicegate/access.log\""));
}

#[test]
fn the_image_finds_every_file_that_a_manifest_names() {
    // Goal: `docker build` gets past the manifests. Method: it makes empty files for the targets that a manifest names by path, so each
    // target that a manifest lists has one.
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let crates = std::fs::read_dir(root.join("crates")).unwrap();
    let crates = crates.map(|entry| entry.unwrap().path().join("Cargo.toml"));
    for manifest in crates.chain([root.join("Cargo.toml")]) {
        let text = std::fs::read_to_string(&manifest).unwrap();
        let targets = text.split("\n[[").skip(1);
        for target in targets.map(|rest| rest.split("\n[").next().unwrap_or(rest)) {
            assert!(
                target.contains("\npath = \""),
                "{}: [[{target}",
                manifest.display()
            );
        }
    }
}

#[tokio::test]
async fn the_units_stop_drains_and_waits() {
    // Goal: systemd, which kills a main process that it has not started itself without waiting, has nothing left to kill. Method: the
    // script of `ExecStop=` while a request is under way: it ends after the gateway, which ends after the answer.
    let unit = project_file("packaging/systemd/sluicegate.service");
    let stop = unit
        .lines()
        .find_map(|line| {
            line.strip_prefix("ExecStop=-/bin/sh -c '")?
                .strip_suffix('\'')
        })
        .unwrap();
    let late = Reply::After(
        Duration::from_secs(1),
        Box::new(Answer::new(200).body("late").into()),
    );
    let origin = Origin::answering(move |_| late.clone());
    let mut gateway = Gateway::passing(&origin).await;
    let mut client = gateway.client().await;
    let request = tokio::spawn(async move { client.get("/").await });
    origin.is_asked(1).await;
    let mut script = std::process::Command::new("/bin/sh")
        .args(["-c", stop])
        .env("MAINPID", gateway.id().to_string())
        .spawn()
        .unwrap();
    assert_eq!(request.await.unwrap().text(), "late");
    assert!(script.try_wait().unwrap().is_none(), "it does not wait");
    assert_eq!(gateway.exit_code().await, 0);
    eventually("the script ends", async || script.try_wait().unwrap()).await;
}

#[tokio::test]
async fn man_page_and_completions_name_every_command() {
    // Goal: they are made from the command line that there is. Method: each command of the help is in both.
    let help = output(&["--help"]).await;
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| line.starts_with("  "))
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(commands.contains(&"upgrade"), "{help}");
    let page = output(&["man"]).await;
    assert!(page.contains(".TH SLUICEGATE 1"), "{page}");
    for shell in ["bash", "zsh", "fish"] {
        let script = output(&["completions", shell]).await;
        for command in &commands {
            assert!(script.contains(command), "{shell} lacks {command}");
            assert!(page.contains(&command.replace('-', "\\-")), "{command}");
        }
    }
}

#[tokio::test]
async fn the_schema_is_one_that_editors_read() {
    // Goal: `sluicegate schema > sluicegate.schema.json` is a file to point an editor at. Method: it is JSON of the draft that it names,
    // and knows a key of each kind of table.
    let schema: serde_json::Value = serde_json::from_str(&output(&["schema"]).await).unwrap();
    assert_eq!(
        schema["$schema"],
        "https://json-schema.org/draft/2020-12/schema"
    );
    let tables = &schema["properties"];
    assert_eq!(tables["server"]["properties"]["threads"]["type"], "integer");
    assert_eq!(
        tables["route"]["items"]["properties"]["path"]["type"],
        "string"
    );
    let limit = &tables["limit"]["additionalProperties"];
    assert_eq!(
        limit["properties"]["key"]["type"],
        serde_json::json!(["string", "array"])
    );
    assert_eq!(limit["additionalProperties"], false);
    assert!(
        limit["properties"]["rates"]["description"]
            .as_str()
            .unwrap()
            .contains("periods")
    );
}

#[tokio::test]
async fn the_man_page_has_the_sections_that_an_operator_looks_for() {
    // Goal: man(1) renders the page, and it answers what the help of the commands does not. Method: each section heading is there once,
    // every signal that docs/operations/upgrades.md lists is in SIGNALS, and no line is longer than a macro may be.
    let page = output(&["man"]).await;
    for section in [
        "FILES",
        "ENVIRONMENT",
        "SIGNALS",
        "EXIT STATUS",
        "EXAMPLES",
        "SEE ALSO",
    ] {
        let heading = format!("\n.SH {section}\n");
        assert_eq!(page.matches(&heading).count(), 1, "{section}");
    }
    let operations = project_file("docs/operations/upgrades.md");
    let signals = operations
        .lines()
        .filter_map(|line| line.strip_prefix("| SIG")?.split(' ').next());
    for signal in signals {
        assert!(page.contains(&format!(".B SIG{signal}\n")), "SIG{signal}");
    }
}

#[test]
fn the_container_is_stopped_no_earlier_than_its_drain_ends() {
    // Goal: Docker does not kill a process that still drains. Method: the grace period of the Compose file, against the default of
    // `shutdown_timeout`, which conf/gateway.toml leaves as it is.
    assert!(!project_file("conf/gateway.toml").contains("shutdown_timeout"));
    let compose = project_file("packaging/docker/compose.yaml");
    let grace = compose
        .lines()
        .find_map(|line| {
            line.trim()
                .strip_prefix("stop_grace_period: ")?
                .strip_suffix('s')
        })
        .unwrap();
    assert!(grace.parse::<u64>().unwrap() > 30, "{grace}");
}

#[test]
fn the_release_runs_commands_that_the_script_has() {
    // Goal: a release can be made by hand. Method: each `./dev COMMAND` of the workflow is a command that `./dev help` lists.
    let help = std::process::Command::new(root().join("dev"))
        .arg("help")
        .output()
        .unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let workflow = project_file(".github/workflows/release.yml");
    let commands: Vec<&str> = workflow
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- run: ./dev ")?.split(' ').next())
        .collect();
    assert!(commands.len() >= 3, "{commands:?}");
    for command in commands {
        assert!(help.contains(&format!("\n  {command} ")), "{command}");
    }
}
