//! Counts what all clients hold of one resource, and what a cap refused.
//!
//! # Concurrency
//! The number may exceed its maximum for the moment in which something is refused.

use std::sync::atomic::{AtomicU64, Ordering};

use super::client_accounts::AccountCharge;

/// The cap that a charge exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetCap {
    /// On what all clients hold.
    All,
    /// On what its client holds.
    Client,
}

/// Statistics of a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetTallies {
    /// The part that is in use.
    pub held: u64,
    /// The number of charges that were refused, by [`BudgetCap`] in the order of [`BudgetCap::ALL`].
    pub refused: [u64; BudgetCap::ALL.len()],
}

/// The use of one resource.
#[derive(Debug, Default)]
pub(super) struct ResourceTally {
    held: AtomicU64,
    refused: CapCounts,
}

impl BudgetCap {
    /// Every cap.
    pub const ALL: [Self; 2] = [Self::All, Self::Client];

    /// Returns the clients whose bytes reached it.
    #[must_use]
    pub const fn clients(self) -> &'static str {
        match self {
            Self::All => "all clients",
            Self::Client => "this client",
        }
    }

    /// Returns its name in metrics, for budgets whose caps have no key each.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Client => "client",
        }
    }
}

/// Counts by cap.
#[derive(Debug, Default)]
pub struct CapCounts([AtomicU64; BudgetCap::ALL.len()]);

impl CapCounts {
    /// Counts something that this cap refused.
    pub fn count(&self, cap: BudgetCap) {
        // Relaxed, here and below: counts for the scrape, each on its own.
        self.0[cap as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the counts in the order of [`BudgetCap::ALL`].
    #[must_use]
    pub fn read(&self) -> [u64; BudgetCap::ALL.len()] {
        self.0.each_ref().map(|count| count.load(Ordering::Relaxed))
    }
}

impl ResourceTally {
    /// Adds so much, if all clients then hold no more than `most`. Returns what they hold.
    ///
    /// # Errors
    /// They would hold more. It is not counted.
    pub(super) fn try_add(&self, amount: u64, most: u64) -> Result<u64, BudgetCap> {
        // Relaxed, here and below: the numbers bound files and memory, and publish nothing.
        let before = self.held.fetch_add(amount, Ordering::Relaxed);
        let held = before.saturating_add(amount);
        if held <= most {
            return Ok(held);
        }
        self.release(amount);
        Err(BudgetCap::All)
    }

    /// Adds so much, as [`try_add`](Self::try_add) does, and charges it to its client by `charge`, which gets what all clients hold.
    ///
    /// # Errors
    /// There is no room. It is counted.
    pub(super) fn charge(
        &self,
        amounts: (u64, u64),
        charge: impl FnOnce(u64) -> Option<AccountCharge>,
    ) -> Result<AccountCharge, BudgetCap> {
        let charged = self.try_charge(amounts, charge);
        charged.or_else(|cap| self.refuse(cap))
    }

    /// Charges so much, as [`charge`](Self::charge) does.
    ///
    /// # Errors
    /// There is no room. It is not counted.
    pub(super) fn try_charge(
        &self,
        (amount, most): (u64, u64),
        charge: impl FnOnce(u64) -> Option<AccountCharge>,
    ) -> Result<AccountCharge, BudgetCap> {
        let held = self.try_add(amount, most)?;
        charge(held).ok_or_else(|| {
            self.release(amount);
            BudgetCap::Client
        })
    }

    /// Counts a charge that this cap refused.
    pub(super) fn refuse<T>(&self, cap: BudgetCap) -> Result<T, BudgetCap> {
        self.refused.count(cap);
        Err(cap)
    }

    /// Returns so much of what is held.
    pub(super) fn release(&self, amount: u64) {
        self.held.fetch_sub(amount, Ordering::Relaxed);
    }

    /// Returns the statistics.
    pub(super) fn tallies(&self) -> BudgetTallies {
        BudgetTallies {
            held: self.held.load(Ordering::Relaxed),
            refused: self.refused.read(),
        }
    }
}
