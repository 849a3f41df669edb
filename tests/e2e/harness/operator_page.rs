//! The operator's page of a gateway: the addresses of its views, signing in, and the complaints that belong to a test.

use super::browser::{Browser, Page};
use super::gateway::Gateway;

impl Gateway {
    /// The address of a view of the page.
    pub fn ui(&self, view: &str) -> String {
        format!("http://{}/ui/#/{view}", self.admin_address())
    }
}

impl Browser {
    /// Opens a view of the page, which asks for a token, and types this one in.
    pub async fn signed_in(&self, gateway: &Gateway, token: &str, view: &str) -> Page {
        let mut page = self.open(&gateway.ui(view)).await;
        page.shows("asks for a token").await;
        page.fill("input[type=password]", token).await;
        page.press("main", "Open").await;
        page
    }
}

impl Page {
    /// Waits until the page receives the events of its gateway.
    pub async fn is_live(&mut self) {
        self.until("document.querySelector('#live').textContent === 'live'")
            .await;
    }

    /// The complaints so far without those about answers with these statuses: a browser complains of each answer that is no success.
    pub async fn complaints_but(&mut self, statuses: &[u16]) -> Vec<String> {
        let mut complaints = self.complaints().await;
        let is_about =
            |said: &String, status: &u16| said.contains(&format!(" a status of {status} "));
        complaints.retain(|said| !statuses.iter().any(|status| is_about(said, status)));
        complaints
    }
}
