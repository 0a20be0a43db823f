// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The peer as its README sets it up: disk buffer, task tracking on, one worker, wakes through its
//! spawn. With DIAL9_BENCH_GZIP set its worker compresses the segments, as it does by default where
//! any stage is configured (symbols, an uploader). DIAL9_BENCH_ROTATE_S is the age in seconds at
//! which it seals a segment, in place of its 60. With DIAL9_BENCH_SAMPLER, which wants the feature
//! `profiler`, its profiler samples the CPU at its default 99 Hz, by `perf` or by `ctimer`; symbols
//! are left to a reader then, as kymo leaves them.

use dial9::{
    Dial9HandleTokioExt, DiskBuffer, RecorderBuilder, RecorderPipelineExt, TokioAttachOptions,
};

#[cfg(feature = "profiler")]
fn with_profiler(recorder: RecorderBuilder) -> RecorderBuilder {
    use dial9::{RecorderPerfExt, cpu::CpuProfilingConfig};
    match std::env::var("DIAL9_BENCH_SAMPLER").as_deref() {
        Ok("perf") => recorder.with_cpu_profiling(CpuProfilingConfig::with_perf_backend()),
        Ok("ctimer") => recorder.with_cpu_profiling(CpuProfilingConfig::with_ctimer_backend()),
        Ok(other) => panic!("DIAL9_BENCH_SAMPLER is perf or ctimer, not {other}"),
        Err(_) => recorder,
    }
}

#[cfg(not(feature = "profiler"))]
fn with_profiler(recorder: RecorderBuilder) -> RecorderBuilder {
    recorder
}

/// Runs `body` on a dial9 runtime of one worker that writes to the directory `DIAL9_BENCH_DIR`.
pub fn run<F>(body: F) -> F::Output
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    run_on(1, body)
}

/// The same on so many workers.
pub fn run_on<F>(workers: usize, body: F) -> F::Output
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let directory =
        std::env::var("DIAL9_BENCH_DIR").expect("DIAL9_BENCH_DIR names the trace directory");
    let rotate_s = std::env::var("DIAL9_BENCH_ROTATE_S").ok().and_then(|text| text.parse().ok());
    let writer = DiskBuffer::builder()
        .base_path(directory)
        .max_total_size(8 << 30)
        .maybe_rotation_period(rotate_s.map(std::time::Duration::from_secs))
        .build()
        .unwrap();
    let mut recorder = with_profiler(dial9::recorder(writer));
    if std::env::var_os("DIAL9_BENCH_GZIP").is_some() {
        recorder = recorder.with_custom_pipeline(|pipeline| pipeline.gzip().write_back());
    }
    let recorder = recorder.build();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(workers).enable_all();
    let options = TokioAttachOptions::builder().task_tracking_enabled(true).build();
    let runtime = recorder.handle().attach_tokio_runtime(builder, options).unwrap();
    let output = dial9::block_on(&runtime, body);
    drop(runtime);
    recorder.graceful_shutdown(std::time::Duration::from_secs(10));
    output
}
