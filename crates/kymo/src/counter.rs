// SPDX-License-Identifier: Apache-2.0 OR MIT
use std::ffi::CString;
use std::sync::OnceLock;

use crate::raw;

/// A number of the application, recorded in every trace and checked by rules; at most 64 in a
/// process. Kept while nothing is recorded.
///
/// ```
/// static ORDERS: kymo::Counter = kymo::Counter::new("orders");
///
/// ORDERS.add(1);
/// assert!(ORDERS.value() >= 1);
/// ```
pub struct Counter {
    name: &'static str,
    flags: u32,
    id: OnceLock<u32>,
}

impl Counter {
    /// For a static. Equal names are one counter; 47 bytes at most.
    pub const fn new(name: &'static str) -> Self {
        Counter { name, flags: 0, id: OnceLock::new() }
    }

    /// One that counts errors: the rule `errors>N/s` reads it.
    pub const fn of_errors(name: &'static str) -> Self {
        Counter { name, flags: kymo_sys::KYMO_COUNTER_ERRORS, id: OnceLock::new() }
    }

    fn id(&self) -> u32 {
        *self.id.get_or_init(|| {
            CString::new(self.name).map_or(0, |name| raw::register_counter(&name, self.flags))
        })
    }

    /// Adds, wrapping around.
    pub fn add(&self, by: i64) {
        raw::add_counter(self.id(), by);
    }

    /// Sets a number that goes up and down.
    pub fn set(&self, value: i64) {
        raw::set_counter(self.id(), value);
    }

    /// Its value now; 0 where there was no room for it.
    pub fn value(&self) -> i64 {
        raw::counter_value(self.id())
    }
}

/// A label at this moment, on this thread. Each different text takes room in the recorder's
/// directory: not for texts with numbers in them.
///
/// ```
/// kymo::mark("configuration reloaded");
/// ```
pub fn mark(text: &str) {
    if raw::gates() & kymo_sys::KYMO_GATE_MARK != 0 {
        raw::mark(raw::intern_string(text));
    }
}
