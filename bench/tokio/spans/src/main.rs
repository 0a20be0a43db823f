// SPDX-License-Identifier: Apache-2.0 OR MIT
//! spans none|kymo|dial9 COUNT: a task enters and leaves one span COUNT times, under a registry
//! alone, or with a layer that records. Prints ns of CPU time of the only worker, an enter and its
//! exit; the second of two passes counts, callgrind counts it alone.

use std::time::Duration;

use tracing_subscriber::prelude::*;

const PAUSE: Duration = Duration::from_millis(500);

fn thread_cpu_ns() -> f64 {
    let mut now: libc::timespec = unsafe { std::mem::zeroed() };
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

include!("../../shared/toggle.rs");

async fn enter_and_leave(count: u64) -> f64 {
    let span = tracing::info_span!("request", tenant = "blue");
    let mut cpu_ns = 0.0;
    for pass in 0..2 {
        tokio::time::sleep(PAUSE).await;
        if pass == 1 {
            toggle_counting();
        }
        let start = thread_cpu_ns();
        for number in 0..count {
            span.in_scope(|| std::hint::black_box(number));
        }
        cpu_ns = thread_cpu_ns() - start;
        if pass == 1 {
            toggle_counting();
        }
    }
    cpu_ns / count as f64
}

fn builder() -> tokio::runtime::Builder {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all();
    builder
}

fn run_plain(count: u64) -> f64 {
    let runtime = builder().build().unwrap();
    runtime.block_on(async { tokio::spawn(enter_and_leave(count)).await.unwrap() })
}

fn run_dial9(count: u64) -> f64 {
    use dial9::{Dial9HandleTokioExt, DiskBuffer, TokioAttachOptions};

    let directory = std::env::var("DIAL9_BENCH_DIR").expect("DIAL9_BENCH_DIR names a directory");
    let buffer = DiskBuffer::builder().base_path(directory).max_total_size(8 << 30).build();
    let recorder = dial9::recorder(buffer.unwrap()).build();
    let options = TokioAttachOptions::builder().task_tracking_enabled(true).build();
    let runtime = recorder.handle().attach_tokio_runtime(builder(), options).unwrap();
    let output = dial9::block_on(&runtime, enter_and_leave(count));
    drop(runtime);
    recorder.graceful_shutdown(Duration::from_secs(10));
    output
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let kind = arguments.next().unwrap();
    let count = arguments.next().and_then(|text| text.parse().ok()).unwrap();
    let registry = tracing_subscriber::registry();
    let cpu_ns = match kind.as_str() {
        "none" => {
            registry.init();
            run_plain(count)
        }
        "kymo" => {
            kymo::init();
            registry.with(kymo::tracing_layer()).init();
            let cpu_ns = run_plain(count);
            kymo::shutdown(Duration::from_secs(10)).unwrap();
            cpu_ns
        }
        "dial9" => {
            registry.with(dial9_utils::tracing_layer::Dial9TracingLayer::new()).init();
            run_dial9(count)
        }
        other => panic!("none, kymo or dial9, not {other}"),
    };
    println!("{cpu_ns:.3}");
}
