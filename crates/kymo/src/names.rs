// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Texts that have a number in the recorder: each is told once to each recorder.
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::raw;

/// Counts the recorders of this process: what one of them was told is not known to the next.
static GENERATION: AtomicU32 = AtomicU32::new(1);

pub(crate) fn start_over() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// A number for as long as one recorder is open; 0 is not kept, so the next call asks again.
pub struct Cached(AtomicU64);

impl Cached {
    /// For a static.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Cached(AtomicU64::new(0))
    }

    pub(crate) fn get(&self, make: impl FnOnce() -> u32) -> u32 {
        let generation = u64::from(GENERATION.load(Ordering::Relaxed)) << 32;
        let known = self.0.load(Ordering::Relaxed);

        if known & !0xffff_ffff == generation {
            return known as u32;
        }
        let id = make();

        if id != 0 {
            self.0.store(generation | u64::from(id), Ordering::Relaxed);
        }
        id
    }
}

/// The name of spans, kept in a static: [`span!`](crate::span) makes one.
///
/// ```
/// static CHECKOUT: kymo::SpanName = kymo::SpanName::new("checkout");
///
/// let span = CHECKOUT.begin();
/// ```
pub struct SpanName {
    text: &'static str,
    id: Cached,
}

impl SpanName {
    /// For a static.
    pub const fn new(text: &'static str) -> Self {
        SpanName { text, id: Cached::new() }
    }

    pub(crate) fn id(&self) -> u32 {
        self.id.get(|| raw::intern_name(self.text))
    }

    /// A span begins, inside the request of this task if there is one.
    pub fn begin(&'static self) -> crate::Span {
        crate::Span::begin(self.id(), crate::request_id().unwrap_or(0))
    }
}
