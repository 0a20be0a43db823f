// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the attribute macros call, and panics.
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::path::PathBuf;
use std::time::Duration;

use crate::{dump, init_with, Config};

const SEAL: Duration = Duration::from_secs(10);

/// Before main returns: seals what init() started.
pub fn end_main() {
    if let Err(why) = crate::shutdown(SEAL) {
        eprintln!("kymo: the trace is incomplete: {why}");
    }
}

/// Runs a test; when it panics, what the ring holds becomes a trace below KYMO_TEST_DIR, or
/// `target/kymo`.
pub fn test<T>(name: &str, body: impl FnOnce() -> T) -> T {
    let folder = std::env::var_os("KYMO_TEST_DIR")
        .map_or_else(|| PathBuf::from("target/kymo"), PathBuf::from);

    // The first test of the process starts it; they share one ring.
    init_with(Config::from_env().ring_bytes(4 << 20).dump_dir(&folder).build_or_disabled());
    let result = catch_unwind(AssertUnwindSafe(body));

    match result {
        Ok(value) => value,
        Err(panic) => {
            let reason = name.rsplit("::").next().unwrap_or(name);

            match dump().reason(reason).label(name).path(&folder).wait() {
                Ok(made) => eprintln!("kymo: trace of {name}: {}", made.path.display()),
                Err(why) => eprintln!("kymo: no trace of {name}: {why}"),
            }
            resume_unwind(panic)
        }
    }
}

/// From now on a panic on any thread asks for a dump, then the hook that was there runs. The thread
/// does not wait for the dump, unless a panic ends the process.
///
/// ```
/// kymo::dump_on_panic();
/// ```
pub fn dump_on_panic() {
    let previous = std::panic::take_hook();

    std::panic::set_hook(Box::new(move |panic| {
        let wanted = dump().reason("panic");

        if cfg!(panic = "abort") {
            let _ = wanted.wait();
        } else {
            wanted.request();
        }
        previous(panic);
    }));
}
