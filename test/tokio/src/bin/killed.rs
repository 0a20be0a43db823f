// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An ordinary Tokio program that waits to be killed: `killed WITNESS [PAUSE_US]`.
//!
//! Every thread that polls notes each poll in WITNESS, a second shared file, while it is in it: the
//! id of its task in the thread's list, then the count. So a recorder that has been told of a
//! poll's begin before may be one ahead, and never behind. Three workers of one runtime poll all
//! the time (with PAUSE_US: bursts and rests); threads with a runtime of their own come and go.
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

/// As test/crash/kill_tokio.py knows them.
const SLOTS: usize = 256;
const POLLS: usize = 1 << 18;

#[repr(C)]
struct Slot {
    thread: AtomicU64,
    count: AtomicU64,
    tasks: [AtomicU64; POLLS],
}

static NEXT: AtomicU64 = AtomicU64::new(0);

thread_local!(static SLOT: Cell<Option<&'static Slot>> = const { Cell::new(None) });

fn map(path: &str) -> *const Slot {
    let path = std::ffi::CString::new(path).unwrap();
    // SAFETY: a shared mapping of a file of that size, which stays until the end.
    unsafe {
        let file = libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        let bytes = SLOTS * std::mem::size_of::<Slot>();
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let at = libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, file, 0);
        assert!(file >= 0 && at != libc::MAP_FAILED, "no witness");
        at as *const Slot
    }
}

static WITNESS: AtomicU64 = AtomicU64::new(0);

fn own_slot() -> Option<&'static Slot> {
    if let Some(slot) = SLOT.get() {
        return Some(slot);
    }
    let index = NEXT.fetch_add(1, Ordering::Relaxed) as usize;
    if index >= SLOTS {
        return None;
    }
    // SAFETY: within the mapping, and only atomics are in it.
    let slot = unsafe { &*(WITNESS.load(Ordering::Relaxed) as *const Slot).add(index) };
    // SAFETY: has no preconditions.
    slot.thread.store(unsafe { libc::syscall(libc::SYS_gettid) } as u64, Ordering::Release);
    SLOT.set(Some(slot));
    Some(slot)
}

fn note(task: u64) {
    // Full: wait to be killed, or the count would say less than there was.
    let Some(slot) = own_slot() else {
        std::thread::sleep(Duration::from_secs(3600));
        return;
    };
    let count = slot.count.load(Ordering::Relaxed);
    let Some(place) = slot.tasks.get(count as usize) else {
        std::thread::sleep(Duration::from_secs(3600));
        return;
    };
    place.store(task, Ordering::Relaxed);
    slot.count.store(count + 1, Ordering::Release);
}

/// The outermost future of a task: its polls are the task's.
struct Witnessed<F>(F, u64);

impl<F: Future + Unpin> Future for Witnessed<F> {
    type Output = F::Output;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        if self.1 == 0 {
            self.1 = tokio::task::id().to_string().parse().unwrap();
        }
        note(self.1);
        Pin::new(&mut self.0).poll(cx)
    }
}

fn witnessed<F: Future>(future: F) -> Witnessed<Pin<Box<F>>> {
    Witnessed(Box::pin(future), 0)
}

async fn yielding(times: u64, pause: u64) {
    for round in 0..times {
        tokio::task::yield_now().await;
        if pause > 0 && round % 50 == 49 {
            tokio::time::sleep(Duration::from_micros(pause)).await;
        }
    }
}

/// Tasks that end and are followed by others: spawn, end and reuse of memory are under way too.
async fn generations(pause: u64) {
    loop {
        let tasks: Vec<_> =
            (1..20).map(|n| tokio::spawn(witnessed(yielding(n * 10, pause)))).collect();
        for task in tasks {
            task.await.unwrap();
        }
    }
}

/// A thread with a runtime of its own, over soon.
fn short(polls: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async { tokio::spawn(witnessed(yielding(polls, 0))).await.unwrap() });
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("usage: killed WITNESS [PAUSE_US]");
    let pause = arguments.next().map_or(0, |text| text.parse().unwrap());
    WITNESS.store(map(&path) as u64, Ordering::Relaxed);
    std::thread::spawn(move || {
        // The others have slots of their own, whatever comes and goes here.
        for round in 0..SLOTS as u64 - 10 {
            std::thread::spawn(move || short(1 + round * 37 % 300)).join().unwrap();
        }
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(3)
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        tokio::spawn(witnessed(generations(pause)));
        tokio::spawn(witnessed(generations(pause)));
        std::future::pending::<()>().await
    });
}
