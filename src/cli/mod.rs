//! Defines the command line: one file a command.

mod against;
mod check;
mod config_file;
mod demo;
mod exit_code;
mod explain;
mod gateway_target;
mod import;
mod key;
mod manual;
mod output;
mod ping;
mod process_log;
mod progress;
mod reload;
mod replay;
mod rules;
mod run;
mod schema;
mod store;
mod suggest;
mod top;
mod unban;
mod upgrade;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use clap_complete::Shell;
use sluicegate_base::pki::install_crypto_provider;

use self::config_file::ConfigFile;
use self::exit_code::{SUCCESS, USAGE};
use crate::server::StartMode;

/// An L7 reverse proxy and edge gateway that decides, per route and per client, how much may pass.
#[derive(Parser)]
#[command(name = "sluicegate", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the gateway; SIGHUP or a change of the file reloads, SIGUSR1 reopens the logs, SIGTERM drains.
    Run {
        #[command(flatten)]
        config: ConfigFile,
        /// Take over the listeners of the running gateway, which then drains. If this process fails to start, that one continues.
        #[arg(long)]
        upgrade: bool,
    },
    /// Replace the running gateway with this program without losing a connection; on failure the running one continues.
    Upgrade {
        #[command(flatten)]
        config: ConfigFile,
    },
    /// Make the running gateway reload its configuration, and print the changes; fails if the reload fails.
    Reload(reload::ReloadCommand),
    /// Report every error of a configuration, and what to write instead; `-` is the standard input, and relative paths in it start at the
    /// working directory.
    Check(check::CheckCommand),
    /// Explain in plain sentences what a configuration does, or how it treats one request.
    Explain(explain::ExplainCommand),
    /// Replay logged requests under a configuration: who would have been rejected, by which limit, and when.
    #[command(override_usage = replay::USAGE_LINES)]
    Replay(replay::ReplayCommand),
    /// Suggest the rates of a limit from logged requests, or from the counters of a running gateway: a number that ordinary clients do not
    /// reach, and what replay says of it.
    Suggest(suggest::SuggestCommand),
    /// Show a running gateway in the terminal: its limits, the keys nearest to one of them, and its origins.
    Top(top::TopCommand),
    /// Translate a configuration of nginx, HAProxy, ingress-nginx, Caddy or Traefik, and name each difference and omission.
    Import(import::ImportCommand),
    /// Start an origin and a gateway with a limit on /auth/sendOTP, and show the requests.
    Demo,
    /// Test the store of a configuration, step by step: connection, role, latency, clock, script, memory.
    Store {
        #[command(subcommand)]
        command: StoreCommand,
    },
    /// Print the hash of a key, as the access log shows it, and its state in the running gateway.
    #[command(override_usage = key::USAGE_LINES)]
    Key(key::KeyCommand),
    /// End the bans of a limit, of a network, or since a time, at the running gateway and at those that share its store.
    Unban(unban::UnbanCommand),
    /// Block clients until an end: an address, a block of addresses, a network, or a key of a limit. In force at once, on all gateways that
    /// share the store.
    Block(rules::RuleCommand),
    /// Exempt clients from the limits until an end, or a key from its limit.
    Exempt(rules::RuleCommand),
    /// Ban a key of a limit until an end, whether the limit bans or not.
    Ban(rules::BanCommand),
    /// Multiply the rates of a limit until an end; its counts are kept.
    Scale(rules::ScaleCommand),
    /// End the temporary rules that block or ban a target.
    Unblock(rules::UnblockCommand),
    /// List the temporary rules in force, or remove one.
    Rules(rules::RulesCommand),
    /// Write the JSON Schema of the configuration, for editors.
    Schema,
    /// Check that the running gateway is alive; for health checks of containers.
    Ping {
        #[command(flatten)]
        config: ConfigFile,
    },
    /// Write the man page, in the format of man(1).
    Man,
    /// Write the completions for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the version.
    Version,
}

#[derive(Subcommand)]
enum StoreCommand {
    /// Report the state of the store, and what to do about errors.
    Check {
        #[command(flatten)]
        config: ConfigFile,
    },
}

impl Command {
    /// Carries out the command; returns its exit code.
    fn carry_out(self) -> u8 {
        match self {
            Self::Run { config, upgrade } => {
                let mode = match upgrade {
                    true => StartMode::Takeover,
                    false => StartMode::Alone,
                };
                config.with_path(|file| run::run(file, mode))
            }
            Self::Upgrade { config } => config.with_path(upgrade::upgrade),
            Self::Reload(reload) => reload.run(),
            Self::Check(check) => check.run(),
            Self::Explain(explain) => explain.run(),
            Self::Replay(replay) => replay.run(),
            Self::Suggest(suggest) => suggest.run(),
            Self::Top(top) => top.run(),
            Self::Import(import) => import.run(),
            Self::Demo => demo::demo(),
            Self::Store {
                command: StoreCommand::Check { config },
            } => config.with_path(store::check),
            Self::Key(key) => key.run(),
            Self::Unban(unban) => unban.run(),
            Self::Block(rule) => rule.run("block"),
            Self::Exempt(rule) => rule.run("exempt"),
            Self::Ban(ban) => ban.run(),
            Self::Scale(scale) => scale.run(),
            Self::Unblock(unblock) => unblock.run(),
            Self::Rules(rules) => rules.run(),
            Self::Schema => schema::schema(),
            Self::Ping { config } => config.with_path(ping::ping),
            Self::Man => manual::man(),
            Self::Completions { shell } => manual::completions(shell),
            Self::Version => manual::version(),
        }
    }
}

/// Parses the arguments of the process and carries out the command.
#[must_use]
pub fn main() -> ExitCode {
    install_crypto_provider();
    let code = match Arguments::try_parse() {
        Ok(arguments) => arguments.command.carry_out(),
        Err(message) => {
            // Help and version are no errors. An error of a closed terminal cannot be reported.
            let _ = message.print();
            if message.use_stderr() { USAGE } else { SUCCESS }
        }
    };
    ExitCode::from(code)
}
