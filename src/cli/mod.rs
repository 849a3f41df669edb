//! Defines the command line: one file a command.

mod check;
mod demo;
mod explain;
mod gateway_target;
mod import;
mod key;
mod manual;
mod ping;
mod process_log;
mod progress;
mod reload;
mod replay;
mod run;
mod schema;
mod store;
mod suggest;
mod top;
mod upgrade;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use crate::server::StartMode;

/// The exit code of success.
const SUCCESS: u8 = 0;
/// The exit code of a failure outside the configuration.
const FAILED: u8 = 1;
/// The exit code of bad configuration or usage; EX_USAGE of sysexits.h.
const USAGE: u8 = 64;

/// The error where the running gateway has no admin listener.
const NO_ADMIN: &str = "sluicegate: [admin] address is \"off\", so the running gateway cannot be asked; \
     write an address, and restart it once";

/// An L7 reverse proxy and edge gateway that decides, per route and per client, how much may pass.
#[derive(Parser)]
#[command(name = "sluicegate", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the gateway; SIGHUP or a change of the file reloads, SIGUSR1 reopens the access log, SIGTERM drains.
    Run {
        /// The configuration.
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        /// Take over the listeners of the running gateway, which then drains. If this process fails to start, that one continues.
        #[arg(long)]
        upgrade: bool,
    },
    /// Replace the running gateway with this program without losing a connection; on failure the running one continues.
    Upgrade {
        /// The configuration of the running gateway, which the new process serves too.
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Make the running gateway reload its configuration, and print the changes; fails if the reload fails.
    Reload {
        /// The configuration that the gateway runs with.
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Report every error of a configuration, and what to write instead.
    Check(check::CheckCommand),
    /// Explain in plain sentences what a configuration does, or how it treats one request.
    Explain(explain::ExplainCommand),
    /// Replay logged requests under a configuration: who would have been rejected, by which limit, and when.
    Replay(replay::ReplayCommand),
    /// Suggest the rates of a limit from logged requests, or from the counters of a running gateway: a number that ordinary clients do not
    /// reach, and what replay says of it.
    Suggest(suggest::SuggestCommand),
    /// Show a running gateway in the terminal: its limits, the keys nearest to one of them, and its origins.
    Top(top::TopCommand),
    /// Translate a configuration of nginx, HAProxy or ingress-nginx into one of Sluicegate, and name each difference and omission.
    Import(import::ImportCommand),
    /// Start an origin and a gateway with a limit on /auth/sendOTP, and show the requests.
    Demo,
    /// Test the store of a configuration, step by step: connection, role, latency, clock, script, memory.
    Store {
        #[command(subcommand)]
        command: StoreCommand,
    },
    /// Print the hash of a key, as the access log shows it, and its state in the running gateway.
    Key {
        /// The configuration that the gateway runs with.
        file: PathBuf,
        /// The limit.
        limit: String,
        /// The value of each part of the limit's key, in its order.
        values: Vec<String>,
    },
    /// Write the JSON Schema of the configuration, for editors.
    Schema,
    /// Write the man page, in the format of man(1).
    #[command(hide = true)]
    Man,
    /// Write the completions for a shell.
    #[command(hide = true)]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Check that the running gateway is alive; for health checks of containers.
    Ping {
        /// The configuration that it runs with.
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
}

#[derive(Subcommand)]
enum StoreCommand {
    /// Report the state of the store, and what to do about errors.
    Check {
        /// The configuration.
        file: PathBuf,
    },
}

/// Parses the arguments of the process and carries out the command.
#[must_use]
pub fn main() -> ExitCode {
    let code = match Arguments::try_parse() {
        Ok(arguments) => match arguments.command {
            Command::Run { config, upgrade } => run::run(
                &config,
                if upgrade {
                    StartMode::Takeover
                } else {
                    StartMode::Alone
                },
            ),
            Command::Upgrade { config } => upgrade::upgrade(&config),
            Command::Reload { config } => reload::reload(&config),
            Command::Check(check) => check.run(),
            Command::Explain(explain) => explain.run(),
            Command::Replay(replay) => replay.run(),
            Command::Suggest(suggest) => suggest.run(),
            Command::Top(top) => top.run(),
            Command::Import(import) => import.run(),
            Command::Demo => demo::demo(),
            Command::Store {
                command: StoreCommand::Check { file },
            } => store::check(&file),
            Command::Key {
                file,
                limit,
                values,
            } => key::key(&file, &limit, &values),
            Command::Schema => schema::schema(),
            Command::Man => manual::man(),
            Command::Completions { shell } => manual::completions(shell),
            Command::Ping { config } => ping::ping(&config),
        },
        Err(message) => {
            // Help and version are no errors. An error of a closed terminal cannot be reported.
            let _ = message.print();
            if message.use_stderr() { USAGE } else { SUCCESS }
        }
    };
    ExitCode::from(code)
}

/// Writes a line for the operator to the standard error.
#[expect(
    clippy::print_stderr,
    reason = "the command line talks to its operator"
)]
fn tell(message: &dyn std::fmt::Display) {
    eprintln!("{message}");
}
