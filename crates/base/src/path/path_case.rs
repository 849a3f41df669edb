//! Defines whether a route's path ignores the case of letters.

/// The treatment of case: whether `/auth/sendotp` equals `/auth/sendOTP`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PathCase {
    /// They are equal, as for Express, ASP.NET and others.
    #[default]
    Ignored,
    /// They are different paths.
    Kept,
}
