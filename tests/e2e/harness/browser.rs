//! A real Chromium without a window, driven through its DevTools protocol.
//!
//! A [`Page`] notes whatever the browser complains about: exceptions, errors on the console, violations of a policy, requests that failed.
//! Each browser has a profile of its own and ends with the test.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use super::chromium;
use super::client::{Client, request};
use super::eventually::{PATIENCE, at_a_pace, eventually};
use super::tls::Pair;

/// The time between two looks at a page.
const PAUSE: Duration = Duration::from_millis(20);

/// The arguments of those that speak no HTTP/3.
const WITHOUT_HTTP3: [&str; 1] = ["--disable-quic"];

/// Parts of the errors that say that a document was left, and the next one has not begun.
const BETWEEN_DOCUMENTS: [&str; 4] = [
    "navigated or closed",
    "Cannot find default execution context",
    "Execution context was destroyed",
    "Promise was collected",
];

/// A running browser; it is killed by its own process id when dropped.
pub struct Browser {
    child: Child,
    _profile: TempDir,
    address: SocketAddr,
}

/// One tab.
pub struct Page {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    calls: u64,
    complaints: Vec<String>,
    /// Events that nobody has read yet.
    events: VecDeque<Value>,
    addresses: BTreeMap<String, String>,
    loaded: BTreeMap<String, u64>,
}

impl Browser {
    /// Starts one.
    pub async fn start() -> Self {
        Self::with_profile(TempDir::new().unwrap(), &WITHOUT_HTTP3).await
    }

    /// Starts one that speaks HTTP/3 with this host and port, and believes this certificate of it.
    pub async fn speaking_http3(address: &str, pair: &Pair) -> Self {
        let host = format!("--origin-to-force-quic-on={address}");
        let believed = format!(
            "--ignore-certificate-errors-spki-list={}",
            pair.key_digest()
        );
        // The gateway has no address of IPv6.
        let resolved = "--host-resolver-rules=MAP localhost 127.0.0.1";
        let arguments = [&*host, &*believed, resolved];
        Self::with_profile(TempDir::new().unwrap(), &arguments).await
    }

    /// Starts one that stores no cookie.
    pub async fn without_cookies() -> Self {
        let profile = TempDir::new().unwrap();
        let settings = json!({ "profile": { "default_content_setting_values": { "cookies": 2 } } });
        fs::create_dir(profile.path().join("Default")).unwrap();
        fs::write(
            profile.path().join("Default/Preferences"),
            settings.to_string(),
        )
        .unwrap();
        Self::with_profile(profile, &WITHOUT_HTTP3).await
    }

