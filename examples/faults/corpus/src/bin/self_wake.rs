// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A task that has to wait wakes itself instead, and spins until its time has come.
use corpus::{now_ns, plain, thread_cpu_ns, Expected, Run, Victims};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

type Spin = (Arc<Run>, Duration, Duration);

async fn spin(run: &Run, length: Duration) {
    let until_ns = now_ns() + length.as_nanos() as u64;
    let mut wasted_ns = 0;
    std::future::poll_fn(|context| {
        let from_ns = thread_cpu_ns();
        for _ in 0..20 {
            std::hint::spin_loop();
        }
        if now_ns() >= until_ns {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        wasted_ns += thread_cpu_ns() - from_ns;
        Poll::Pending
    })
    .await;
    run.wasted(wasted_ns);
}

corpus::drawn! {
    async fn [refresh audit prefetch](spin_of: Spin) {
        let (run, length, pause) = spin_of;
        while !run.is_over() {
            spin(&run, length).await;
            tokio::time::sleep(pause).await;
        }
    }
}

fn main() {
    let run = Run::read("self_wake");
    let size = run.size_us(300, 30_000);
    let runtime = run.runtime();
    runtime.block_on(async {
        spawn(run.hit, (run.clone(), size, Duration::from_millis(10)));
        for one in run.traffic(plain::spawn).await {
            let _ = one.await;
        }
    });
    runtime.shutdown_timeout(Duration::from_millis(200));
    let culprit = vec![NAMES[run.hit % NAMES.len()].into()];
    let findings = &["self_wake_loop"];
    run.end(size.as_micros() as u64, Expected { findings, culprit, victims: Victims::Burden });
}
