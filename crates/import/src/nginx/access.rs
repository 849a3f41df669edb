//! Decides which clients may come by `allow` and `deny`, of which nginx takes the first that matches.

use super::tree::Directive;
use super::variables;
use crate::ledger::{EntryId, Ledger};

/// The clients that may come.
pub(super) enum ClientAccess {
    All,
    /// All but these.
    Except {
        sources: Vec<EntryId>,
        blocks: Vec<String>,
    },
    /// These alone.
    Only {
        sources: Vec<EntryId>,
        blocks: Vec<String>,
    },
}

/// Reads the directives of a level.
pub(super) fn read(directives: &[&Directive], ledger: &mut Ledger) -> ClientAccess {
    let mut blocks = Vec::new();
    let mut verdict: Option<bool> = None;
    let mut last = None;
    for directive in directives {
        let word = directive.word(0).unwrap_or_default();
        let allows = directive.name == "allow";
        if word == "all" {
            last = Some(allows);
            break;
        }
        let found = variables::network(word);
        if verdict.is_some_and(|known| known != allows) || found.is_none() {
            return unsayable(directives, ledger);
        }
        verdict = Some(allows);
        blocks.extend(found.into_iter().flatten().map(|block| block.to_string()));
    }
    let sources: Vec<EntryId> = directives.iter().map(|directive| directive.id).collect();
    let access = match (verdict, last.unwrap_or(true)) {
        // What is allowed one by one is allowed anyway.
        (None | Some(true), true) => ClientAccess::All,
        (None | Some(false), false) => ClientAccess::Only {
            sources,
            blocks: Vec::new(),
        },
        (Some(false), true) => ClientAccess::Except { sources, blocks },
        (Some(true), false) => ClientAccess::Only { sources, blocks },
    };
    directives.iter().for_each(|it| ledger.translated(it.id));
    access
}

fn unsayable(directives: &[&Directive], ledger: &mut Ledger) -> ClientAccess {
    let reason =
        "lists and conditions on clients know no order; write `client` or `block` of the route";
    for directive in directives {
        ledger.left_out(directive.id, reason);
        ledger.fill_in(format!("{}: {reason}", ledger.comment(directive.id)));
    }
    ClientAccess::All
}
