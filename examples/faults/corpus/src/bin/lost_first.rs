// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A task a request, which waits once for a thread that answers; some of them do not leave their
//! waker, and the answer finds nobody.
use corpus::{now_ns, plain, Expected, Run, Victims};
use std::sync::{mpsc, Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

#[derive(Default)]
struct Answer {
    is_there: bool,
    waker: Option<Waker>,
    asked_ns: u64,
    taken_ns: u64,
}

type Shared = Arc<Mutex<Answer>>;
type Ask = (Shared, bool);

async fn answer(shared: &Shared, forgets: bool) {
    std::future::poll_fn(|context| {
        let mut answer = shared.lock().expect("no thread panicked");
        if answer.is_there {
            answer.taken_ns = now_ns();
            return Poll::Ready(());
        }
        answer.waker = (!forgets).then(|| context.waker().clone());
        Poll::Pending
    })
    .await;
}

corpus::drawn! {
    async fn [lookup resolve authorize](ask: Ask) {
        let (shared, forgets) = ask;
        answer(&shared, forgets).await;
    }
}

/// Answers each question after a while.
fn answer_all(questions: mpsc::Receiver<Shared>, takes: Duration) {
    for shared in questions {
        std::thread::sleep(takes);
        let mut answer = shared.lock().expect("no thread panicked");
        answer.is_there = true;
        let waker = answer.waker.take();
        drop(answer);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

async fn ask_all(
    run: Arc<Run>,
    asked: mpsc::Sender<Shared>,
    every: Duration,
    from_ns: u64,
) -> Vec<Shared> {
    let (mut all, mut number) = (Vec::new(), 0u64);
    while !run.is_over() {
        let shared = Shared::default();
        shared.lock().expect("no thread panicked").asked_ns = now_ns();
        let forgets = now_ns() >= from_ns && number % 8 == 0;
        number += 1;
        spawn(run.hit, (shared.clone(), forgets));
        // The task has been polled by then, or is about to be: the answer takes longer.
        let _ = asked.send(shared.clone());
        all.push(shared);
        tokio::time::sleep(every.min(run.left())).await;
    }
    all
}

fn main() {
    let run = Run::read("lost_first");
    let takes = Duration::from_micros(run.within(2_000, 5_000));
    let every = takes * 2 + Duration::from_micros(run.within(0, 10_000));
    let stuck_ns = run.size(20_000_000, run.left().as_nanos() as u64 * 2 / 3);
    let runtime = run.runtime();
    runtime.block_on(async {
        let (asked, questions) = mpsc::channel();
        let thread = std::thread::spawn(move || answer_all(questions, takes));
        let asking = tokio::spawn(ask_all(run.clone(), asked, every, run.until_ns - stuck_ns));
        for one in run.traffic(plain::spawn).await {
            let _ = one.await;
        }
        for shared in asking.await.expect("no task panicked") {
            let answer = shared.lock().expect("no thread panicked");
            let taken_ns = if answer.taken_ns > 0 { answer.taken_ns } else { now_ns() };
            run.waited(Victims::Stuck, taken_ns - answer.asked_ns, 0);
        }
        let _ = thread.join();
    });
    runtime.shutdown_timeout(Duration::from_millis(200));
    let culprit = vec![NAMES[run.hit % NAMES.len()].into()];
    let findings = &["lost_wake"];
    run.end(stuck_ns / 1000, Expected { findings, culprit, victims: Victims::Stuck });
}
