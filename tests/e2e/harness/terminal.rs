//! A program in a terminal: keys go in, and the screen can be read.
//!
//! `script` of util-linux opens the pseudo-terminal, in which a shell runs the program and then prints its exit code and the settings of
//! the terminal. What the program writes goes through a terminal emulator.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};

use nix::sys::signal::kill;
use nix::unistd::Pid;

use super::eventually::eventually;
use super::gateway::BINARY;

/// A terminal of 80 columns and 24 lines; its program ends with it.
pub struct TestTerminal {
    child: Child,
    keys: Option<ChildStdin>,
    parser: Arc<Mutex<vt100::Parser>>,
    /// The process id of the program, once it is known.
    id: Arc<OnceLock<i32>>,
}

impl TestTerminal {
    /// Runs the gateway's binary in a terminal. Its process id, and at the end its exit code and the settings of the terminal are on the
    /// screen.
    pub fn run(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let quoted: Vec<String> = arguments.iter().map(|word| format!("'{word}'")).collect();
        let line = format!(
            "stty rows 24 cols 80; sh -c 'echo pid $$.; exec \"$@\"' run '{BINARY}' {}; echo code $?.; stty -a | grep -w icanon",
            quoted.join(" ")
        );
        let mut child = Command::new("script")
            .args(["--quiet", "--flush", "--command", &line, "/dev/null"])
            .env("TERM", "xterm-256color")
            .env("SHELL", "/bin/sh")
            .env_remove("NO_COLOR")
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("script of util-linux: {error}"));
        let parser = Arc::new(Mutex::new(vt100::Parser::new(24, 80, 0)));
        let mut output = child.stdout.take().unwrap();
        let screen = Arc::clone(&parser);
        let id = Arc::new(OnceLock::new());
        let found = Arc::clone(&id);
        // The thread ends with the output.
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = output.read(&mut bytes) {
                let mut parser = screen.lock().unwrap();
                parser.process(&bytes[..read]);
                // The program covers this line soon.
                if let Some((_, rest)) = parser.screen().contents().split_once("pid ")
                    && let Some((digits, _)) = rest.split_once('.')
                {
                    let _ = found.set(digits.parse().unwrap());
                }
            }
        });
        let keys = child.stdin.take();
        Self {
            child,
            keys,
            parser,
            id,
        }
    }

    /// Types.
    pub fn press(&mut self, keys: &str) {
        let stdin = self.keys.as_mut().unwrap();
        stdin.write_all(keys.as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    /// What is on the screen.
    pub fn screen(&self) -> String {
        self.parser.lock().unwrap().screen().contents()
    }

    /// Whether the program draws on the screen that lies over the lines before it.
    pub fn is_covered(&self) -> bool {
        self.parser.lock().unwrap().screen().alternate_screen()
    }

    /// Whether any character has a color.
    pub fn has_color(&self) -> bool {
        let parser = self.parser.lock().unwrap();
        let screen = parser.screen();
        let cells = (0..24).flat_map(|row| (0..80).map(move |column| (row, column)));
        let mut cells = cells.filter_map(|(row, column)| screen.cell(row, column));
        cells.any(|cell| cell.fgcolor() != vt100::Color::Default)
    }

    /// Waits until all parts are on the screen.
    pub async fn shows(&self, parts: &[&str]) -> String {
        let mut latest = String::new();
        eventually(&format!("the screen shows {parts:?}"), async || {
            latest = self.screen();
            parts.iter().all(|part| latest.contains(part)).then_some(())
        })
        .await;
        self.screen()
    }

    /// Waits until a part is gone from the screen.
    pub async fn lacks(&self, part: &str) {
        eventually(&format!("{part:?} leaves the screen"), async || {
            (!self.screen().contains(part)).then_some(())
        })
        .await;
    }

    /// Closes the terminal under the program, and waits for the end of the program.
    pub async fn close(mut self) {
        let id = Pid::from_raw(*self.id.get().unwrap());
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        eventually("the program ends with its terminal", async || {
            kill(id, None).is_err().then_some(())
        })
        .await;
    }

    /// Waits for the end of the program; its exit code. The lines of before are on the screen again, and the terminal reads lines.
    pub async fn exit_code(&self) -> i32 {
        let screen = self.shows(&["pid ", "code ", "icanon"]).await;
        assert!(
            !screen.contains("-icanon"),
            "the terminal is raw:\n{screen}"
        );
        assert!(!self.is_covered(), "the screen is still taken");
        assert!(!self.parser.lock().unwrap().screen().hide_cursor());
        let (_, code) = screen.split_once("code ").unwrap();
        code.split_once('.').unwrap().0.parse().unwrap()
    }
}

impl Drop for TestTerminal {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the screen was:\n{}", self.screen());
        }
        // The end of the terminal hangs up what runs in it.
        drop(self.keys.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