    async fn with_profile(profile: TempDir, arguments: &[&str]) -> Self {
        let program = chromium::find().expect("there is no Chromium; `./dev test` installs it");
        let child = Command::new(program)
            .args(chromium::ARGUMENTS)
            .args(arguments)
            .args(["--remote-debugging-port=0", "about:blank"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let file = profile.path().join("DevToolsActivePort");
        let port = eventually("the browser opens its port", async || {
            let text = fs::read_to_string(&file).ok()?;
            // The number is whole once the line behind it has begun.
            let (port, _) = text.split_once('\n')?;
            port.parse::<u16>().ok()
        })
        .await;
        Self {
            child,
            _profile: profile,
            address: ([127, 0, 0, 1], port).into(),
        }
    }

    /// Opens a tab and loads an address.
    pub async fn open(&self, url: &str) -> Page {
        let mut page = self.tab().await;
        page.go(url).await;
        page
    }

    /// Opens an empty tab.
    pub async fn tab(&self) -> Page {
        let ask = request("PUT", "/json/new?about:blank").header("host", "127.0.0.1");
        let target = Client::connect(self.address).await.send(ask).await.json();
        let url = target["webSocketDebuggerUrl"].as_str().unwrap();
        // Without the port that the host of the request lacked.
        let path = url.split_once("/devtools/").unwrap().1;
        let url = format!("ws://{}/devtools/{path}", self.address);
        let (socket, _) = connect_async(url).await.unwrap();
        let mut page = Page {
            socket,
            calls: 0,
            complaints: Vec::new(),
            events: VecDeque::new(),
            addresses: BTreeMap::new(),
            loaded: BTreeMap::new(),
        };
        for domain in ["Page", "Runtime", "Log", "Network", "Performance"] {
            page.call(&format!("{domain}.enable"), json!({})).await;
        }
        page
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Page {
    /// Loads an address.
    pub async fn go(&mut self, url: &str) {
        let gone = self.call("Page.navigate", json!({ "url": url })).await;
        assert_eq!(gone["errorText"], Value::Null, "{url}");
    }

    /// Calls a method of the protocol; its result.
    pub async fn call(&mut self, method: &str, parameters: Value) -> Value {
        let answer = self.try_call(method, parameters).await;
        answer.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// As [`call`](Self::call), or the error.
    async fn try_call(&mut self, method: &str, parameters: Value) -> Result<Value, Value> {
        self.calls += 1;
        let id = self.calls;
        let call = json!({ "id": id, "method": method, "params": parameters });
        let sent = Message::text(call.to_string());
        self.socket.send(sent).await.unwrap();
        loop {
            let message = self.message().await;
            if message["id"] == id {
                return match &message["error"] {
                    Value::Null => Ok(message["result"].clone()),
                    error => Err(error.clone()),
                };
            }
            self.note(message);
        }
    }

    async fn message(&mut self) -> Value {
        loop {
            let message = timeout(PATIENCE, self.socket.next()).await;
            let message = message.expect("the browser answers").unwrap().unwrap();
            if let Message::Text(text) = message {
                return serde_json::from_str(&text).unwrap();
            }
        }
    }

    fn note(&mut self, event: Value) {
        let parameters = &event["params"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        match event["method"].as_str().unwrap_or_default() {
            "Runtime.exceptionThrown" => {
                self.complaints
                    .push(parameters["exceptionDetails"].to_string());
            }
            "Runtime.consoleAPICalled" if parameters["type"] == "error" => {
                self.complaints.push(parameters["args"].to_string());
            }
            "Log.entryAdded" if parameters["entry"]["level"] == "error" => {
                self.complaints.push(parameters["entry"].to_string());
            }
            "Network.responseReceived" => {
                let url = text(&parameters["response"]["url"]);
                self.addresses.insert(text(&parameters["requestId"]), url);
            }
            "Network.loadingFinished" => {
                if let Some(url) = self.addresses.get(&text(&parameters["requestId"])) {
                    let bytes = parameters["encodedDataLength"].as_f64().unwrap_or_default();
                    self.loaded.insert(url.clone(), bytes as u64);
                }
            }
            _ => self.events.push_back(event),
        }
        self.events.truncate(1_000);
    }

    /// The value of an expression, which may be a promise.
    pub async fn value(&mut self, expression: &str) -> Value {
        let parameters =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let deadline = Instant::now() + PATIENCE;
        let answer = at_a_pace(PAUSE, async || {
            match self.try_call("Runtime.evaluate", parameters.clone()).await {
                Ok(answer) => Some(answer),
                // The next document answers in place of the one that was left.
                Err(error) => {
                    let is_between = BETWEEN_DOCUMENTS
                        .iter()
                        .any(|text| error.to_string().contains(text));
                    assert!(is_between && Instant::now() < deadline, "{error}");
                    None
                }
            }
        })
        .await;
        assert_eq!(answer["exceptionDetails"], Value::Null, "{expression}");
        answer["result"]["value"].clone()
    }

    /// The text that the page shows.
    pub async fn text(&mut self) -> String {
        let text = self.value("document.body?.innerText ?? ''").await;
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until an expression is true.
    pub async fn until(&mut self, expression: &str) {
        let deadline = Instant::now() + PATIENCE;
        let expression = format!("Boolean({expression})");
        // The pause is the test's: a page whose scripts are switched off has no timers.
        at_a_pace(PAUSE, async || {
            if self.value(&expression).await == true {
                return Some(());
            }
            if Instant::now() > deadline {
                let text = self.text().await;
                panic!("not true: {expression}\n{:?}\n{text}", self.complaints);
            }
            None
        })
        .await;
    }

    /// Waits until the page shows a text.
    pub async fn shows(&mut self, text: &str) {
        self.until(&format!(
            "document.body?.innerText.includes({})",
            json!(text)
        ))
        .await;
    }

    /// Types a text into the field that a selector finds.
    pub async fn fill(&mut self, selector: &str, text: &str) {
        self.until(&format!("document.querySelector({})", json!(selector)))
            .await;
        let set = format!(
            "{{ const field = document.querySelector({}); field.focus(); field.value = {}; \
             field.dispatchEvent(new Event('input', {{ bubbles: true }})); }}",
            json!(selector),
            json!(text)
        );
        self.value(&set).await;
    }

    /// Clicks the button with this text in what a selector finds.
    pub async fn press(&mut self, within: &str, label: &str) {
        let found = format!(
            "[...document.querySelectorAll({})].find((button) => button.textContent === {})",
            json!(format!("{within} button")),
            json!(label)
        );
        self.until(&found).await;
        self.value(&format!("{found}.click()")).await;
    }

    /// Presses a key, such as `Tab` or `Enter`.
    pub async fn key(&mut self, name: &str) {
        let (code, text) = match name {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            name => panic!("no code of the key {name} is known"),
        };
        for kind in ["keyDown", "keyUp"] {
            let press = json!({ "type": kind, "key": name, "code": name, "windowsVirtualKeyCode": code, "text": text });
            self.call("Input.dispatchKeyEvent", press).await;
        }
    }

    /// Makes the window as small as that of a phone, with dark colors.
    pub async fn becomes_a_phone(&mut self) {
        let size = json!({ "width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": true });
        self.call("Emulation.setDeviceMetricsOverride", size).await;
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": "dark" }] });
        self.call("Emulation.setEmulatedMedia", media).await;
    }

    /// Bytes of the responses that were loaded whole, heads included, by address.
    pub fn loaded(&self) -> &BTreeMap<String, u64> {
        &self.loaded
    }

    /// Whatever the browser complained about so far; noted once.
    pub async fn complaints(&mut self) -> Vec<String> {
        // Complaints that are under way come before this answer.
        self.value("1").await;
        std::mem::take(&mut self.complaints)
    }
}
