//! What a gateway under test is configured with: the lines that every test needs are written here, the rest is the test's own TOML.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use super::client::Version;
use super::driven_clock;
use super::gateway::Gateway;
use super::http3_client::Http3Client;
use super::origin::Origin;

/// A configuration in the making.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    files_open: Option<u64>,
    hosts: Option<String>,
    listener: String,
    admin: String,
    log: String,
    access: Access,
    origins: String,
    rules: String,
    files: Vec<(String, String)>,
    whole: Option<String>,
    layout: Layout,
    clock: GatewayClock,
    variables: Vec<(String, String)>,
    spoken: Version,
}

/// Where access lines go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Access {
    #[default]
    File,
    Syslog,
    Off,
}

/// How the file lies in its directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Layout {
    #[default]
    File,
    ConfigMap,
}

/// Who sets the time of the gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum GatewayClock {
    #[default]
    Machine,
    Driven,
}

/// How a new configuration replaces the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writing {
    /// Written beside it and renamed over it, as editors and deployment tools do.
    Rename,
    /// Truncated and written, as `>` does.
    InPlace,
    /// A directory of its own and a symbolic link swapped, as Kubernetes mounts config maps.
    ConfigMap,
}

/// The addresses and paths that differ from start to start.
pub(super) struct Place<'a> {
    pub listener: SocketAddr,
    pub admin: SocketAddr,
    pub directory: &'a Path,
}

impl Setup {
    /// One listener, the admin listener, the access log in a file; nothing else.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `[origin.NAME]` with one server; the test's rules may add `[origin.NAME.timeouts]` and the like.
    pub fn origin(self, name: &str, origin: &Origin) -> Self {
        self.servers(name, &[origin.address()])
    }

    /// Adds `[origin.NAME]` with these servers.
    pub fn servers(mut self, name: &str, servers: &[SocketAddr]) -> Self {
        let servers: Vec<String> = servers
            .iter()
            .map(|server| format!("\"{server}\""))
            .collect();
        self.origins.push_str(&format!(
            "[origin.{name}]\nservers = [{}]\n",
            servers.join(", ")
        ));
        self
    }

    /// Adds a line to the last `[origin.NAME]`.
    pub fn origin_line(mut self, line: &str) -> Self {
        self.origins.push_str(&format!("{line}\n"));
        self
    }

    /// Adds a line to `[[listener]]`.
    pub fn listener_line(mut self, line: &str) -> Self {
        self.listener.push_str(&format!("{line}\n"));
        self
    }

    /// Clients that are not asked for by a version speak this one. For HTTP/3 the listener has TLS, so this comes behind its lines.
    pub fn spoken_to_by(mut self, version: Version) -> Self {
        self.spoken = version;
        if version != Version::Http3 {
            return self;
        }
        let pair = Http3Client::believed();
        self.file("http3.pem", &pair.certificate)
            .file("http3.key", &pair.key)
            .listener_line("http3 = true")
            .listener_line("[listener.tls]")
            .listener_line(
                "certificates = [{ cert_file = \"../http3.pem\", key_file = \"../http3.key\" }]",
            )
    }

    /// The version that clients speak.
    pub(super) fn spoken(&self) -> Version {
        self.spoken
    }

    /// Adds a line to `[admin]`; `{directory}` stands for the test's own.
    pub fn admin_line(mut self, line: &str) -> Self {
        self.admin.push_str(&format!("{line}\n"));
        self
    }

    /// The admin listener asks for one of these tokens, which lie in the file `token` of the test's directory.
    pub fn tokens(self, text: &str) -> Self {
        self.file("token", text)
            .admin_line("token_file = \"{directory}/token\"")
    }

    /// Adds a line to `[log]`.
    pub fn log_line(mut self, line: &str) -> Self {
        self.log.push_str(&format!("{line}\n"));
        self
    }

    /// Writes no access log: for a million requests.
    pub fn without_access_log(mut self) -> Self {
        self.access = Access::Off;
        self
    }

