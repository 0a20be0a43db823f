// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Healthy: another process takes a CPU for short moments. Polls get longer, yet not by their own
//! doing.
use corpus::{plain, Expected, Run, Victims};
use std::process::Command;
use std::time::Duration;

fn main() {
    let run = Run::read("healthy_preempted");
    let pause = run.size(20, 200);
    let script = format!(
        "while :; do i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; sleep 0.{pause:03}; done"
    );
    let mut other = Command::new("sh").args(["-c", &script]).spawn().expect("a shell");
    let runtime = run.runtime();
    runtime.block_on(async {
        for one in run.traffic(plain::spawn).await {
            let _ = one.await;
        }
    });
    let _ = other.kill();
    let _ = other.wait();
    runtime.shutdown_timeout(Duration::from_millis(200));
    run.end(pause, Expected { findings: &[], culprit: vec![], victims: Victims::None });
}
