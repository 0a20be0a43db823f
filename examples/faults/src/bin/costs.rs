// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Long polls, each of one kind: CPU time beside threads of the same process that take every CPU,
//! a sleep, and pages touched for the first time. It states what each poll cost.
use faults::{burn, end, now_ns, say, thread_cpu_ns, tid, Options};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

const ROUNDS: usize = 8;
const PAGES: usize = 4096;
const PAGE_BYTES: usize = 4096;
const SPIN: usize = 0;
const SLEEP: usize = 1;
const TOUCH: usize = 2;

/// States what `work` took of this thread, and since and until when by the thread's CPU clock: what
/// else this poll took is less than what lies between it and the thread's poll before and after.
fn stated(kind: usize, work: impl FnOnce()) {
    const NAMES: [[&str; 5]; 3] = [
        ["spin_at_ns", "spin_wall_ns", "spin_tid", "spin_cpu_from_ns", "spin_cpu_to_ns"],
        ["sleep_at_ns", "sleep_wall_ns", "sleep_tid", "sleep_cpu_from_ns", "sleep_cpu_to_ns"],
        ["touch_at_ns", "touch_wall_ns", "touch_tid", "touch_cpu_from_ns", "touch_cpu_to_ns"],
    ];
    let (from_ns, from_cpu) = (now_ns(), thread_cpu_ns());
    work();
    let (to_cpu, wall) = (thread_cpu_ns(), now_ns() - from_ns);
    for (name, value) in NAMES[kind].into_iter().zip([from_ns, wall, tid(), from_cpu, to_cpu]) {
        say(name, value);
    }
}

async fn spin() {
    stated(SPIN, || {
        burn(Duration::from_millis(15));
    });
}

async fn sleep() {
    stated(SLEEP, || {
        burn(Duration::from_millis(3));
        let asleep_ns = now_ns();
        std::thread::sleep(Duration::from_millis(20));
        say("slept_ns", now_ns() - asleep_ns);
    });
}

/// Memory of the kernel's, a page at a time.
async fn touch() {
    stated(TOUCH, || {
        // SAFETY: the mapping is ours alone, and all bytes written lie in it.
        unsafe {
            let bytes = PAGES * PAGE_BYTES;
            let at = libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert!(at != libc::MAP_FAILED);
            libc::madvise(at, bytes, libc::MADV_NOHUGEPAGE);
            for page in 0..PAGES {
                at.cast::<u8>().add(page * PAGE_BYTES).write_volatile(1);
            }
            libc::munmap(at, bytes);
        }
    });
}

/// Threads that take what CPU time there is until told to stop.
fn hogs(stop: &Arc<AtomicBool>) -> Vec<std::thread::JoinHandle<()>> {
    (0..2)
        .map(|_| {
            let stop = stop.clone();
            let body = move || {
                while !stop.load(Ordering::Relaxed) {
                    burn(Duration::from_millis(1));
                }
                say("hog_cpu_ns", thread_cpu_ns());
            };
            std::thread::Builder::new().name("pool-hog".into()).spawn(body).expect("a thread")
        })
        .collect()
}

#[repr(C, align(32))]
struct Rseq([u8; 32]);

/// An area of our own for this thread, which lasts as long as the process; where the C library has
/// one (it has no tunable glibc.pthread.rseq=0), the kernel refuses it.
fn register_rseq() {
    const SIGNATURE: u32 = 0x5305_3053;
    let area = Box::leak(Box::new(Rseq([0; 32])));
    // SAFETY: the area is never freed, and its layout is the first one of rseq(2).
    let failed = unsafe { libc::syscall(libc::SYS_rseq, area.0.as_mut_ptr(), 32, 0, SIGNATURE) };
    say("own_rseq", u64::from(failed == 0));
}

fn main() {
    let options = Options::read();
    let runtime = if std::env::var_os("OWN_RSEQ").is_some() {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(options.workers)
            .on_thread_start(register_rseq)
            .enable_all()
            .build()
            .expect("a runtime")
    } else {
        options.runtime()
    };
    // Costs are read once the recorder has seen that no filter forbids the calls.
    let ready_ns = now_ns() + 1_500_000_000;
    runtime.block_on(async {
        while now_ns() < ready_ns {
            tokio::spawn(tokio::time::sleep(Duration::from_millis(1))).await.expect("a task");
        }
        for _ in 0..ROUNDS {
            tokio::spawn(sleep()).await.expect("a task");
            tokio::spawn(touch()).await.expect("a task");
        }
    });
    let stop = Arc::new(AtomicBool::new(false));
    let threads = hogs(&stop);
    let until_ns = now_ns() + options.duration().as_nanos() as u64;
    runtime.block_on(async {
        while now_ns() < until_ns {
            tokio::spawn(spin()).await.expect("a task");
        }
    });
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().expect("a hog");
    }
    say("pages", PAGES as u64);
    end();
}
