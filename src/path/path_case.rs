//! Owns what the case of letters in a route's path means.

/// Says whether `/auth/sendotp` is `/auth/sendOTP`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PathCase {
    /// It is, as for Express, ASP.NET and others.
    #[default]
    Ignored,
    /// It is another path.
    Kept,
}
