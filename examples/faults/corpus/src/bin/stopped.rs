// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Somebody stops the whole process with SIGSTOP and lets it continue later.
use corpus::{plain, Expected, Run, Victims};
use std::process::Command;
use std::time::Duration;

fn main() {
    let run = Run::read("stopped");
    let size = run.size_us(20_000, 2_000_000).min(run.left() / 2);
    let script = format!(
        "sleep 0.4; kill -STOP {pid}; sleep {}; kill -CONT {pid}",
        size.as_secs_f64(),
        pid = std::process::id()
    );
    let mut other = Command::new("sh").args(["-c", &script]).spawn().expect("a shell");
    let runtime = run.runtime();
    runtime.block_on(async {
        for one in run.traffic(plain::spawn).await {
            let _ = one.await;
        }
    });
    let _ = other.wait();
    runtime.shutdown_timeout(Duration::from_millis(200));
    let findings = &["process_stopped"];
    let victims = Victims::Others;
    run.end(size.as_micros() as u64, Expected { findings, culprit: vec![], victims });
}
