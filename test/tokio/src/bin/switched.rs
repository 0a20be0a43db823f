// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Polls that lose their processor in known ways, one task each, and what each of them lost by its
//! own clocks and the kernel's counts: lines of `NAME TASK COUNT NANOSECONDS`.
//!
//!   switched FILE [storm]
//!
//! FILE is made here, for page faults. storm: two threads wake each other all the time meanwhile.
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc};
use std::time::{Duration, Instant};
use witness::multi_thread;

const FAULTS: usize = 200;
const DISTANCE: usize = 1 << 18;
const NAPS: i64 = 20;
const LONG: Duration = Duration::from_micros(100);

fn thread_time() -> Duration {
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn usage() -> libc::rusage {
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) }, 0);
    usage
}

/// The calling thread on one processor, or on all.
fn stay_on(first_only: bool) {
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for cpu in 0..if first_only { 1 } else { 64 } {
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    let bytes = std::mem::size_of_val(&set);
    assert_eq!(unsafe { libc::sched_setaffinity(0, bytes, &set) }, 0);
}

fn burn(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

/// Beside a thread that wants the same processor.
#[inline(never)]
fn known_preempted() -> (i64, Duration) {
    let is_over = Arc::new(AtomicBool::new(false));
    let theirs = is_over.clone();
    let rival = std::thread::spawn(move || {
        stay_on(true);
        while !theirs.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    });
    stay_on(true);
    let (begin, cpu, count) = (Instant::now(), thread_time(), usage().ru_nivcsw);
    burn(Duration::from_millis(1500));
    let (spent, burnt) = (begin.elapsed(), thread_time() - cpu);
    let count = usage().ru_nivcsw - count;
    is_over.store(true, Ordering::Relaxed);
    stay_on(false);
    while !rival.is_finished() {
        std::hint::spin_loop();
    }
    (count, spent.saturating_sub(burnt))
}

/// Pages of a file that are in no memory. Those count that were waited for, and not for a moment: a
/// virtual machine's disk may answer before whoever asked has left the processor.
#[inline(never)]
fn known_faults(pages: &[u8]) -> (i64, Duration) {
    let (mut count, mut spent) = (0, Duration::ZERO);
    for i in 0..FAULTS {
        let (before, begin, cpu) = (usage(), Instant::now(), thread_time());
        std::hint::black_box(unsafe { std::ptr::read_volatile(&pages[i * DISTANCE]) });
        let off = begin.elapsed().saturating_sub(thread_time() - cpu);
        let after = usage();
        let has_waited = after.ru_majflt > before.ru_majflt && after.ru_nvcsw > before.ru_nvcsw;
        spent += off;
        if has_waited && off >= LONG {
            count += 1
        }
    }
    (count, spent)
}

fn evicted(path: &str) -> &'static [u8] {
    let mut file = File::create(path).unwrap();
    for _ in 0..FAULTS {
        file.write_all(&vec![1; DISTANCE]).unwrap();
    }
    file.sync_all().unwrap();
    let file = File::open(path).unwrap();
    let bytes = FAULTS * DISTANCE;
    unsafe {
        let map = libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        );
        assert_ne!(map, libc::MAP_FAILED);
        assert_eq!(libc::madvise(map, bytes, libc::MADV_RANDOM), 0);
        assert_eq!(libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED), 0);
        std::slice::from_raw_parts(map as *const u8, bytes)
    }
}

/// Two threads that wait for each other: tens of thousands of switches a second.
fn storm() {
    let (there, from_here) = mpsc::sync_channel(0);
    let (here, from_there) = mpsc::sync_channel(0);
    std::thread::spawn(move || {
        while from_here.recv().is_ok() && here.send(()).is_ok() {
            burn(Duration::from_micros(50));
        }
    });
    std::thread::spawn(move || while there.send(()).is_ok() && from_there.recv().is_ok() {});
}

fn run_delay() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split_whitespace().nth(1).unwrap().parse().unwrap())
}

/// Short sleeps beside a more important thread on the same processor: whoever wakes up from them
/// is ready long before it runs. How long that was, as the kernel counts.
#[inline(never)]
fn known_queued() -> (i64, Duration) {
    let before = run_delay();
    let is_over = Arc::new(AtomicBool::new(false));
    let theirs = is_over.clone();
    let rival = std::thread::spawn(move || {
        stay_on(true);
        while !theirs.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    });
    stay_on(true);
    // Of this thread alone, on Linux; and nothing else is run on it behind us.
    assert_eq!(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 10) }, 0);
    for _ in 0..NAPS {
        std::thread::sleep(Duration::from_millis(2));
    }
    is_over.store(true, Ordering::Relaxed);
    stay_on(false);
    while !rival.is_finished() {
        std::hint::spin_loop();
    }
    (NAPS, run_delay() - before)
}

/// Sleeps that nobody stands behind: for how long they were ready to end.
#[inline(never)]
fn known_slept() -> (i64, Duration) {
    let before = run_delay();
    for _ in 0..NAPS {
        std::thread::sleep(Duration::from_millis(20));
    }
    (NAPS, run_delay() - before)
}

async fn run(name: &'static str, call: impl FnOnce() -> (i64, Duration) + Send + 'static) {
    tokio::spawn(async move {
        let (count, time) = call();
        println!("{name} {} {count} {}", tokio::task::id(), time.as_nanos());
    })
    .await
    .unwrap();
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let pages = evicted(&arguments[1]);
    if arguments.len() > 2 {
        storm();
    }
    multi_thread(2).enable_all().build().unwrap().block_on(async move {
        // Until whoever watches has found us.
        tokio::time::sleep(Duration::from_millis(1000)).await;
        run("preempted", known_preempted).await;
        run("faults", move || known_faults(pages)).await;
        run("quiet", || (0, Duration::ZERO)).await;
        run("slept", known_slept).await;
        run("queued", known_queued).await;
    });
}
