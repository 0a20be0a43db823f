// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tasks of one kind wait for words of a thread; at some moment one of them waits without having
//! left its waker, and is never woken again.
use corpus::{now_ns, plain, Expected, Run, Victims};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

#[derive(Default)]
struct Slot {
    words: u64,
    waker: Option<Waker>,
    since_ns: u64,
}

type Waiter = (Arc<Run>, Arc<Mutex<Slot>>, u64);

async fn next_word(slot: &Mutex<Slot>, forgets: bool) {
    std::future::poll_fn(|context| {
        let mut slot = slot.lock().expect("no thread panicked");
        if slot.words > 0 && !forgets {
            slot.words -= 1;
            slot.since_ns = 0;
            return Poll::Ready(());
        }
        slot.waker = (!forgets).then(|| context.waker().clone());
        Poll::Pending
    })
    .await;
}

corpus::drawn! {
    async fn [deliver relay follow](waiter: Waiter) {
        let (run, slot, forgets_at_ns) = waiter;
        while !run.is_over() {
            next_word(&slot, now_ns() > forgets_at_ns).await;
        }
    }
}

/// A word for each slot, again and again.
fn speak(run: &Run, slots: &[Arc<Mutex<Slot>>], every: Duration) {
    while !run.is_over() {
        for slot in slots {
            let mut slot = slot.lock().expect("no thread panicked");
            slot.words += 1;
            if slot.since_ns == 0 {
                slot.since_ns = now_ns();
            }
            let waker = slot.waker.take();
            drop(slot);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
        std::thread::sleep(every);
    }
    for slot in slots {
        let since_ns = slot.lock().expect("no thread panicked").since_ns;
        run.waited(Victims::Own, if since_ns > 0 { now_ns() - since_ns } else { 0 }, 0);
    }
}

fn main() {
    let run = Run::read("lost_wake");
    let count = run.within(4, 24);
    let every = run.size_us(2_000, 50_000);
    let stuck_ns = run.size(20_000_000, run.left().as_nanos() as u64 * 2 / 3);
    let slots: Vec<_> = (0..count).map(|_| Arc::new(Mutex::new(Slot::default()))).collect();
    let runtime = run.runtime();
    runtime.block_on(async {
        for (i, slot) in slots.iter().enumerate() {
            let forgets_at_ns = if i == 0 { run.until_ns - stuck_ns } else { u64::MAX };
            spawn(run.hit, (run.clone(), slot.clone(), forgets_at_ns));
        }
        let speaker = run.clone();
        let thread = std::thread::spawn(move || speak(&speaker, &slots, every));
        for one in run.traffic(plain::spawn).await {
            let _ = one.await;
        }
        let _ = thread.join();
    });
    runtime.shutdown_timeout(Duration::from_millis(200));
    let culprit = vec![NAMES[run.hit % NAMES.len()].into()];
    let findings = &["lost_wake"];
    run.end(stuck_ns / 1000, Expected { findings, culprit, victims: Victims::Stuck });
}
