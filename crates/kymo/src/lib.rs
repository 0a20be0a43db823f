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

mod config;
mod dump;
mod error;
mod probe;
#[allow(unsafe_code)]
mod raw;
mod recorder;

pub use config::{Config, ConfigBuilder, Events, Knob, Mode, KNOBS};
pub use dump::{dump, Dump, Dumping};
pub use error::Error;
pub use raw::Dumped;
pub use recorder::{
    init, init_with, is_recording, pause, reopen_after_fork, resume, shutdown, Recorder, Status,
};
