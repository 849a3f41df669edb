//! Says what a reload changes: what is written otherwise, and what files and names say otherwise.

use std::sync::Arc;

use super::{CrawlerRules, Rules};

impl Rules {
    /// The differences to `before`, a sentence each; none where both are the same.
    #[must_use]
    pub fn changes_since(&self, before: &Self) -> Vec<String> {
        let mut changes = self.written.changes_since(&before.written);
        self.add_lists(before, &mut changes);
        self.add_proofs(before, &mut changes);
        self.add_overrides(before, &mut changes);
        self.add_databases(before, &mut changes);
        self.add_servers(before, &mut changes);
        for listener in &self.listeners {
            let known = before.listeners.iter();
            let mut known = known.filter(|known| known.address == listener.address);
            if let Some(known) = known.next()
                && let (Some(tls), Some(known)) = (&listener.tls, &known.tls)
                && tls.certificates != known.certificates
            {
                changes.push(format!("listener {}: other certificates", listener.address));
            }
        }
        if let (Some(jwt), Some(known)) = (&self.jwt, &before.jwt)
            && jwt.verifier.settings().keys != known.verifier.settings().keys
        {
            changes.push("jwt: other keys".to_owned());
        }
        if self.challenge != before.challenge {
            changes.push("challenge: other keys".to_owned());
        }
        if let (Some(tokens), Some(known)) = (&self.admin.token_file, &before.admin.token_file) {
            changes.extend(tokens.changes_since(known));
        }
        if changes.is_empty() && self != before {
            changes.push("what other files of the configuration say".to_owned());
        }
        changes
    }

    fn add_lists(&self, before: &Self, changes: &mut Vec<String>) {
        for (name, list) in &self.lists {
            let known = before.lists.get(name).and_then(|list| list.file.as_ref());
            if let (Some(file), Some(known)) = (&list.file, known)
                && (&file.blocks, file.state) != (&known.blocks, known.state)
            {
                let had = known.blocks.len();
                let has = file.blocks.len();
                changes.push(format!("list {name}: {had} blocks → {has} in its file"));
            }
        }
    }

    fn add_proofs(&self, before: &Self, changes: &mut Vec<String>) {
        for (name, crawler) in &self.crawlers {
            let keys = |rules: &CrawlerRules| rules.jwks_file.as_ref().map(|file| file.keys.len());
            let known = before.crawlers.get(name);
            if let Some(had) = known.and_then(keys)
                && let Some(has) = keys(crawler)
                && known.map(|known| &known.jwks_file) != Some(&crawler.jwks_file)
            {
                changes.push(format!("crawler {name}: {had} keys → {has} in its file"));
            }
            let known = known.into_iter();
            let known: Vec<_> = known.flat_map(|known| &known.ranges).collect();
            for file in &crawler.ranges {
                if let Some(known) = known.iter().find(|known| known.path == file.path)
                    && (&file.blocks, file.state) != (&known.blocks, known.state)
                {
                    let had = known.blocks.len();
                    let has = file.blocks.len();
                    let path = file.path.display();
                    changes.push(format!("crawler {name}: {had} blocks → {has} in {path}"));
                }
            }
        }
    }

    fn add_databases(&self, before: &Self, changes: &mut Vec<String>) {
        for file in &self.geo.databases {
            let mut known = before.geo.databases.iter();
            if let Some(known) = known.find(|known| known.path == file.path)
                && known.database != file.database
            {
                changes.push(format!(
                    "geo: {} is another {}, built {} s later",
                    file.path.display(),
                    file.database.kind(),
                    i128::from(file.database.built_at()) - i128::from(known.database.built_at())
                ));
            }
        }
    }

    fn add_overrides(&self, before: &Self, changes: &mut Vec<String>) {
        for (name, limit) in &self.limits {
            let known = before
                .limits
                .get(name)
                .and_then(|limit| limit.overrides.as_ref());
            if let (Some(overrides), Some(known)) = (&limit.overrides, known)
                && (&overrides.rows, &overrides.tiers) != (&known.rows, &known.tiers)
            {
                let had = known.rows.len();
                let has = overrides.rows.len();
                changes.push(format!("limit {name}: overrides of {had} keys → {has}"));
            }
        }
    }

    /// Adds the names that resolve to other addresses.
    fn add_servers(&self, before: &Self, changes: &mut Vec<String>) {
        for (name, origin) in &self.origins {
            let Some(known) = before.origins.get(name) else {
                continue;
            };
            for entry in &origin.servers {
                let same = |other: &&super::PoolServer| {
                    entry.name.is_some()
                        && other.name.as_ref().map(Arc::as_ref) == entry.name.as_deref()
                };
                if let (Some(server), Some(known)) = (&entry.name, known.servers.iter().find(same))
                    && known.addresses != entry.addresses
                {
                    let had = known.addresses.len();
                    let has = entry.addresses.len();
                    changes.push(format!(
                        "origin {name}: {server} has {has} addresses, before {had}"
                    ));
                }
            }
        }
    }
}
