// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A flight recorder for Tokio.
//!
//! ```no_run
//! #[tokio::main]
//! async fn main() {
//!     kymo::init();
//!     // the service
//! }
//! ```
#![warn(missing_docs)]
#![deny(unsafe_code)]

mod attach;
mod config;
mod counter;
mod dump;
mod error;
mod event;
#[cfg(all(feature = "hooks", tokio_unstable))]
mod hooks;
#[cfg(feature = "metrics")]
mod metrics;
mod names;
mod probe;
#[allow(unsafe_code)]
mod raw;
mod recorder;
mod source;
mod span;
#[cfg(feature = "tracing")]
mod span_ids;
mod spawn;
mod testing;
#[cfg(feature = "tracing")]
mod tracing;

pub use attach::{watch_runtime, Attached, RuntimeOptions, Watched};
pub use config::{Config, ConfigBuilder, Events, Knob, Mode, KNOBS};
pub use counter::{mark, Counter};
pub use dump::{dump, Dump, DumpReader, Dumping};
pub use error::Error;
pub use event::{record, Event, Field, Interned, Texts, Value, Values};
#[cfg(all(feature = "hooks", tokio_unstable))]
pub use hooks::TaskHooks;
pub use names::SpanName;
pub use raw::{Alloc, Dumped};
pub use recorder::{
    init, init_with, is_recording, pause, reopen_after_fork, resume, shutdown, Recorder, Status,
};
pub use source::{source, Source};
pub use span::{request, request_id, Request, Span};
pub use spawn::{spawn, spawn_local, spawn_local_on, spawn_on, JoinSetExt};
pub use testing::dump_on_panic;
#[cfg(feature = "tracing")]
pub use tracing::{tracing_layer, TracingLayer};

/// `async fn main` on a Tokio runtime, recorded from before the runtime is built until after it
/// ended. Takes Tokio's `flavor`, `worker_threads` and `start_paused`.
///
/// ```no_run
/// #[kymo::main(worker_threads = 2)]
/// async fn main() {
///     kymo::spawn(async { /* work */ }).await.expect("it did not panic");
/// }
/// ```
#[cfg(feature = "macros")]
pub use kymo_macros::main;

/// A test on a Tokio runtime of its own; when it fails, what it did becomes a trace below
/// `target/kymo`, or KYMO_TEST_DIR. Takes what [`main`](macro@main) takes; one thread is the
/// default.
///
/// ```no_run
/// #[kymo::test]
/// async fn answers() {
///     assert_eq!(2 + 2, 4);
/// }
/// ```
#[cfg(feature = "macros")]
pub use kymo_macros::test;

/// Makes a struct with named fields an [`Event`](trait@Event): one field of the trace each.
///
/// On the struct: `#[kymo(name = "...")]`. On a field: `#[kymo(unit = "bytes")]`, `#[kymo(name =
/// "...")]`, `#[kymo(intern)]` for a text that repeats, `#[kymo(flatten)]` for a struct that is an
/// event itself, `#[kymo(skip)]`. Fields are of any [`Value`]: numbers, texts, `Duration`, lists
/// and maps of them, and an `Option` of each.
///
/// ```
/// #[derive(kymo::Event)]
/// struct OrderPlaced<'a> {
///     order: u64,
///     #[kymo(unit = "bytes")]
///     size: u32,
///     #[kymo(intern)]
///     country: &'a str,
///     coupon: Option<String>,
///     items: Vec<u64>,
/// }
///
/// let items = vec![1001];
///
/// kymo::record(&OrderPlaced { order: 7, size: 120, country: "de", coupon: None, items });
/// ```
#[cfg(feature = "macros")]
pub use kymo_macros::Event;

/// For the macros of this crate alone.
#[doc(hidden)]
pub mod __private {
    pub use crate::names::Cached;
    pub use crate::testing::{end_main, test};
    pub use tokio;
}
