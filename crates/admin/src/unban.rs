//! Serves `DELETE /bans`, which ends many bans at a time, and repeats what operators end so at other gateways.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::header::ALLOW;
use http::request::Parts;
use http::{Method, StatusCode};
use pingora::server::ShutdownWatch;
use pingora::services::background::BackgroundService;
use serde::Serialize;
use sluicegate_base::clock;
use tracing::info;

use super::audit::{self, AuditEntry};
use super::ban_selection::{BanSelection, SelectedBans, SelectionUse, UnbanOrder};
use super::key_edit::wait_for;
use super::limit::limit_named;
use super::operator::Operator;
use super::page::AdminPage;
use super::rule_view;
use super::task::{AdminAction, AdminTask};
use sluicegate_explain::counted;
use sluicegate_history::MarkKind;
use sluicegate_process::GatewayProcess;

/// The pause between two looks at what other gateways have published.
const LOOK: Duration = Duration::from_millis(500);

/// The background service that ends the bans which operators end at other gateways.
pub struct FleetUnbanService(pub Arc<GatewayProcess>);

#[derive(Serialize)]
struct UnbanPage {
    dry_run: bool,
    #[serde(flatten)]
    found: SelectedBans,
    /// Set where the other gateways get the selection from the store.
    fleet: bool,
}

/// Returns the task of ending bans; `None` where the path is another one.
pub(super) fn task(request: &Parts) -> Option<AdminTask> {
    if request.uri.path() != "/bans" {
        return None;
    }
    if request.method != Method::DELETE {
        let error = "bans are ended by DELETE; /limits/NAME/bans shows those of a limit";
        let page = AdminPage::error(StatusCode::METHOD_NOT_ALLOWED, error);
        return Some(AdminTask::Show(page.with(ALLOW, "DELETE")));
    }
    let query = request.uri.query().unwrap_or_default();
    Some(match UnbanOrder::parse(query, clock::now()) {
        Err(error) => AdminTask::Show(AdminPage::error(StatusCode::BAD_REQUEST, &error)),
        Ok(order) => AdminTask::Walk(Box::new(order)),
    })
}

impl AdminAction for UnbanOrder {
    /// Ends or counts the bans and returns the page with their number.
    fn page(&self, operator: &Operator, process: &GatewayProcess) -> AdminPage {
        if let Some(limit) = &self.selection.limit
            && limit_named(process, limit).is_none_or(|limit| {
                limit.bans.is_none() && limit.keys_banned_by_rules().next().is_none()
            })
        {
            return super::bans::no_bans();
        }
        let store = process.shared.snapshot().store.clone();
        let found = self.selection.apply(process, self.use_of);
        if self.use_of == SelectionUse::Count {
            return AdminPage::json(&UnbanPage {
                dry_run: true,
                found,
                fleet: store.is_some(),
            });
        }
        let published = store.map(|store| {
            let message = self.selection.to_message();
            let published = wait_for(store.publish_unban(&message));
            published.unwrap_or_else(|| Err("it cannot be asked here".to_owned()))
        });
        let entry = AuditEntry {
            action: "lift",
            target: "bans".to_owned(),
            change: format!(
                "lifted {}{}{}",
                counted(found.bans as u64, "ban"),
                self.selection.to_words(),
                rule_view::removed_words(&found.ended)
            ),
            reason: self.reason.clone(),
            ..AuditEntry::default()
        };
        match found.bans {
            0 => audit::note(process, operator, &entry),
            _ => audit::note_and_mark(process, operator, MarkKind::Unban, "", &entry),
        }
        if let Some(Err(error)) = published {
            let entry = AuditEntry {
                change: format!("lift bans{} at other gateways", self.selection.to_words()),
                ..entry
            };
            audit::note_failed(process, operator, &entry, &error);
            let error = format!(
                "this gateway has lifted {}; the others were not told by the store: {error}",
                counted(found.bans as u64, "ban")
            );
            return AdminPage::error(StatusCode::BAD_GATEWAY, &error);
        }
        AdminPage::json(&UnbanPage {
            dry_run: false,
            found,
            fleet: published.is_some(),
        })
    }
}

#[async_trait]
impl BackgroundService for FleetUnbanService {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK) => self.repeat().await,
                _ = shutdown.changed() => return,
            }
        }
    }
}

impl FleetUnbanService {
    /// Ends here what was ended elsewhere since the last time.
    async fn repeat(&self) {
        let store = self.0.shared.snapshot().store.clone();
        let Some(store) = store else { return };
        for message in store.take_unbans() {
            let Some(selection) = BanSelection::from_message(&message) else {
                continue;
            };
            let process = Arc::clone(&self.0);
            let ended = tokio::task::spawn_blocking(move || {
                let found = selection.apply(&process, SelectionUse::Follow);
                info!(
                    "lifted {}{}{}, as an operator did at another gateway",
                    counted(found.bans as u64, "ban"),
                    selection.to_words(),
                    rule_view::removed_words(&found.ended)
                );
            });
            // A task that panicked has its line in the process log.
            let _ = ended.await;
        }
    }
}
