// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The worker looks at the I/O and timer driver only after very many polls, and tasks that are
//! always ready again never let it park.
use corpus::{burn, plain, Expected, Run, Victims};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// Unlike yield_now(), which lets the driver look first.
async fn again() {
    let mut is_again = false;
    let poll = |context: &mut std::task::Context<'_>| {
        if std::mem::replace(&mut is_again, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    };
    std::future::poll_fn(poll).await;
}

corpus::drawn! {
    async fn [compact reindex digest](run: Arc<Run>) {
        while !run.is_over() {
            burn(Duration::from_micros(20));
            again().await;
        }
    }
}

fn main() {
    let run = Run::read("driver_late");
    // Of 20 us each. What is done within 5 ms is not late.
    let interval = run.size(300, 30_000) as u32;
    let mut builder = run.builder();
    let runtime = builder.worker_threads(1).event_interval(interval).build().expect("a runtime");
    runtime.block_on(async {
        for _ in 0..2 {
            spawn(run.hit, run.clone());
        }
        for one in run.traffic(plain::spawn).await {
            let _ = one.await;
        }
    });
    runtime.shutdown_timeout(Duration::from_millis(200));
    let culprit = vec![];
    let findings = &["driver_starved"];
    run.end(interval.into(), Expected { findings, culprit, victims: Victims::Others });
}
