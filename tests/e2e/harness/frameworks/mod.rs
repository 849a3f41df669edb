//! Real web frameworks as origins, from the system's packages: each says how it read the request that it got.
//!
//! One application a framework, in the file beside this one, answers every request with the same JSON: whether it dispatched to the
//! limited path, [`LIMITED`], under any of the ways in which applications of that framework find their route, and what the usual
//! look-ups of form, query, cookie and header fields give. [`Reading`] is that answer.
//!
//! `./dev test` installs what [`Framework::REQUIRED`] needs; such a framework that does not start fails the test. The others take part
//! where they are installed.

use std::env;
use std::fs::{self, File, Permissions};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::client::Response;
use super::eventually::eventually;
use super::ports::free_address;

/// The path that the applications dispatch to their limited route. A slash at its end is ignored.
pub const LIMITED: &str = "/auth/sendOTP";

/// Another process can take a port between its choice and the start.
const START_ATTEMPTS: usize = 5;

/// A framework with the server that is usual for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framework {
    /// PHP's own server with a router script: `parse_url`, the target up to its query, HttpFoundation and others.
    Php,
    /// PHP's own server with an `index.php` at the root and in a folder, which get `PATH_INFO`.
    PhpFrontController,
    /// PHP in Apache, whose rewriting leads every path without a file to `index.php?url=PATH`.
    Apache,
    /// Flask on Werkzeug.
    Flask,
    /// FastAPI on uvicorn, which says which ids it reads.
    FastApi,
    /// Django on its development server.
    Django,
    /// Node's `http` with `url.parse`, `new URL` and `parseurl`.
    Node,
    /// Rack on WEBrick.
    Rack,
    /// Rack on Puma.
    Puma,
    /// The router of Rails on WEBrick.
    Rails,
    /// CherryPy on cheroot.
    CherryPy,
    /// Express.
    Express,
    /// Bottle on wsgiref.
    Bottle,
    /// Tornado.
    Tornado,
    /// WebOb, of which Pyramid makes its requests, on wsgiref.
    WebOb,
    /// Node's `http` with the interface of a language model, which dispatches nothing.
    LanguageModel,
    /// Django's REST framework.
    DjangoRest,
    /// aiohttp, which is read for bodies alone, as those that follow.
    Aiohttp,
    /// Litestar on Uvicorn.
    Litestar,
    /// Sanic.
    Sanic,
    /// BlackSheep on Uvicorn.
    BlackSheep,
    /// formidable on Node's `http`.
    Formidable,
    /// busboy on Node's `http`.
    Busboy,
}

/// A running framework; it is killed by its own process id when dropped.
pub struct FrameworkServer {
    child: Child,
    address: SocketAddr,
    _directory: TempDir,
}

/// How an application read a request.
#[derive(Clone, Debug)]
pub struct Reading(Value);

impl Framework {
    /// Those that every machine has on which the tests run.
    pub const REQUIRED: [Self; 6] = [
        Self::Php,
        Self::PhpFrontController,
        Self::Flask,
        Self::Django,
        Self::Node,
        Self::Rack,
    ];

    /// Whether it is required, or installed.
    pub fn is_at_hand(self) -> bool {
        if Self::REQUIRED.contains(&self) {
            return true;
        }
        let found = match self {
            Self::Apache => apache_module().is_some(),
            Self::FastApi => succeeds(python("fastapi"), &["-c", "import fastapi, uvicorn"]),
            Self::CherryPy => succeeds(python("cherrypy"), &["-c", "import cherrypy"]),
            Self::Bottle => succeeds(python("bottle"), &["-c", "import bottle"]),
            Self::Tornado => succeeds(python("tornado"), &["-c", "import tornado"]),
            Self::WebOb => succeeds(python("webob"), &["-c", "import webob"]),
            Self::Puma => succeeds("ruby", &["-e", "require 'rack'; require 'puma'"]),
            Self::Rails => succeeds("ruby", &["-e", "require 'rack'; require 'action_dispatch'"]),
            Self::Express => succeeds("node", &["-e", "require('express')"]),
            Self::DjangoRest => {
                succeeds(python("rest_framework"), &["-c", "import rest_framework"])
            }
            Self::Aiohttp => succeeds(python("aiohttp"), &["-c", "import aiohttp"]),
            Self::Litestar => imports_packaged("litestar"),
            Self::Sanic => imports_packaged("sanic"),
            Self::BlackSheep => imports_packaged("blacksheep"),
            Self::Formidable => requires("formidable"),
            Self::Busboy => requires("busboy"),
            _ => false,
        };
        if !found {
            eprintln!("{self:?} is not installed: not asked");
        }
        found
    }

