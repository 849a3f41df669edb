//! Folds the case of paths and methods, which routes and keys ignore.

use std::borrow::Cow;

use http::Method;

/// Returns a path as routes compare it: without regard to case, since some origins take `/A` for `/a`.
pub fn in_lower_case(path: &str) -> Cow<'_, str> {
    if path.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(path.to_ascii_lowercase())
    } else {
        Cow::Borrowed(path)
    }
}

/// Returns a method as routes compare it: without regard to case, since some origins take `post` for `POST`.
pub fn in_upper_case(method: &Method) -> Cow<'_, str> {
    let text = method.as_str();
    if text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        Cow::Owned(text.to_ascii_uppercase())
    } else {
        Cow::Borrowed(text)
    }
}
