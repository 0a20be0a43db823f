// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A place starts a task now and then, which waits for what never comes.
use corpus::{Expected, Run, Victims};
use std::sync::{Arc, OnceLock};
use tokio::sync::Notify;

static ONE_IN: OnceLock<u64> = OnceLock::new();

mod leaked {
    use super::{Arc, Notify};
    corpus::drawn! {
        async fn [watch_session hold_lease follow_up](word: Arc<Notify>) {
            word.notified().await;
        }
    }
}

corpus::places!(|job| {
    if job.run.within(1, *ONE_IN.get().expect("drawn")) == 1 {
        leaked::spawn(job.run.hit, Arc::new(Notify::new()));
        job.run.grew(1);
    }
});

fn main() {
    let run = Run::read("task_leak");
    let one_in = *ONE_IN.get_or_init(|| run.size(1, 100));
    run.serve(spawn);
    let culprit = vec![leaked::NAMES[run.hit % leaked::NAMES.len()].into(), NAMES[run.hit].into()];
    let findings = &["task_leak"];
    run.end(one_in, Expected { findings, culprit, victims: Victims::Growth });
}
