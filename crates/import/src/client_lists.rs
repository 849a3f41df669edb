//! Makes lists of clients, each once.

use std::collections::BTreeMap;

use crate::ledger::EntryId;
use crate::model::{ClientList, TableRemarks};
use crate::names::NamePool;

/// The lists of an input.
#[derive(Default)]
pub(crate) struct ListMaker {
    pub(crate) lists: Vec<ClientList>,
    /// Their names, by their blocks.
    known: BTreeMap<Vec<String>, String>,
    names: NamePool,
}

impl ListMaker {
    /// Returns the name of the list of these blocks, which is made if it is new.
    pub(crate) fn list(&mut self, wanted: &str, blocks: &[String], sources: &[EntryId]) -> String {
        if let Some(name) = self.known.get(blocks) {
            return name.clone();
        }
        let name = self.names.unique(wanted);
        self.known.insert(blocks.to_vec(), name.clone());
        self.lists.push(ClientList {
            name: name.clone(),
            remarks: TableRemarks {
                sources: sources.to_vec(),
                differences: Vec::new(),
            },
            cidrs: blocks.to_vec(),
            file: None,
        });
        name
    }
}
