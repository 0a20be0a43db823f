// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many tasks sleep for four milliseconds, do nothing, and sleep again.
use corpus::{now_ns, plain, Expected, Run, Victims};
use std::sync::Arc;
use std::time::Duration;

corpus::drawn! {
    async fn [watch_quota poll_state check_lease](run: Arc<Run>) {
        while !run.is_over() {
            let from_ns = now_ns();
            tokio::time::sleep(Duration::from_millis(4)).await;
            run.waited(Victims::Own, now_ns() - from_ns, 5_000_000); // with Tokio's tick
        }
    }
}

fn main() {
    let run = Run::read("timer_flood");
    let count = run.size(50, 5_000);
    let runtime = run.runtime();
    runtime.block_on(async {
        for _ in 0..count {
            spawn(run.hit, run.clone());
        }
        for one in run.traffic(plain::spawn).await {
            let _ = one.await;
        }
    });
    runtime.shutdown_timeout(Duration::from_millis(200));
    let culprit = vec![NAMES[run.hit % NAMES.len()].into()];
    let findings = &["timer_flood"];
    run.end(count, Expected { findings, culprit, victims: Victims::All });
}
