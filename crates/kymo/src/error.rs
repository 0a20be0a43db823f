// SPDX-License-Identifier: Apache-2.0 OR MIT
use std::fmt;

/// Why something could not be done: one sentence, and the number of the C API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    code: i32,
    text: String,
}

impl Error {
    pub(crate) fn new(code: i32, text: String) -> Self {
        Error { code, text }
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Error::new(-22, text.into())
    }

    /// -errno, or an error of kymo's own (`kymo/base.h`).
    pub fn code(&self) -> i32 {
        self.code
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}
