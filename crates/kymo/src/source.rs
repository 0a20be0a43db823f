// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the recorder calls from time to time.
use std::time::Duration;

use crate::error::Error;
use crate::raw;
use crate::recorder::c_string;

/// Calls a function from time to time on the recorder's thread, until it is dropped or the recorder
/// ends: made by [`source`].
#[must_use = "it ends when it is dropped; keep() lets it last as long as the recorder"]
#[derive(Debug)]
pub struct Source {
    number: Option<i32>,
}

impl Source {
    /// It lasts as long as the recorder.
    pub fn keep(mut self) {
        self.number = None;
    }
}

/// Waits for a call that runs, unless that one drops it.
impl Drop for Source {
    fn drop(&mut self) {
        if let Some(number) = self.number.take() {
            raw::remove_source(number);
        }
    }
}

/// Has the recorder call `sample` every so often, at least a millisecond, to record what the
/// program knows at that moment: events, counters, marks. It runs on the recorder's thread, where
/// one that takes long delays dumps and segments, and one that waits for a dump waits for ever. One
/// that panics is not called again.
///
/// # Errors
/// No recorder is open, a name of more than 47 bytes, or 64 sources exist.
///
/// ```
/// use std::sync::atomic::{AtomicI64, Ordering};
/// use std::time::Duration;
///
/// static WAITING: AtomicI64 = AtomicI64::new(0);
/// static WAITING_COUNTER: kymo::Counter = kymo::Counter::new("waiting");
///
/// # let _recorder = kymo::Recorder::start(kymo::Config::builder().build()?)?;
/// kymo::source("waiting", Duration::from_millis(100), || {
///     WAITING_COUNTER.set(WAITING.load(Ordering::Relaxed));
/// })?
/// .keep();
/// # Ok::<(), kymo::Error>(())
/// ```
pub fn source(
    name: &str,
    interval: Duration,
    mut sample: impl FnMut() + Send + 'static,
) -> Result<Source, Error> {
    let name = c_string("source", name)?;
    let interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
    let number = raw::add_source(
        &name,
        Box::new(move || {
            sample();
            interval_ns
        }),
    )?;

    Ok(Source { number: Some(number) })
}
