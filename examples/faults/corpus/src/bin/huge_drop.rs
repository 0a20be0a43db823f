// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A place drops a large index that a thread has built for it: a free() for each of its entries.
use corpus::{Expected, Run, Victims};
use std::sync::Mutex;

type Index = Vec<Box<[u64; 8]>>;
static NEXT: Mutex<Option<Index>> = Mutex::new(None);

corpus::places!(|job| {
    let old = NEXT.lock().expect("no thread panicked").take();
    drop(std::hint::black_box(old));
});

fn main() {
    let run = Run::read("huge_drop");
    let size = run.size(5_000, 500_000);
    let until = run.clone();
    let build = move || {
        while !until.is_over() {
            if NEXT.lock().expect("no thread panicked").is_none() {
                let index: Index = (0..size).map(|i| Box::new([i; 8])).collect();
                *NEXT.lock().expect("no thread panicked") = Some(index);
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    };
    let thread = std::thread::Builder::new().name("indexer".into()).spawn(build).expect("a thread");
    run.serve(spawn);
    let _ = thread.join();
    let culprit = vec![NAMES[run.hit].into(), "drop".into()];
    let findings = &["huge_drop"];
    run.end(size, Expected { findings, culprit, victims: Victims::All });
}
