// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Each connection has a task that answers its questions, rests a little, and then waits to be
//! notified: what was asked while it rested notified nobody. A time-out of its own hides it.
use corpus::{now_ns, Expected, Job, Run, Victims};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::{oneshot, Notify};

static LIMIT: OnceLock<Duration> = OnceLock::new();

#[derive(Default)]
pub struct Desk {
    asked: Mutex<Option<oneshot::Sender<()>>>,
    is_asked: Notify,
}

impl Desk {
    fn take(&self) -> Option<oneshot::Sender<()>> {
        self.asked.lock().expect("no thread panicked").take()
    }
}

mod places {
    use super::{now_ns, oneshot, Arc, Desk, Job, Victims};
    corpus::drawn! {
        async fn [checkout search render billing](mut job: Job) {
            let desk = Arc::new(Desk::default());
            if job.hit {
                super::spawn(job.run.hit, desk.clone());
            }
            while job.next().await {
                job.work();
                if job.hit {
                    let (sender, answer) = oneshot::channel();
                    let from_ns = now_ns();
                    *desk.asked.lock().expect("no thread panicked") = Some(sender);
                    desk.is_asked.notify_waiters();
                    let _ = answer.await;
                    job.run.waited(Victims::Stuck, now_ns() - from_ns, 0);
                }
                job.reply().await;
            }
        }
    }
}

corpus::drawn! {
    async fn [answer_all look_up resolve](desk: Arc<Desk>) {
        let limit = *LIMIT.get().expect("drawn");
        loop {
            if let Some(one) = desk.take() {
                let _ = one.send(());
                tokio::time::sleep(Duration::from_millis(30)).await;
            }
            let _ = tokio::time::timeout(limit, desk.is_asked.notified()).await;
        }
    }
}

fn main() {
    let run = Run::read("hidden_wake");
    let size = *LIMIT.get_or_init(|| run.size_us(8_000, 800_000));
    run.serve(places::spawn);
    let culprit = vec![NAMES[run.hit % NAMES.len()].into()];
    let findings = &["lost_wake"];
    run.end(size.as_micros() as u64, Expected { findings, culprit, victims: Victims::Stuck });
}