    /// Starts it and waits until it accepts.
    ///
    /// # Panics
    ///
    /// Where it does not start, with what it wrote.
    pub async fn start(self) -> FrameworkServer {
        for attempt in 1.. {
            match self.try_start().await {
                Ok(server) => return server,
                Err(output) => assert!(
                    is_about_the_port(&output) && attempt < START_ATTEMPTS,
                    "{self:?} does not start; `./dev test` installs what it needs: {output}"
                ),
            }
        }
        unreachable!("every attempt returns or panics")
    }

    async fn try_start(self) -> Result<FrameworkServer, String> {
        let directory = TempDir::new().unwrap();
        let address = free_address();
        let output = directory.path().join("output.log");
        let mut command = self.command(directory.path(), address);
        let child = command
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&output).unwrap())
            .spawn()
            .map_err(|error| format!("{:?}: {error}", command.get_program()))?;
        let mut server = FrameworkServer {
            child,
            address,
            _directory: directory,
        };
        eventually("the framework accepts", async || {
            if server.child.try_wait().unwrap().is_some() {
                let output = fs::read(&output).unwrap_or_default();
                return Some(Err(String::from_utf8_lossy(&output).into_owned()));
            }
            let accepts = TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok();
            accepts.then_some(Ok(()))
        })
        .await
        .map(|()| server)
    }

    /// Writes the application into `directory`, and gives the command that serves it on `address`.
    fn command(self, directory: &Path, address: SocketAddr) -> Command {
        let place = |name: &str, text: &str| {
            let file = directory.join(name);
            fs::write(&file, text).unwrap();
            file
        };
        let address = address.to_string();
        let (program, script, more) = match self {
            Self::Litestar | Self::Sanic | Self::BlackSheep => {
                let mut command = packaged_python();
                command
                    .arg(place("app.py", include_str!("body_app.py")))
                    .args([&address, &format!("{self:?}").to_lowercase()]);
                return command;
            }
            Self::Formidable | Self::Busboy => {
                let mut command = node();
                command
                    .arg(place("app.js", include_str!("body_app.js")))
                    .args([&address, &format!("{self:?}").to_lowercase()]);
                return command;
            }
            Self::Php | Self::PhpFrontController => {
                let name = if self == Self::Php {
                    "router.php"
                } else {
                    "index.php"
                };
                let script = place(name, include_str!("app.php"));
                if self == Self::PhpFrontController {
                    fs::create_dir(directory.join("auth")).unwrap();
                    place("auth/index.php", include_str!("app.php"));
                }
                let mut command = Command::new("php");
                // What PHP does without a php.ini, as in its container images: cookies are in $_REQUEST.
                command.args(["-d", "request_order=", "-S", &address]);
                if self == Self::Php {
                    command.arg(script);
                }
                return command;
            }
            Self::Apache => {
                // Apache gives up the privileges of root, and must read the application then.
                fs::set_permissions(directory, Permissions::from_mode(0o755)).unwrap();
                place("index.php", include_str!("app.php"));
                let module = apache_module().expect("it is at hand");
                let config = include_str!("apache.conf")
                    .replace("{home}", &directory.display().to_string())
                    .replace("{address}", &address)
                    .replace("{php}", &module.display().to_string());
                let mut command = Command::new("/usr/sbin/apache2");
                command
                    .arg("-X")
                    .arg("-f")
                    .arg(place("apache.conf", &config));
                return command;
            }
            Self::Flask => (
                python("flask"),
                place("app.py", include_str!("flask_app.py")),
                "",
            ),
            Self::FastApi => (
                python("fastapi"),
                place("app.py", include_str!("fastapi_app.py")),
                "",
            ),
            Self::Django => (
                python("django"),
                place("app.py", include_str!("django_app.py")),
                "",
            ),
            Self::DjangoRest => (
                python("rest_framework"),
                place("app.py", include_str!("django_app.py")),
                "rest",
            ),
            Self::Aiohttp => (
                python("aiohttp"),
                place("app.py", include_str!("body_app.py")),
                "aiohttp",
            ),
            Self::CherryPy => (
                python("cherrypy"),
                place("app.py", include_str!("cherrypy_app.py")),
                "",
            ),
            Self::Bottle => (
                python("bottle"),
                place("app.py", include_str!("bottle_app.py")),
                "",
            ),
            Self::Tornado => (
                python("tornado"),
                place("app.py", include_str!("tornado_app.py")),
                "",
            ),
            Self::WebOb => (
                python("webob"),
                place("app.py", include_str!("webob_app.py")),
                "",
            ),
            Self::Node => (
                "node",
                place("app.js", include_str!("node_app.js")),
                "plain",
            ),
            Self::Express => (
                "node",
                place("app.js", include_str!("node_app.js")),
                "express",
            ),
            Self::LanguageModel => ("node", place("model.js", include_str!("model.js")), ""),
            Self::Rack => (
                "ruby",
                place("app.rb", include_str!("rack_app.rb")),
                "webrick",
            ),
            Self::Puma => ("ruby", place("app.rb", include_str!("rack_app.rb")), "puma"),
            Self::Rails => (
                "ruby",
                place("app.rb", include_str!("rack_app.rb")),
                "rails",
            ),
        };
        let mut command = Command::new(program);
        command.arg(script).args([&address, more]);
        command
    }
}

