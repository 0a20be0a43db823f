// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Callbacks of Tokio's builder, the recorder's beside the program's own: where tasks are spawned,
//! and how many wait when a poll begins.
//!
//!     RUSTFLAGS="--cfg tokio_unstable" KYMO_MODE=stream KYMO_TRACE_DIR=traces \
//!         cargo run -p kymo --example hooks --features hooks
//!
//! It prints how often Tokio called the program's callbacks: for spawns, for begins and ends of
//! polls, for ends of tasks.
#[cfg(tokio_unstable)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use std::sync::atomic::{AtomicU32, Ordering};

    static CALLS: [AtomicU32; 4] = [const { AtomicU32::new(0) }; 4];

    fn count(which: usize) {
        CALLS[which].fetch_add(1, Ordering::Relaxed);
    }

    async fn work(turns: u32) {
        for _ in 1..turns {
            tokio::task::yield_now().await;
        }
    }

    let recorder = kymo::Recorder::start(kymo::Config::from_env().build_or_disabled())?;
    let hooks = kymo::TaskHooks::new()
        .on_task_spawn(|_| count(0))
        .on_before_task_poll(|_| count(1))
        .on_after_task_poll(|_| count(2))
        .on_task_terminate(|_| count(3));
    let runtime = recorder.attach(
        tokio::runtime::Builder::new_multi_thread().worker_threads(1),
        kymo::RuntimeOptions::new().task_hooks(hooks),
    )?;

    runtime.block_on(async {
        let outer = tokio::spawn(async {
            // All in the queue of the worker that polls this one.
            let tasks: Vec<_> = (0..20).map(|_| tokio::spawn(work(5))).collect();
            let wrapped = kymo::spawn(work(5));
            let panics = tokio::spawn(async { panic!("on purpose") });
            let waits = tokio::spawn(std::future::pending::<()>());

            tokio::task::yield_now().await;
            waits.abort();
            for task in tasks.into_iter().chain([wrapped]) {
                task.await.expect("a task panicked");
            }
            assert!(panics.await.is_err() && waits.await.is_err());
            drop(tokio::spawn(std::future::pending::<()>())); // ends with its runtime
        });

        outer.await.expect("a task panicked");
    });
    drop(runtime);
    recorder.shutdown(std::time::Duration::from_secs(60))?;
    println!("{:?}", CALLS.each_ref().map(|calls| calls.load(Ordering::Relaxed)));
    Ok(())
}

#[cfg(not(tokio_unstable))]
fn main() {
    println!("RUSTFLAGS has to be \"--cfg tokio_unstable\"");
}
