// SPDX-License-Identifier: Apache-2.0 OR MIT
//! More work than the workers can do: no poll is long, and all workers are always busy.
use corpus::{burn, plain, Expected, Run, Victims};
use std::sync::Arc;
use std::time::Duration;

type Work = (Arc<Run>, Duration);

corpus::drawn! {
    async fn [transcode resize score](work: Work) {
        let (run, step) = work;
        while !run.is_over() {
            burn(step);
            tokio::task::yield_now().await;
        }
    }
}

fn main() {
    let run = Run::read("overload");
    let count = run.size(2, 200);
    let step = Duration::from_micros(run.within(50, 300));
    let workers = run.workers.min(2);
    let runtime = run.builder().worker_threads(workers).build().expect("a runtime");
    runtime.block_on(async {
        for _ in 0..count {
            spawn(run.hit, (run.clone(), step));
        }
        for one in run.traffic(plain::spawn).await {
            let _ = one.await;
        }
    });
    runtime.shutdown_timeout(Duration::from_millis(200));
    let culprit = vec![NAMES[run.hit % NAMES.len()].into()];
    let findings = &["overload"];
    run.end(count, Expected { findings, culprit, victims: Victims::Others });
}
