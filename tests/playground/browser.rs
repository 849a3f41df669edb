//! Runs pages in a headless Chromium: the document after its scripts, and no line of the console.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use super::chromium;

/// The arguments beside those of every test.
const MORE: [&str; 3] = [
    "--enable-logging=stderr",
    "--window-size=1280,1000",
    "--dump-dom",
];

/// A browser of this machine.
pub(crate) struct Browser(PathBuf);

/// A document after its scripts have run.
pub(crate) struct Page(String);

impl Browser {
    /// Finds a browser; without one only continuous integration fails.
    pub(crate) fn find() -> Option<Self> {
        let found = chromium::find();
        if found.is_none() {
            assert!(
                env::var_os("CI").is_none(),
                "there is no Chromium: {:?}",
                chromium::NAMES
            );
            eprintln!("There is no Chromium: the playground is NOT tested in a browser.");
        }
        found.map(Self)
    }

    /// Loads a page and returns its document.
    pub(crate) fn dump(&self, address: &str) -> Page {
        self.run(address, &[])
    }

    /// Loads a page for a person who asked for less motion.
    pub(crate) fn dump_calm(&self, address: &str) -> Page {
        self.run(address, &["--force-prefers-reduced-motion"])
    }

    fn run(&self, address: &str, more: &[&str]) -> Page {
        static PROFILES: AtomicU32 = AtomicU32::new(0);
        let number = PROFILES.fetch_add(1, Ordering::Relaxed);
        let profile = env::temp_dir().join(format!("playground-{}-{number}", std::process::id()));
        let output = Command::new(&self.0)
            .args(chromium::ARGUMENTS)
            .args(MORE)
            .args(more)
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg(address)
            .output()
            .unwrap();
        let _ = fs::remove_dir_all(&profile);
        let log = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{address}: {log}");
        let console: Vec<&str> = log
            .lines()
            .filter(|line| line.contains("CONSOLE"))
            .collect();
        assert!(console.is_empty(), "{address}: {console:#?}");
        Page(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Page {
    /// Number of lanes.
    pub(crate) fn lanes(&self) -> usize {
        self.0.matches("<article data-lane=").count()
    }

    pub(crate) fn contains(&self, text: &str) -> bool {
        self.0.contains(text)
    }

    /// The start tag of the label around the input of this id.
    pub(crate) fn label_of(&self, id: &str) -> String {
        let input = self.0.find(&format!("id=\"{id}\"")).unwrap();
        let label = self.0[..input].rfind("<label").unwrap();
        self.0[label..=label + self.0[label..].find('>').unwrap()].to_owned()
    }

    /// The attribute `data-NAME` of the first element that begins so, as it is written in the document.
    pub(crate) fn attribute(&self, element: &str, name: &str) -> String {
        let start = self
            .0
            .find(element)
            .unwrap_or_else(|| panic!("no {element}"));
        let rest = &self.0[start..];
        let tag = &rest[..rest.find('>').unwrap()];
        let (_, value) = tag.split_once(&format!("data-{name}=\"")).unwrap();
        value.split('"').next().unwrap().to_owned()
    }

    /// Requests of a lane that pass, that wait before they do, and that are refused, and the most in any period.
    pub(crate) fn counts(&self, lane: &str) -> [usize; 4] {
        let element = format!("<article data-lane=\"{lane}\"");
        ["passed", "waited", "refused", "most"]
            .map(|name| self.attribute(&element, name).parse().unwrap())
    }
}

/// A server of a folder, until the process ends.
pub(crate) struct Served(SocketAddr);

impl Served {
    pub(crate) fn address(&self) -> SocketAddr {
        self.0
    }
}

/// Serves the files of a folder with this content security policy, and `press.html` and `play.html`: the page with a script of the tests.
pub(crate) fn served(folder: &Path, policy: &'static str) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let folder = folder.to_owned();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let folder = folder.clone();
            thread::spawn(move || answer(stream.unwrap(), &folder, policy));
        }
    });
    Served(address)
}

/// Answers one request; a browser that leaves is no error.
fn answer(mut stream: TcpStream, folder: &Path, policy: &str) {
    let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
    let request = lines.next().unwrap_or_default();
    lines.find(|line| line.is_empty());
    let path = request
        .split(' ')
        .nth(1)
        .unwrap_or("/")
        .trim_start_matches('/');
    let kind = match path.rsplit('.').next() {
        Some("html") => "text/html",
        Some("css") => "text/css",
        _ => "text/javascript",
    };
    let with_script = |name: &str| {
        let page = fs::read_to_string(folder.join("playground.html")).unwrap();
        let script = format!("<script type=\"module\" src=\"{name}\"></script></body>");
        Ok(page.replace("</body>", &script).into_bytes())
    };
    let content = match path {
        "press.html" => with_script("press.js"),
        "play.html" => with_script("play.js"),
        "press.js" => Ok(include_bytes!("press.js").to_vec()),
        "play.js" => Ok(include_bytes!("play.js").to_vec()),
        _ => fs::read(folder.join(path)),
    };
    let (status, body) = match content {
        Ok(body) => ("200 OK", body),
        Err(_) => ("404 Not Found", Vec::new()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\ncontent-security-policy: {policy}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.write_all(&body));
}
