// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One runtime a thread, as servers that never share a task have them. The traffic comes from a
//! runtime of its own.

use crate::{Job, Run};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

static HANDLES: OnceLock<Vec<Handle>> = OnceLock::new();
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Of the next runtime in turn.
pub fn next() -> usize {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Serves the connection on that one of the runtimes.
pub fn serve_on(core: usize, job: Job, serve: fn(usize, Job) -> JoinHandle<()>, place: usize) {
    let handles = HANDLES.get().expect("started");
    let handle = &handles[core % handles.len()];
    handle.spawn(async move {
        serve(place, job.adopt());
    });
}

impl Run {
    /// The whole life of a program with so many of them. `spread` serves a connection by
    /// `serve_on()`.
    pub fn serve_by_cores(
        self: &Arc<Run>,
        cores: usize,
        times: usize,
        spread: fn(usize, Job) -> JoinHandle<()>,
    ) {
        let one = || Builder::new_current_thread().enable_all().build().expect("a runtime");
        let runtimes: Vec<Runtime> = (0..cores).map(|_| one()).collect();
        let _ = HANDLES.set(runtimes.iter().map(|runtime| runtime.handle().clone()).collect());
        let start = |(number, runtime): (usize, Runtime)| {
            let until = self.left() + Duration::from_millis(50);
            let thread = thread::Builder::new().name(format!("core-{number}"));
            let serve = move || {
                runtime.block_on(async { tokio::time::sleep(until).await });
                runtime.shutdown_background();
                crate::harm::thread_stops();
            };
            thread.spawn(serve).expect("a thread")
        };
        let threads: Vec<_> = runtimes.into_iter().enumerate().map(start).collect();
        let traffic = self.builder().worker_threads(1).build().expect("a runtime");
        traffic.block_on(async {
            for one in self.crowd(spread, times).await {
                let _ = one.await;
            }
        });
        traffic.shutdown_timeout(Duration::from_millis(200));
        for thread in threads {
            let _ = thread.join();
        }
    }
}