impl FrameworkServer {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for FrameworkServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Reading {
    /// What the application says of a request; `None` where the gateway or the framework answered before the application saw it.
    pub fn of(answer: &Response) -> Option<Self> {
        answer.header("x-dispatched")?;
        let body = if answer.body.is_empty() {
            Value::Null
        } else {
            answer.json()
        };
        Some(Self(body))
    }

    /// Whether the answer comes from the limited route; true of a HEAD as well.
    pub fn is_limited(answer: &Response) -> bool {
        answer.header("x-dispatched") == Some("limited")
    }

    /// The paths that the application found, by the way in which it did.
    pub fn paths(&self) -> &Value {
        &self.0["read"]
    }

    /// The method that the application saw.
    pub fn method(&self) -> &str {
        self.0["method"].as_str().unwrap_or_default()
    }

    /// What the usual look-ups of a form field give.
    pub fn form(&self, name: &str) -> Vec<&str> {
        self.values("form", name)
    }

    /// What the application finds under a member of a JSON body.
    pub fn json(&self, name: &str) -> Vec<&str> {
        self.values("json", name)
    }

    /// What the usual look-ups of a query parameter give.
    pub fn query(&self, name: &str) -> Vec<&str> {
        self.values("query", name)
    }

    /// What the usual look-ups of a cookie give.
    pub fn cookie(&self, name: &str) -> Vec<&str> {
        self.values("cookie", name)
    }

    /// What the framework finds in `Authorization`: a token, or user and password; none where it does not look there.
    pub fn credentials(&self) -> Vec<&str> {
        let found = self.0["credentials"].as_array().into_iter().flatten();
        found.filter_map(Value::as_str).collect()
    }

    /// What the usual look-ups of a header field give; `name` in lower case with hyphens.
    pub fn header(&self, name: &str) -> Vec<&str> {
        self.values("header", name)
    }

    fn values(&self, source: &str, name: &str) -> Vec<&str> {
        let values = self.0[source][name].as_array();
        let texts = values.into_iter().flatten().map(|value| value.as_str());
        texts.map(|text| text.unwrap_or_default()).collect()
    }
}

/// The PHP of Apache, where Debian installs it.
fn apache_module() -> Option<PathBuf> {
    let modules = fs::read_dir("/usr/lib/apache2/modules").ok()?;
    let mut paths = modules.filter_map(|module| Some(module.ok()?.path()));
    paths.find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libphp") && name.ends_with(".so")
    })
}

/// The Python that has this module. Debian's packages are for Debian's Python, which need not be the first on the path.
pub fn python(module: &str) -> &'static str {
    const PYTHONS: [&str; 2] = ["/usr/bin/python3", "python3"];
    let import = format!("import {module}");
    let has_it = |python: &&&str| succeeds(python, &["-c", &import]);
    PYTHONS.iter().find(has_it).unwrap_or(&PYTHONS[0])
}

/// Python with the packages that `./dev test` has fetched from PyPI.
fn packaged_python() -> Command {
    let mut command = Command::new("python3");
    if let Some(folder) = env::var_os("SLUICEGATE_TEST_PYTHON_ORIGINS") {
        command.env("PYTHONPATH", folder);
    }
    command
}

fn imports_packaged(module: &str) -> bool {
    let import = format!("import {module}");
    is_success(packaged_python().args(["-c", &import]))
}

/// Node with the libraries of the system: Debian's are for Debian's Node, which need not be the first on the path.
fn node() -> Command {
    let mut command = Command::new("node");
    command.env("NODE_PATH", "/usr/share/nodejs");
    command
}

fn requires(library: &str) -> bool {
    is_success(node().args(["-e", &format!("require('{library}')")]))
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    is_success(Command::new(program).args(arguments))
}

fn is_success(command: &mut Command) -> bool {
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

fn is_about_the_port(output: &str) -> bool {
    let output = output.to_ascii_lowercase();
    ["in use", "eaddrinuse", "not free"]
        .iter()
        .any(|words| output.contains(words))
}
