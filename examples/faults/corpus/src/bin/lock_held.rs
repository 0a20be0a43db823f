// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A thread holds a std::sync::Mutex for long, again and again; the places take it in their polls.
use corpus::{now_ns, Expected, Job, Run, Victims};
use std::sync::Mutex;

static PRICES: Mutex<u64> = Mutex::new(0);

#[inline(never)]
fn look_up() -> u64 {
    let mut prices = PRICES.lock().expect("no thread panicked");
    *prices += 1;
    *prices
}

corpus::drawn! {
    async fn [checkout search render billing](mut job: Job) {
        while job.next().await {
            job.work();
            let from_ns = now_ns();
            std::hint::black_box(look_up());
            job.run.waited(Victims::Others, now_ns() - from_ns, 0);
            job.reply().await;
        }
    }
}

fn main() {
    let run = Run::read("lock_held");
    let size = run.size_us(300, 30_000);
    let name = ["refresher", "reindex", "price-sync"][run.hit % 3];
    let until = run.clone();
    let hold = move || {
        while !until.is_over() {
            let prices = PRICES.lock().expect("no thread panicked");
            std::thread::sleep(size);
            drop(prices);
            std::thread::sleep(size * 2);
        }
    };
    let thread = std::thread::Builder::new().name(name.into()).spawn(hold).expect("a thread");
    run.serve(spawn);
    let _ = thread.join();
    let culprit = vec![name.into(), "look_up".into()];
    let findings = &["lock_convoy"];
    run.end(size.as_micros() as u64, Expected { findings, culprit, victims: Victims::All });
}
