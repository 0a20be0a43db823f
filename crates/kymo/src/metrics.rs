// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What Tokio says of a runtime: the more, the more of it is unlocked by `tokio_unstable`.
use kymo_sys as sys;
use tokio::runtime::RuntimeMetrics;

const UNKNOWN: u64 = sys::KYMO_RUNTIME_NUMBER_UNKNOWN;

pub(crate) fn read(metrics: &RuntimeMetrics) -> sys::kymo_runtime_metrics {
    let mut out = sys::kymo_runtime_metrics {
        size: 0,
        name: std::ptr::null(),
        global_queue_depth: metrics.global_queue_depth() as u64,
        alive_tasks: metrics.num_alive_tasks() as u64,
        workers: metrics.num_workers() as u64,
        local_queue_depth: UNKNOWN,
        local_queue_depth_max: UNKNOWN,
        blocking_threads: UNKNOWN,
        blocking_threads_idle: UNKNOWN,
        blocking_queue_depth: UNKNOWN,
        spawned_count: UNKNOWN,
        steal_count: UNKNOWN,
        steal_operation_count: UNKNOWN,
        overflow_count: UNKNOWN,
        budget_yield_count: UNKNOWN,
        io_ready_count: UNKNOWN,
        park_count: UNKNOWN,
        busy_ns: UNKNOWN,
    };

    workers(metrics, &mut out);
    unstable(metrics, &mut out);
    out
}

#[cfg(target_has_atomic = "64")]
fn workers(metrics: &RuntimeMetrics, out: &mut sys::kymo_runtime_metrics) {
    let workers = 0..metrics.num_workers();
    let busy = workers.clone().map(|worker| metrics.worker_total_busy_duration(worker));

    out.busy_ns = busy.map(|busy| u64::try_from(busy.as_nanos()).unwrap_or(u64::MAX / 2)).sum();
    out.park_count = workers.map(|worker| metrics.worker_park_count(worker)).sum();
}

#[cfg(not(target_has_atomic = "64"))]
fn workers(_: &RuntimeMetrics, _: &mut sys::kymo_runtime_metrics) {}

#[cfg(not(tokio_unstable))]
fn unstable(_: &RuntimeMetrics, _: &mut sys::kymo_runtime_metrics) {}

#[cfg(tokio_unstable)]
fn unstable(metrics: &RuntimeMetrics, out: &mut sys::kymo_runtime_metrics) {
    let workers = 0..metrics.num_workers();
    let depths = workers.clone().map(|worker| metrics.worker_local_queue_depth(worker) as u64);

    out.local_queue_depth = depths.clone().sum();
    out.local_queue_depth_max = depths.max().unwrap_or(0);
    out.blocking_threads = metrics.num_blocking_threads() as u64;
    out.blocking_threads_idle = metrics.num_idle_blocking_threads() as u64;
    out.blocking_queue_depth = metrics.blocking_queue_depth() as u64;
    #[cfg(target_has_atomic = "64")]
    {
        let sum = |number: fn(&RuntimeMetrics, usize) -> u64| {
            workers.clone().map(|worker| number(metrics, worker)).sum()
        };

        out.spawned_count = metrics.spawned_tasks_count();
        out.budget_yield_count = metrics.budget_forced_yield_count();
        out.steal_count = sum(RuntimeMetrics::worker_steal_count);
        out.steal_operation_count = sum(RuntimeMetrics::worker_steal_operations);
        out.overflow_count = sum(RuntimeMetrics::worker_overflow_count);
        out.io_ready_count = metrics.io_driver_ready_count();
    }
}
