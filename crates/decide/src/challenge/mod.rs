//! Makes challenges for browsers that exceed a limit, and checks the solutions that come back in cookies.
//!
//! A challenge is a signed text and nothing else: the time, its difficulty, and a MAC that binds them to a key and a limit. The gateway
//! remembers none, so a million clients that solve nothing cost no memory. The solution is the same text with a proof of work, or the
//! text alone once its wait is over. Each solution counts under a key of its own, made of that MAC: whoever copies it shares one quota.
//! `keys` signs, `token` is the text, `solution` judges cookies, `audience` decides who gets a page, `page` is the page.
//!
//! The module is pure: request head, key and time in, a value out.

mod active;
mod audience;
mod cookies;
mod keys;
mod page;
mod solution;
#[cfg(test)]
mod tests;
mod token;

pub use active::ActiveChallenge;
pub use audience::{PageAudience, PageVisit};
pub use cookies::{ChallengeCookies, SiteCookies};
pub use keys::{KeyBinding, SigningKeys};
pub use page::ChallengePage;
pub use solution::{ChallengePass, OpenChallenge, PresentedSolution};
pub use token::ChallengeTerms;