    /// Access lines go to the server of `[log.syslog]`, which the rules have.
    pub fn with_syslog(mut self) -> Self {
        self.access = Access::Syslog;
        self
    }

    /// The file lies as Kubernetes mounts a config map.
    pub fn mounted_as_config_map(mut self) -> Self {
        self.layout = Layout::ConfigMap;
        self
    }

    /// The test sets the time of the gateway, by [`Gateway::clock`].
    pub fn with_driven_clock(mut self) -> Self {
        self.clock = GatewayClock::Driven;
        self
    }

    /// Limits, routes and whatever else the test is about, replacing what was there.
    pub fn rules(mut self, rules: &str) -> Self {
        self.rules = rules.to_owned();
        self
    }

    /// A file in the test's directory, written before the start.
    pub fn file(mut self, name: &str, content: &str) -> Self {
        self.files.push((name.to_owned(), content.to_owned()));
        self
    }

    /// A whole file of the test's own, where `{listener}`, `{admin}` and `{directory}` are filled in.
    pub fn whole(mut self, text: &str) -> Self {
        self.whole = Some(text.to_owned());
        self
    }

    /// The gateway may have so many files open.
    pub fn with_open_files(mut self, files: u64) -> Self {
        self.files_open = Some(files);
        self
    }

    /// A variable of the gateway's environment.
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The gateway looks names up in this file of its directory instead of `/etc/hosts`. Such a start needs a namespace of its own:
    /// `None` where the system gives none.
    pub fn with_hosts(mut self, file: &str) -> Option<Self> {
        let mut unshare = Command::new("unshare");
        let is_given = unshare.args(["-rm", "true"]).stderr(Stdio::null()).status();
        self.hosts = Some(file.to_owned());
        is_given
            .is_ok_and(|status| status.success())
            .then_some(self)
    }

    /// Starts the gateway and waits until it is ready.
    pub async fn start(self) -> Gateway {
        Gateway::start_with(self).await
    }

    /// The gateway's program, to be run in its directory; under the process id that it is started with.
    pub(super) fn command(&self, program: &str) -> Command {
        if self.clock == GatewayClock::Driven {
            return driven_clock::command();
        }
        let Some(hosts) = &self.hosts else {
            return command(program, self.files_open);
        };
        let mut command = Command::new("unshare");
        let script = format!("mount --bind {hosts} /etc/hosts && exec \"$0\" \"$@\"");
        command.args(["-rm", "sh", "-c", &script, program]);
        command
    }

    pub(super) fn variables(&self) -> &[(String, String)] {
        &self.variables
    }

    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    pub(super) fn files(&self) -> &[(String, String)] {
        &self.files
    }

    /// The file's text.
    pub(super) fn render(&self, place: &Place<'_>) -> String {
        let directory = place.directory.display();
        let Place {
            listener, admin, ..
        } = place;
        if let Some(whole) = &self.whole {
            return whole
                .replace("{listener}", &listener.to_string())
                .replace("{admin}", &admin.to_string())
                .replace("{directory}", &directory.to_string());
        }
        let access = match self.access {
            Access::File => format!("{directory}/access.log"),
            Access::Syslog => "syslog".to_owned(),
            Access::Off => "off".to_owned(),
        };
        let admin_lines = self.admin.replace("{directory}", &directory.to_string());
        let Self {
            listener: listener_lines,
            log,
            origins,
            rules,
            ..
        } = self;
        format!(
            "[[listener]]\naddress = \"{listener}\"\n{listener_lines}\n\
             [admin]\naddress = \"{admin}\"\n{admin_lines}\n\
             [log]\naccess = \"{access}\"\n{log}\n\
             {origins}\n{rules}\n"
        )
    }
}

/// The program, with so many open files at most; under the process id that it is started with.
fn command(program: &str, files: Option<u64>) -> Command {
    let Some(files) = files else {
        return Command::new(program);
    };
    let mut command = Command::new("prlimit");
    command.args([&format!("--nofile={files}:{files}"), program]);
    command
}
