// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is hard on whoever stands in front of malloc(): threads that free each other's blocks,
//! growing and shrinking ones, signals in between, children that go on allocating, libraries that
//! come and go. Everything is freed in the end but what `known_kept` keeps; wrong contents abort.
use std::hint::black_box;
use std::sync::mpsc;

extern "C" {
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(status: i32) -> !;
    fn signal(number: i32, handler: extern "C" fn(i32)) -> usize;
    fn ualarm(microseconds: u32, interval: u32) -> u32;
    fn dlopen(name: *const u8, flags: i32) -> *mut u8;
    fn dlsym(library: *mut u8, name: *const u8) -> *mut u8;
    fn dlclose(library: *mut u8) -> i32;
}

const SIGALRM: i32 = 14;

extern "C" fn on_alarm(_: i32) {}

fn block(i: usize) -> Vec<u8> {
    let mut block = vec![i as u8; 1 + i * 37 % 3000];
    block.reserve_exact(i % 5000);
    if i % 3 == 0 {
        block.shrink_to_fit();
    }
    block
}

fn check(block: &[u8], i: usize) {
    assert!(block.len() == 1 + i * 37 % 3000 && block.iter().all(|byte| *byte == i as u8));
}

fn churn(count: usize) {
    let (send, receive) = mpsc::sync_channel::<(usize, Vec<u8>)>(64);
    let other = std::thread::spawn(move || receive.iter().for_each(|(i, block)| check(&block, i)));
    for i in 0..count {
        send.send((i, black_box(block(i)))).unwrap();
    }
    drop(send);
    other.join().unwrap();
}

fn fork_now_and_then() {
    for _ in 0..40 {
        let kept: Vec<_> = (0..200).map(block).collect();
        // SAFETY: the child does what a child of one thread may, on this allocator.
        unsafe {
            let child = fork();
            if child == 0 {
                kept.iter().enumerate().for_each(|(i, block)| check(block, i));
                drop(kept);
                (0..500).for_each(|i| check(&black_box(block(i)), i));
                _exit(0);
            }
            let mut status = 0;
            assert_eq!(waitpid(child, &mut status, 0), child);
            assert_eq!(status, 0);
        }
    }
}

/// A library that allocates when it is asked for, and goes.
fn load_now_and_then() {
    for _ in 0..40 {
        // SAFETY: names end with a zero, and what is called takes nothing.
        unsafe {
            let library = dlopen(c"libgcc_s.so.1".as_ptr().cast(), 2);
            if !library.is_null() {
                black_box(dlsym(library, c"_Unwind_Resume".as_ptr().cast()));
                dlclose(library);
            }
        }
        (0..500).for_each(|i| check(&black_box(block(i)), i));
    }
}

#[inline(never)]
fn known_kept() {
    for i in 0..2_000usize {
        std::mem::forget(black_box(vec![i as u8; 4096]));
    }
}

fn main() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).build().unwrap().block_on(async {
        tokio::spawn(tokio::task::yield_now()).await.unwrap();
        // On a busy machine the tables for stacks take their time, and no stack has no function.
        std::thread::sleep(std::time::Duration::from_secs(1));
        // SAFETY: the handler does nothing.
        unsafe {
            signal(SIGALRM, on_alarm);
            ualarm(500, 500);
        }
        let threads: Vec<_> = (0..3).map(|_| std::thread::spawn(|| churn(40_000))).collect();
        tokio::spawn(async { fork_now_and_then() }).await.unwrap();
        tokio::spawn(async { load_now_and_then() }).await.unwrap();
        tokio::spawn(async { known_kept() }).await.unwrap();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    println!("known_kept {} {}", 2_000 * 4096, 2_000 * 4096);
}
