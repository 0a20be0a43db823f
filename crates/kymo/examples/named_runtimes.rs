// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two runtimes with names, whose own numbers are recorded, with callbacks of the program's own.
//!
//!     KYMO_MODE=stream KYMO_TRACE_DIR=traces cargo run --features metrics --example named_runtimes
//!     kymo view RuntimeMetricsEvent traces
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kymo::RuntimeOptions;
use tokio::io::AsyncReadExt;
use tokio::runtime::Builder;

static STARTED: AtomicU64 = AtomicU64::new(0);
static STOPPED: AtomicU64 = AtomicU64::new(0);
static SAMPLED: AtomicU64 = AtomicU64::new(0);
static SAMPLES: kymo::Counter = kymo::Counter::new("samples");

async fn work() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

/// Until the recorder has called its sources so often.
async fn wait_for_samples(count: u64) {
    while SAMPLED.load(Ordering::Relaxed) < count {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let recorder = kymo::Recorder::start(kymo::Config::from_env().build_or_disabled())?;
    let options = RuntimeOptions::new().metrics_interval(Duration::from_millis(10));
    let front = recorder.attach(
        Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .on_thread_start(|| {
                STARTED.fetch_add(1, Ordering::Relaxed);
            })
            .on_thread_stop(|| {
                STOPPED.fetch_add(1, Ordering::Relaxed);
            }),
        options.clone().name("front"),
    )?;
    let back = recorder.attach(Builder::new_current_thread().enable_all(), options.name("back"))?;
    let source = kymo::source("samples", Duration::from_millis(10), || {
        SAMPLES.set(SAMPLED.fetch_add(1, Ordering::Relaxed) as i64 + 1);
    })?;

    let waiting: Vec<_> = (0..7).map(|_| front.spawn(std::future::pending::<()>())).collect();

    front.block_on(async {
        let tasks: Vec<_> = (0..20).map(|_| tokio::spawn(work())).collect();

        for task in tasks {
            task.await.expect("a task panicked");
        }
        tokio::task::spawn_blocking(|| {}).await.expect("a closure panicked");
        wait_for_samples(5).await;
    });
    back.block_on(async {
        tokio::spawn(work()).await.expect("a task panicked");
        wait_for_samples(SAMPLED.load(Ordering::Relaxed) + 3).await;
    });
    let mut bytes = Vec::new();

    back.block_on(kymo::dump().reader().read_to_end(&mut bytes))?;
    drop(source);
    let sampled = SAMPLED.load(Ordering::Relaxed);

    drop(waiting);
    drop(back);
    front.detach().shutdown_timeout(Duration::from_secs(5));
    println!(
        "{} {} {}",
        STARTED.load(Ordering::Relaxed) == STOPPED.load(Ordering::Relaxed),
        bytes.starts_with(b"TRC\0"),
        sampled == SAMPLED.load(Ordering::Relaxed),
    );
    recorder.shutdown(Duration::from_secs(5))?;
    Ok(())
}
